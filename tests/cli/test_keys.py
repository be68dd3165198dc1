from __future__ import annotations

import pytest

from scrubjay.cli.keys import DetachKeys, encode_key
from scrubjay.errors import BadKey


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("enter", b"\r"),
        ("ctrl-c", b"\x03"),
        ("Ctrl+C", b"\x03"),
        ("C-c", b"\x03"),
        ("ctrl-\\", b"\x1c"),
        ("alt-x", b"\x1bx"),
        ("alt-enter", b"\x1b\r"),
        ("shift-tab", b"\x1b[Z"),
        ("up", b"\x1b[A"),
        ("F5", b"\x1b[15~"),
        ("y", b"y"),
        ("é", "é".encode()),
    ],
)
def test_a_key_is_what_a_terminal_sends_for_it(name: str, sent: bytes) -> None:
    assert encode_key(name) == sent


@pytest.mark.parametrize("name", ["", "foo", "ctrl-", "ctrl-f5", "alt-", "\x07"])
def test_what_is_no_key_is_refused_by_name(name: str) -> None:
    with pytest.raises(BadKey, match="is not a key"):
        encode_key(name)


@pytest.mark.parametrize("key", [b"\x1c", b"\x1b[92;5u", b"\x1b[27;5;92~"])
def test_the_detach_key_twice_detaches_in_every_encoding(key: bytes) -> None:
    apart, together = DetachKeys(), DetachKeys()

    assert apart.feed(key) == (b"", False)
    assert apart.feed(key) == (b"", True)
    assert together.feed(b"ls" + key + key) == (b"ls", True)


def test_the_detach_key_once_reaches_the_program_after_all() -> None:
    keys = DetachKeys()

    assert keys.feed(b"\x1c") == (b"", False)
    assert keys.holding
    assert keys.feed(b"x") == (b"\x1cx", False)
    assert not keys.holding


def test_a_held_key_is_released_when_nothing_follows() -> None:
    keys = DetachKeys()
    keys.feed(b"\x1c")

    assert keys.release() == b"\x1c"
    assert keys.feed(b"\x1c") == (b"", False)


def test_everything_else_passes_as_it_is() -> None:
    keys = DetachKeys()

    assert keys.feed(b"\x1b[A\x03\x00\xff") == (b"\x1b[A\x03\x00\xff", False)
    assert keys.feed(b"a\x1cb") == (b"a\x1cb", False)
