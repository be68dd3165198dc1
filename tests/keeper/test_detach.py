from __future__ import annotations

import pytest

from scrubjay.keeper.detach import DetachKeys


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
