"""Statuses as plain data, to be kept and sent. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from scrubjay.status.claims import ANY, Claim, Source
from scrubjay.status.detector import Verdict
from scrubjay.status.watching import Change
from scrubjay.tape.record import Json


def encode_change(change: Change) -> Json:
    """A status, with the evidence for it; what is None is left out."""
    verdict = change.verdict
    fields: Json = {
        "at": change.at,
        "offset": change.offset,
        "activity": verdict.activity,
        "waiting_for": verdict.waiting_for,
        "problem": verdict.problem,
        "detail": verdict.detail,
        "confidence": verdict.confidence,
        "evidence": [_encode_claim(claim) for claim in verdict.agreeing],
        "outvoted": [_encode_claim(claim) for claim in verdict.outvoted] or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _encode_claim(claim: Claim) -> Json:
    fields: Json = {
        "signal": claim.source,
        "says": sorted(claim.states),
        "why": claim.why,
        "since": claim.at,
        "offset": claim.offset,
        "waiting_for": claim.waiting_for,
        "problem": claim.problem,
        "detail": claim.detail,
        "trust": claim.trust,
    }
    return {name: value for name, value in fields.items() if value is not None}


def decode_change(row: Mapping[str, object]) -> Change | None:
    """The status that was kept; None if it cannot be read."""
    at, offset, activity = row.get("at"), row.get("offset"), row.get("activity")
    if not isinstance(at, int) or not isinstance(offset, int) or activity not in ANY:
        return None
    confidence = row.get("confidence")
    verdict = Verdict(
        activity,
        waiting_for=_text(row, "waiting_for"),
        problem=_text(row, "problem"),
        detail=_text(row, "detail"),
        confidence=float(confidence) if isinstance(confidence, int | float) else 0.0,
        agreeing=_decode_claims(row.get("evidence")),
        outvoted=_decode_claims(row.get("outvoted")),
    )
    return Change(at, offset, verdict)


def _decode_claims(rows: object) -> tuple[Claim, ...]:
    found = cast(list[object], rows) if isinstance(rows, list) else []
    return tuple(_decode_claim(cast(Json, row)) for row in found if isinstance(row, dict))


def _decode_claim(row: Json) -> Claim:
    says, since, offset, trust = row.get("says"), row.get("since"), row.get("offset"), row.get("trust")
    return Claim(
        cast(Source, row.get("signal", "output")),
        frozenset(state for state in ANY if isinstance(says, list) and state in says),
        str(row.get("why", "")),
        since if isinstance(since, int) else 0,
        offset if isinstance(offset, int) else 0,
        waiting_for=_text(row, "waiting_for"),
        problem=_text(row, "problem"),
        detail=_text(row, "detail"),
        trust=float(trust) if isinstance(trust, int | float) else 0.0,
    )


def _text(row: Mapping[str, object], name: str) -> str | None:
    value = row.get(name)
    return value if isinstance(value, str) else None
