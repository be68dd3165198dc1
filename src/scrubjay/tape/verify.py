"""Say whether a tape is whole, and where it is not.

Implements docs/tape-format.md, section 8. Verifying never changes a tape.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Literal

from scrubjay.tape.anchor import Anchor
from scrubjay.tape.format import BadRecord, Kind, chain_checksum
from scrubjay.tape.reader import Damage, Tape
from scrubjay.tape.segment import SealedSegment, list_segments

Verdict = Literal["clean", "torn", "damaged", "unanchored"]


@dataclass(frozen=True, slots=True)
class Hurt:
    """A damaged part of a tape and the stretch of time it takes away."""

    offset: int
    end: int
    from_at: int
    to_at: int | None  #: None when nothing readable follows
    why: str


@dataclass(frozen=True, slots=True)
class Report:
    """What verifying found."""

    verdict: Verdict
    records: int
    end: int  #: the offset after the last record of the intact beginning and what follows it
    last_at: int
    torn_bytes: int  #: at the end, of a record that was never acknowledged
    complete: bool  #: whether the tape was closed by its writer
    damage: tuple[Hurt, ...]

    def explain(self) -> str:
        """The finding in one sentence."""
        match self.verdict:
            case "clean":
                return "clean"
            case "unanchored":
                return "unanchored: every record is right, but nothing outside the tape says how many there were"
            case "torn":
                return f"torn at {self.end}: {self.torn_bytes} bytes of an unacknowledged tail, no end of recording"
            case "damaged":
                first = self.damage[0]
                return f"damaged at offset {first.offset}: {first.why}"


def verify(
    tape: Tape, anchor: Anchor, *, live: bool = False, progress: Callable[[int], None] = lambda _: None
) -> Report:
    """Check every record, the watermark and the seals. A ``live`` tape may end anywhere after its watermark."""
    synced = anchor.watermark.offset if anchor.watermark is not None else 0
    damage: list[Hurt] = []
    records, chain, last_at, end, last_kind = 0, 0, 0, 0, 0
    torn_bytes = 0
    chain_known = True
    reported = 0
    for item in tape.scan():
        if isinstance(item, Damage):
            if item.offset >= synced and not damage and anchor.watermark is not None:
                # Above the watermark the first bad record ends the tape: what follows was never acknowledged.
                torn_bytes = max(0, tape.end - item.offset)
                break
            damage.append(Hurt(item.offset, item.end, last_at, None, item.why))
            chain_known = False
            continue
        if damage and damage[-1].to_at is None:
            damage[-1] = _until(damage[-1], item.at)
        records += 1
        last_at, last_kind, end = item.at, item.kind, item.end
        chain = chain_checksum(chain, item.checksum)
        if chain_known and anchor.watermark is not None and end == synced and chain != anchor.watermark.chain:
            damage.append(Hurt(0, end, 0, last_at, "the records are not those that were synced"))
        if end - reported >= 1 << 20:
            progress(end - reported)
            reported = end
    progress(end - reported)
    if anchor.watermark is None and damage and damage[-1].to_at is None and damage[-1].end >= tape.end:
        torn_bytes = tape.end - damage.pop().offset
    if end < synced and not damage:
        damage.append(Hurt(end, synced, last_at, None, f"{synced - end} bytes that were synced are missing"))
    sealed, unanchored_seal = _check_seals(tape, anchor)
    damage.extend(sealed)
    complete = last_kind == Kind.SEAL and not torn_bytes
    verdict: Verdict
    if damage:
        verdict = "damaged"
    elif not complete and not live:
        verdict = "torn"
    elif anchor.watermark is None or unanchored_seal:
        verdict = "unanchored"
    else:
        verdict = "clean"
    return Report(verdict, records, end, last_at, torn_bytes, complete, tuple(damage))


def _until(hurt: Hurt, at: int) -> Hurt:
    return Hurt(hurt.offset, hurt.end, hurt.from_at, at, hurt.why)


def _check_seals(tape: Tape, anchor: Anchor) -> tuple[list[Hurt], bool]:
    """Damage the chain of sealed segments shows, and whether a seal has no anchor."""
    damage: list[Hurt] = []
    unanchored = False
    previous: bytes | None = bytes(32)
    for file in list_segments(tape.folder):
        if not file.sealed:
            previous = None
            continue
        try:
            with closing(SealedSegment(file)) as segment:
                index = segment.index
                digest = hashlib.sha256(index.previous)
                for number in range(len(index.frames)):
                    digest.update(segment.frame(number))
        except BadRecord:
            previous = None  # the scan has named it already
            continue
        if index.tape != tape.id:
            damage.append(Hurt(file.first, index.end, 0, None, f"a segment of another tape, {index.tape}"))
        elif digest.digest() != index.digest:
            damage.append(Hurt(file.first, index.end, 0, None, "the segment is not the one that was sealed"))
        elif previous is not None and index.previous != previous:
            damage.append(Hurt(file.first, index.end, 0, None, "the segment was not sealed after the one before it"))
        anchored = anchor.seals.get(file.number)
        if anchored is None:
            unanchored = True
        elif anchored != index.digest.hex():
            damage.append(Hurt(file.first, index.end, 0, None, "the seal is not the one kept outside the tape"))
        previous = index.digest
    return damage, unanchored
