"""What an agent's hooks report: which of it may be recorded, and each report once. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from scrubjay.keeper.protocol import Meta

REMEMBERED = 1024  # reports that may come a second time
_WORD_MAX, _TEXT_MAX, _PATH_MAX = 64, 500, 1000
# What may be said besides source, number and event, and how many characters of it are kept.
_FIELDS = {
    "tool": _WORD_MAX * 2,
    "kind": _WORD_MAX,
    "message": _TEXT_MAX,
    "error": _TEXT_MAX,
    "conversation": _WORD_MAX * 2,
    "transcript": _PATH_MAX,
}
_GIVEN_MAX = 4096  # before secrets are hidden


class BadEvent(Exception):
    """A report that is not as it should be."""


class HookEvents:
    """The reports of one pod."""

    def __init__(self, hide: Callable[[str], str]) -> None:
        """``hide`` takes secrets out of a text."""
        self._hide = hide
        self._taken: dict[tuple[str, int], None] = {}

    def take(self, meta: Meta) -> dict[str, object] | None:
        """What to record of a report; None if it was taken before. BadEvent if it is none."""
        source, event, seq = _word(meta, "source"), _word(meta, "event"), meta.get("seq")
        if not isinstance(seq, int) or isinstance(seq, bool) or not 0 < seq < 1 << 53:
            raise BadEvent("'seq' must be a number above 0")
        fields: dict[str, object] = {"event": event, "source": source, "seq": seq}
        for name, limit in _FIELDS.items():
            value = meta.get(name)
            if value is None:
                continue
            if not isinstance(value, str) or len(value) > _GIVEN_MAX:
                raise BadEvent(f"{name!r} must be a text of at most {_GIVEN_MAX} characters")
            # Secrets first: one that is cut in half is not found any more.
            fields[name] = self._hide(value)[:limit]
        if (source, seq) in self._taken:
            return None
        self._taken[source, seq] = None
        if len(self._taken) > REMEMBERED:
            del self._taken[next(iter(self._taken))]
        return fields


def _word(meta: Meta, name: str) -> str:
    value = meta.get(name)
    if (
        not isinstance(value, str)
        or not 0 < len(value) <= _WORD_MAX
        or not value.isascii()
        or not all(letter.isalnum() or letter in "-_." for letter in value)
    ):
        raise BadEvent(f"{name!r} must be a word of at most {_WORD_MAX} letters and digits")
    return value
