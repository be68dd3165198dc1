"""The program status protocol, OSC 7501: what a program says of itself to a terminal that listens. Pure.

A report is pairs ``key=value`` joined by colons, and replaces the one before it of the same ``id``. What a program
says is untrusted text, like everything it prints.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from dataclasses import dataclass

from scrubjay.status.claims import EXECUTING, IDLE, PERMISSION, QUESTION, WAITING, Claim

PREFIX = b"7501;"
QUERY = b"7501;?"

_TASKS_MAX = 64  # sub-tasks that are kept; nobody has more that matter
_MESSAGE_MAX = 200
_TRUST = 0.98
_KINDS = {"permission": PERMISSION, "question": QUESTION}


@dataclass(frozen=True, slots=True)
class Report:
    """One report."""

    state: str
    id: str = ""
    kind: str = ""
    message: str = ""


def parse_report(osc: bytes) -> Report | None:
    """The report in an OSC's text; None if it is none."""
    if not osc.startswith(PREFIX) or osc == QUERY:
        return None
    said = osc[len(PREFIX) :].decode("utf-8", "replace")
    pairs = {key: value for key, _, value in (pair.partition("=") for pair in said.split(":"))}
    state = pairs.get("state", "")
    return Report(state, pairs.get("id", ""), pairs.get("kind", ""), _message(pairs.get("msg", ""))) if state else None


def _message(encoded: str) -> str:
    try:
        said = b64decode(encoded, validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return ""
    return " ".join(said.split())[:_MESSAGE_MAX]


class ProgramStatus:
    """What a program has said so far."""

    def __init__(self) -> None:
        self._reports: dict[str, Report] = {}

    def hear(self, report: Report, at: int, offset: int) -> Claim | None:
        """Take in a report; what the program claims now, None if nothing any more."""
        if report.state == "clear":
            if not report.id:
                self._reports.clear()
            else:
                self._reports.pop(report.id, None)
        elif report.id in self._reports or len(self._reports) < _TASKS_MAX:
            self._reports[report.id] = report
        # The program itself is what counts; its sub-tasks do only where it says nothing of its own.
        reports = [self._reports[""]] if "" in self._reports else list(self._reports.values())
        claims = [claim for told in reports if (claim := _claim(told, at, offset)) is not None]
        return max(claims, key=_urgency, default=None)


def _urgency(claim: Claim) -> int:
    return 2 if claim.states == WAITING else 1 if claim.states == EXECUTING else 0


def _claim(report: Report, at: int, offset: int) -> Claim | None:
    why = " ".join(filter(None, (report.state, report.kind)))
    detail = report.message or None
    match report.state, report.kind:
        case "working", _:
            # What it is doing changes often and is no news by itself.
            return Claim("program", EXECUTING, "working", at, offset, trust=_TRUST)
        case ("error", _) | ("blocked", "auth"):
            return Claim("program", IDLE, why, at, offset, problem=detail or "error", detail=detail, trust=_TRUST)
        case "blocked", kind:
            waiting_for = _KINDS.get(kind, QUESTION)
            return Claim("program", WAITING, why, at, offset, waiting_for=waiting_for, detail=detail, trust=_TRUST)
        case (("idle" | "done"), _):
            return Claim("program", IDLE, why, at, offset, trust=_TRUST)
        case _:
            return None  # of a later revision
