"""One frozen class of options per process, filled in once at the edge and passed down.

docs/settings.md lists every field; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from scrubjay.errors import BadSetting

WhenFull = Literal["pause", "best_effort"]

SYNC_MS_DEFAULT = 200  # a power cut loses at most this; a sync per record costs nine times as much
_SYNC_MS_MAX = 60_000


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line was told by flags and environment."""

    data: Path
    """Where recordings are kept (``--data``, ``SCRUBJAY_DATA``; by default ``scrubjay`` under ``XDG_STATE_HOME``)."""

    sync_ms: int = SYNC_MS_DEFAULT
    """The longest a recorded byte waits for the disk while output flows (``SCRUBJAY_SYNC_MS``)."""

    when_full: WhenFull = "pause"
    """On a full disk, ``pause`` the agent or go on with ``best_effort`` and a gap (``SCRUBJAY_WHEN_FULL``)."""

    term: str = "xterm-256color"
    """The terminal type agents are told they have (``SCRUBJAY_TERM``)."""


def read_settings(environ: Mapping[str, str], *, data: Path | None) -> Settings:
    """Flags first, then the environment, then the defaults; BadSetting names what cannot be used."""
    return Settings(
        data=(data if data is not None else _data_folder(environ)).absolute(),
        sync_ms=_sync_ms(environ.get("SCRUBJAY_SYNC_MS")),
        when_full=_when_full(environ.get("SCRUBJAY_WHEN_FULL")),
        term=environ.get("SCRUBJAY_TERM") or "xterm-256color",
    )


def _data_folder(environ: Mapping[str, str]) -> Path:
    if given := environ.get("SCRUBJAY_DATA"):
        return Path(given).expanduser()
    # The specification says to ignore a relative XDG path.
    state = Path(environ.get("XDG_STATE_HOME") or "")
    if not state.is_absolute():
        state = Path.home() / ".local" / "state"
    return state / "scrubjay"


def _sync_ms(raw: str | None) -> int:
    if not raw:
        return SYNC_MS_DEFAULT
    if not raw.isascii() or not raw.isdigit() or not 1 <= int(raw) <= _SYNC_MS_MAX:
        raise BadSetting(f"SCRUBJAY_SYNC_MS={raw!r} is not a number of milliseconds", hint=f"use 1 to {_SYNC_MS_MAX}")
    return int(raw)


def _when_full(raw: str | None) -> WhenFull:
    match raw or "pause":
        case "pause":
            return "pause"
        case "best_effort":
            return "best_effort"
        case other:
            raise BadSetting(f"SCRUBJAY_WHEN_FULL={other!r} is not a way to go on", hint="use pause or best_effort")
