"""Signals and exit codes in words. Pure but for the system's own list of signals."""

from __future__ import annotations

import os
import signal


def signal_name(number: int) -> str:
    """``TERM`` for 15; the number itself if it has no name."""
    try:
        return signal.Signals(number).name.removeprefix("SIG")
    except ValueError:
        return str(number)


def signal_number(name: str) -> int | None:
    """15 for ``TERM`` or ``SIGTERM``; None if there is no such signal."""
    number = getattr(signal, f"SIG{name.upper().removeprefix('SIG')}", None)
    return number if isinstance(number, signal.Signals) else None


def exit_fields(wait_status: int) -> dict[str, object]:
    """How a process ended, as a shell would say it: ``status``, and ``signal`` if one ended it."""
    code = os.waitstatus_to_exitcode(wait_status)
    if code >= 0:
        return {"status": code}
    return {"status": 128 - code, "signal": signal_name(-code)}
