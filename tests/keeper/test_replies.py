"""What a terminal answers is told from what a person types, however it is cut into pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrubjay.keeper.replies import Replies

_ANSWERS = {
    "device attributes": b"\x1b[?62;22c",
    "secondary attributes": b"\x1b[>1;10;0c",
    "tertiary attributes": b"\x1bP!|7E565445\x1b\\",
    "status": b"\x1b[0n",
    "cursor position": b"\x1b[24;80R",
    "cursor position with page": b"\x1b[?24;80;1R",
    "mode": b"\x1b[?2026;2$y",
    "old mode": b"\x1b[4;2$y",
    "setting": b"\x1bP1$r0m\x1b\\",
    "unknown setting": b"\x1bP0$r\x1b\\",
    "name": b"\x1bP>|xterm(390)\x1b\\",
    "capability": b"\x1bP1+r544E=787465726D\x1b\\",
    "foreground": b"\x1b]10;rgb:ffff/ffff/ffff\x07",
    "background": b"\x1b]11;rgb:0000/0000/0000\x1b\\",
    "cursor colour": b"\x1b]12;rgb:0000/0000/0000\x1b\\",
    "palette": b"\x1b]4;1;rgb:cccc/0000/0000\x07",
    "clipboard": b"\x1b]52;c;aGVsbG8=\x07",
    "program status": b"\x1b]7501;?\x1b\\",
    "keyboard flags": b"\x1b[?1u",
    "size in characters": b"\x1b[8;24;80t",
    "size in pixels": b"\x1b[4;600;800t",
    "size told by itself": b"\x1b[48;24;80;600;800t",
    "colour scheme": b"\x1b[?997;1n",
    "modifier keys": b"\x1b[>4;2m",
    "parameters": b"\x1b[2;1;1;120;120;1;0x",
    "graphics": b"\x1b[?1;0;256S",
    "image": b"\x1b_Gi=31;OK\x1b\\",
    "title": b"\x1b]lhello\x1b\\",
}
_KEYS = {
    "text": b"hello there",
    "umlaut": "äöü€".encode(),
    "arrow": b"\x1b[A",
    "application arrow": b"\x1bOA",
    "ctrl-arrow": b"\x1b[1;5C",
    "f3": b"\x1bOR",
    "shift-f3": b"\x1b[1;2R",
    "ctrl-shift-alt-f3": b"\x1b[1;8R",
    "f4": b"\x1b[1;2S",
    "f5": b"\x1b[15~",
    "delete": b"\x1b[3~",
    "back-tab": b"\x1b[Z",
    "linux f1": b"\x1b[[A",
    "kitty key": b"\x1b[97;5u",
    "modified key": b"\x1b[27;5;13~",
    "alt-x": b"\x1bx",
    "alt-P and more": b"\x1bPhello",
    "alt-] and more": b"\x1b]hello",
    "focus in": b"\x1b[I",
    "focus out": b"\x1b[O",
    "mouse": b"\x1b[<0;10;20M\x1b[<0;10;20m",
    "old mouse": b"\x1b[M !!",
    "two escapes": b"\x1b\x1b[A",
    "paste": b"\x1b[200~two\rlines\x1b[201~",
    "a paste that looks like an answer": b"\x1b[200~\x1b[?62;22c\x1b]11;rgb:0/0/0\x07\x1b[201~",
}


def _never() -> bool:
    return False


def _sift(*pieces: bytes) -> bytes:
    replies = Replies(_never)
    return b"".join([*(replies.feed(piece) for piece in pieces), replies.release()])


@pytest.mark.parametrize("name", _ANSWERS)
def test_an_answer_is_taken_out_wherever_it_is_cut(name: str) -> None:
    answer = _ANSWERS[name]

    for cut in range(len(answer) + 1):
        assert _sift(b"a" + answer[:cut], answer[cut:] + b"b") == b"ab", cut
    assert _sift(*(bytes([byte]) for byte in answer)) == b""


@pytest.mark.parametrize("name", _KEYS)
def test_a_key_is_left_alone_wherever_it_is_cut(name: str) -> None:
    key = _KEYS[name]

    for cut in range(len(key) + 1):
        assert _sift(key[:cut], key[cut:]) == key, cut
    assert _sift(*(bytes([byte]) for byte in key)) == key


_PIECES = st.lists(st.sampled_from([*_ANSWERS.values(), *_KEYS.values()]), max_size=8)


@given(pieces=_PIECES, cuts=st.lists(st.integers(0, 300), max_size=10))
def test_answers_among_keys_in_any_portions_leave_exactly_the_keys(pieces: list[bytes], cuts: list[int]) -> None:
    # A text may go on what stands before it; then it is not what it looks like.
    apart = [piece for piece in pieces if piece not in (_KEYS["alt-P and more"], _KEYS["alt-] and more"])]
    stream = b"".join(apart)
    ends = [*sorted(cut for cut in cuts if cut < len(stream)), len(stream)]

    typed = _sift(*(stream[start:end] for start, end in zip([0, *ends], ends, strict=False)))

    assert typed == b"".join(piece for piece in apart if piece not in _ANSWERS.values())


@given(data=st.lists(st.binary(max_size=40) | st.sampled_from([b"\x1b", b"[", b"]", b"P", b"1;", b"\\", b"\x07"])))
def test_nothing_is_added_and_nothing_but_answers_goes(data: list[bytes]) -> None:
    typed = _sift(*data)

    assert len(typed) <= sum(map(len, data))
    remaining = iter(b"".join(data))
    assert all(byte in remaining for byte in typed)


@pytest.mark.parametrize("asked", [True, False])
def test_what_may_be_the_place_of_the_cursor_is_f3_unless_the_program_has_just_asked(*, asked: bool) -> None:
    replies = Replies(lambda: asked)

    assert replies.feed(b"\x1b[1;2R") == (b"" if asked else b"\x1b[1;2R")
    assert replies.feed(b"\x1b[1;80R") == b""


def test_escape_is_kept_back_for_a_moment_only() -> None:
    replies = Replies(_never)

    assert replies.feed(b"\x1b") == b""
    assert replies.holding
    assert replies.hold_s == Replies.KEY_S
    assert replies.release() == b"\x1b"
    assert not replies.holding


def test_an_answer_that_does_not_end_is_passed_on_after_all() -> None:
    replies = Replies(_never)

    assert replies.feed(b"\x1b]11;rgb:") == b""
    assert replies.hold_s == Replies.ANSWER_S
    assert replies.release() == b"\x1b]11;rgb:"


def test_a_clipboard_of_any_size_is_dropped_without_being_kept() -> None:
    replies = Replies(_never)

    typed = replies.feed(b"x\x1b]52;c;")
    for _ in range(100):
        typed += replies.feed(b"QUJD" * 1024)
    assert replies.holding
    typed += replies.feed(b"QUJD\x1b")
    typed += replies.feed(b"\\y")

    assert typed == b"xy"
    assert not replies.holding


def test_other_strings_that_never_end_are_passed_on() -> None:
    replies = Replies(_never)
    data = b"\x1b]11;" + b"x" * (100 << 10)

    assert replies.feed(data) + replies.release() == data
