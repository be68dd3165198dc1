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
    "turn": _WORD_MAX * 2,
    "model": _WORD_MAX * 2,
}
_GIVEN_MAX = 4096  # before secrets are hidden
_SAID = ("prompt", "response")  # what may come besides, and be longer
SAID_MAX_BYTES = 64 << 10  # kept of it: however it is escaped, a record has room for it
SAID_GIVEN_MAX_BYTES = 128 << 10
CUT = "\n[… the rest was not kept]"
# Each would take six bytes in JSON, and shows nothing.
_CONTROLS = {code: None for code in (*range(32), *range(127, 160)) if code not in (9, 10)}


class BadEvent(Exception):
    """A report that is not as it should be."""


class HookEvents:
    """The reports of one pod."""

    def __init__(self, hide: Callable[[str], str]) -> None:
        """``hide`` takes secrets out of a text."""
        self._hide = hide
        self._taken: dict[tuple[str, int], None] = {}

    def take(self, meta: Meta, said: bytes = b"") -> dict[str, object] | None:
        """What to record of a report, and of what is ``said`` in it; None if it was taken before.

        BadEvent if it is none.
        """
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
        if "says" in meta:
            fields[_said_what(meta, said)] = _cut(self._hide(said.decode("utf-8", "replace")).translate(_CONTROLS))
        if (source, seq) in self._taken:
            return None
        self._taken[source, seq] = None
        if len(self._taken) > REMEMBERED:
            del self._taken[next(iter(self._taken))]
        return fields


def _said_what(meta: Meta, said: bytes) -> str:
    what = meta["says"]
    if not isinstance(what, str) or what not in _SAID or len(said) > SAID_GIVEN_MAX_BYTES:
        raise BadEvent(f"'says' must be one of {_SAID}, of at most {SAID_GIVEN_MAX_BYTES} bytes")
    return what


def _cut(text: str) -> str:
    data = text.encode("utf-8", "replace")
    if len(data) <= SAID_MAX_BYTES:
        return text
    return data[: SAID_MAX_BYTES - len(CUT.encode())].decode("utf-8", "ignore") + CUT


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
