from __future__ import annotations

from scrubjay.cli.modes import Modes


def _left_after(*portions: bytes) -> bytes:
    modes = Modes()
    for portion in portions:
        modes.feed(portion)
    return modes.leave()


def test_a_program_that_set_nothing_leaves_only_its_colours() -> None:
    assert _left_after(b"hello\r\n") == b"\x1b[0m"


def test_the_message_after_an_unfinished_line_starts_a_new_one() -> None:
    assert _left_after(b"prompt$ ").endswith(b"\r\n\x1b[J")


def test_every_mode_that_was_switched_on_is_switched_off() -> None:
    left = _left_after(b"\x1b[?1049h\x1b[?1003;1006h\x1b[?2004h\x1b[?25l\x1b[>5u\x1b[2;20r\x1b=")

    for sequence in (b"?1049l", b"?1003l", b"?1006l", b"?2004l", b"?25h", b"\x1b[<99u", b"\x1b7\x1b[r\x1b8", b"\x1b>"):
        assert sequence in left


def test_a_mode_switched_off_again_is_left_alone() -> None:
    assert b"?1049l" not in _left_after(b"\x1b[?1049h", b"x", b"\x1b[?1049l")


def test_a_sequence_split_over_portions_is_seen() -> None:
    assert b"?1049l" in _left_after(b"text\x1b", b"[?10", b"49h")


def test_a_reset_forgets_everything() -> None:
    assert b"?1049l" not in _left_after(b"\x1b[?1049h\x1bc")


def test_a_late_viewer_enters_the_modes_in_force() -> None:
    modes = Modes()
    modes.feed(b"\x1b[?1049h\x1b[?25l\x1b[?2004h\x1b[?2004l")

    assert modes.enter() == b"\x1b[?1049h\x1b[?25l\x1b[?2004l"
