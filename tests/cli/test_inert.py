from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrubjay.cli.inert import InertFilter, catch_up

_ALLOWED = re.compile(rb"(?:\x1b\[[0-9;:]*m|[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f])*", re.DOTALL)


def _filtered(*portions: bytes, colours: bool = True) -> bytes:
    inert = InertFilter(colours=colours)
    return b"".join(inert.feed(portion) for portion in portions) + inert.finish()


@pytest.mark.parametrize(
    "hostile",
    [
        b"\x1b]52;c;aGVsbG8=\x07",
        b"\x1b]0;title\x07",
        b"\x1b]0;title\x1b\\",
        b"\x1b[21t",
        b"\x1b]8;;file:///etc/passwd\x1b\\link\x1b]8;;\x1b\\",
        b"\x1bP$qm\x1b\\",
        b"\x1b_Gdata\x1b\\",
        b"\x1b[6n",
        b"\x1b[?1049h",
        b"\x1bc",
        b"\xc2\x9b6n",
        b"\x07\x05\x08",
        b"\x1b]1337;File=:AAAA\x07",
    ],
)
def test_nothing_that_acts_on_a_terminal_gets_through(hostile: bytes) -> None:
    shown = _filtered(b"before" + hostile + b"after")

    assert b"before" in shown
    assert b"after" in shown
    assert _ALLOWED.fullmatch(shown.removesuffix(b"\x1b[0m"))


@given(st.binary(max_size=400), st.integers(0, 400))
def test_any_bytes_cut_anywhere_come_out_harmless(data: bytes, cut: int) -> None:
    shown = _filtered(data[:cut], data[cut:])

    assert _ALLOWED.fullmatch(shown)


def test_colours_stay_on_a_terminal_and_go_elsewhere() -> None:
    red = b"\x1b[31mred\x1b[0m\r\n"

    assert _filtered(red) == b"\x1b[31mred\x1b[0m\n\x1b[0m"
    assert _filtered(red, colours=False) == b"red\n"


def test_a_sequence_split_anywhere_is_filtered_the_same() -> None:
    data = "naïve \x1b[1;32mgreen\x1b[m \x1b]2;t\x1b\\ done\r\nnext".encode()

    for cut in range(len(data) + 1):
        assert _filtered(data[:cut], data[cut:], colours=False) == "naïve green  done\nnext".encode()


def test_a_string_without_an_end_does_not_swallow_memory_or_time() -> None:
    inert = InertFilter(colours=False)
    for _ in range(64):
        inert.feed(b"\x1b]0;" + b"x" * 65536)

    assert _ALLOWED.fullmatch(inert.feed(b"\x07end") + inert.finish())


def test_a_late_viewer_gets_modes_and_the_last_lines_but_no_queries() -> None:
    output = b"\x1b[?1049h\x1b[?25l" + b"old line\r\n" * 100 + b"\x1b[6n\x1b]11;?\x07\x1b[>c\x1bP+q544e\x1b\\new line"

    shown = catch_up(output, 60)

    assert shown.startswith(b"\x1b[?1049h\x1b[?25lold line\r\n")
    assert shown.endswith(b"old line\r\nnew line")


def test_a_short_recording_is_shown_whole() -> None:
    assert catch_up(b"hello", 100) == b"hello"
    assert catch_up(b"", 100) == b""
