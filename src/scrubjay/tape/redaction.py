"""The mark that stands where a secret was. Pure."""

from __future__ import annotations

_MARKS = ("\u2039redacted\u203a", "\u2039masked\u203a")


def veil(width: int) -> str:
    """What hides a secret of so many columns: just as wide, so that whatever stands beside it stays where it is."""
    for mark in _MARKS:
        if len(mark) <= width:
            return mark + "*" * (width - len(mark))
    return "*" * width


def is_veiled(text: str) -> bool:
    """Whether a secret was hidden in it."""
    return any(mark in text for mark in _MARKS)
