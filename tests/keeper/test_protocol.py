"""Frames: any portions give the same frames, and nothing hostile gets further than BadFrame."""

from __future__ import annotations

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrubjay.keeper.protocol import FRAME_MAX_BYTES, BadFrame, FrameReader, encode_frame
from scrubjay.tape.record import Json

_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
_METAS = st.dictionaries(st.text(), st.recursive(_SCALARS, st.lists, max_leaves=5), max_size=5)
_FRAMES = st.lists(st.tuples(_METAS, st.binary(max_size=300)), max_size=6)


def _frame(meta: bytes, tail: bytes = b"") -> bytes:
    return pack("<IH", 2 + len(meta) + len(tail), len(meta)) + meta + tail


@given(frames=_FRAMES, cuts=st.lists(st.integers(min_value=0, max_value=3000)))
def test_any_split_of_the_stream_gives_the_same_frames(frames: list[tuple[Json, bytes]], cuts: list[int]) -> None:
    stream = b"".join(encode_frame(meta, tail) for meta, tail in frames)
    ends = [*sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    reader, found = FrameReader(), list[tuple[Json, bytes]]()

    for start, end in zip([0, *ends], ends, strict=False):
        found += reader.feed(stream[start:end])

    assert found == frames


def test_byte_by_byte_a_frame_appears_with_its_last_byte() -> None:
    stream = encode_frame({"do": "write"}, b"\0\xff")
    reader = FrameReader()

    found = [reader.feed(stream[position : position + 1]) for position in range(len(stream))]

    assert found == [[]] * (len(stream) - 1) + [[({"do": "write"}, b"\0\xff")]]


@pytest.mark.parametrize(
    ("length", "meta_length"),
    [(0xFFFFFFFF, 10), (FRAME_MAX_BYTES + 1, 10), (0, 0), (1, 0), (10, 9), (2, 1), (100, 0xFFFF)],
)
def test_hostile_lengths_are_refused_as_soon_as_they_are_read(length: int, meta_length: int) -> None:
    with pytest.raises(BadFrame):
        FrameReader().feed(pack("<IH", length, meta_length))


@pytest.mark.parametrize(
    "meta",
    [
        b"[" * 60_000,
        b'{"a":' * 10_000,
        b"9" * 60_000,
        b'{"do": 1' + b"0" * 5000 + b"}",
        b"\xff\xfe",
        b"{",
        b"[]",
        b"null",
        b'"do"',
        b"",
    ],
    ids=["brackets", "braces", "digits", "a huge number", "no UTF-8", "cut", "a list", "null", "a text", "nothing"],
)
def test_meta_that_is_no_object_or_a_bomb_is_refused(meta: bytes) -> None:
    with pytest.raises(BadFrame):
        FrameReader().feed(_frame(meta))


@given(st.binary(max_size=2000))
def test_no_bytes_do_more_than_be_refused(data: bytes) -> None:
    try:
        frames = FrameReader().feed(data)
    except BadFrame:
        return

    assert len(frames) <= len(data) // 8


def test_the_largest_frame_passes() -> None:
    meta: Json = {"do": "write"}
    room = FRAME_MAX_BYTES - 2 - len(b'{"do":"write"}')

    assert FrameReader().feed(encode_frame(meta, bytes(room))) == [(meta, bytes(room))]
    with pytest.raises(BadFrame):
        FrameReader().feed(encode_frame(meta, bytes(room + 1)))
