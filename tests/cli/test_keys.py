from __future__ import annotations

import pytest

from scrubjay.cli.keys import encode_key
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
