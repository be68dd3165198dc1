"""Say whether a tape is whole, and where it is not.

Implements docs/tape-format.md, section 8. Verifying never changes a tape.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Literal

from scrubjay.tape.anchor import Anchor
from scrubjay.tape.format import BadRecord, Kind, chain_checksums
from scrubjay.tape.reader import Damage, Tape
from scrubjay.tape.sealed import SealedIndex
from scrubjay.tape.segment import SealedSegment, SegmentFile, list_segments

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
    found = _check_records(tape, anchor, progress)
    seal_damage, unanchored_seal = _check_seals(tape, anchor)
    damage = (*found.damage, *seal_damage)
    complete = found.last_kind == Kind.SEAL and not found.torn_bytes
    verdict: Verdict
    if damage:
        verdict = "damaged"
    elif not complete and not live:
        verdict = "torn"
    elif anchor.watermark is None or unanchored_seal:
        verdict = "unanchored"
    else:
        verdict = "clean"
    return Report(verdict, found.records, found.end, found.last_at, found.torn_bytes, complete, damage)


@dataclass(slots=True)
class _Found:
    records: int = 0
    end: int = 0
    last_at: int = 0
    last_kind: int = 0
    torn_bytes: int = 0
    damage: list[Hurt] = field(default_factory=list[Hurt])

    def hurt(self, unread: list[Damage], *, until: int | None) -> None:
        self.damage.extend(Hurt(item.offset, item.end, self.last_at, until, item.why) for item in unread)


def _check_records(tape: Tape, anchor: Anchor, progress: Callable[[int], None]) -> _Found:
    found = _Found()
    watermark = anchor.watermark
    marked = watermark.offset if watermark is not None else 0
    synced = max(marked, tape.sealed_end)
    chain = 0
    chain_at_mark = None if marked else 0
    unread: list[Damage] = []  # since the last record
    for item in tape.runs(stop=marked):
        if isinstance(item, Damage):
            unread.append(item)
            if item.offset >= synced and watermark is not None:
                # Above the watermark the first bad record ends the tape: what follows was never acknowledged.
                break
            continue
        found.hurt(unread, until=item.first_at)
        unread = []
        chain = chain_checksums(chain, item.checksums)
        if item.end == marked:
            chain_at_mark = chain
        found.records += item.count
        found.last_at, found.last_kind, found.end = item.last_at, item.last_kind, item.end
        progress(item.end - item.offset)
    torn = [item for item in unread if item.offset >= synced]
    if torn:
        found.torn_bytes = max(0, tape.end - torn[0].offset)
    found.hurt([item for item in unread if item.offset < synced], until=None)
    reached = max([found.end, *(hurt.end for hurt in found.damage)])
    if reached < synced:
        found.hurt([Damage(reached, synced, f"{synced - reached} bytes that were synced are missing")], until=None)
    elif not found.damage and watermark is not None and chain_at_mark != watermark.chain:
        found.damage.append(Hurt(0, marked, 0, found.last_at, "the records are not those that were synced"))
    return found


def _check_seals(tape: Tape, anchor: Anchor) -> tuple[list[Hurt], bool]:
    """Damage the chain of sealed segments shows, and whether a seal has no anchor."""
    damage: list[Hurt] = []

    def hurt(file: SegmentFile, index: SealedIndex, why: str) -> None:
        damage.append(Hurt(file.first, index.end, index.frames[0].at, None, why))

    missing = dict(anchor.seals)
    unanchored = False
    previous: bytes | None = bytes(32)
    for file in list_segments(tape.folder):
        if not file.sealed:
            if missing.pop(file.number, None) is not None:
                why = "the segment was sealed and is not any more"
                damage.append(Hurt(file.first, file.end or tape.end, 0, None, why))
            previous = None
            continue
        anchored = missing.pop(file.number, None)
        try:
            with closing(SealedSegment(file)) as segment:
                index = segment.index
                digest = hashlib.sha256(index.previous)
                for number in range(len(index.frames)):
                    digest.update(segment.frame(number))
        except BadRecord:
            previous = None  # the scan has named it already
            continue
        if segment.fault is not None:
            previous = None
            continue
        if index.tape != tape.id:
            hurt(file, index, f"a segment of another tape, {index.tape}")
        elif digest.digest() != index.digest:
            hurt(file, index, "the segment is not the one that was sealed")
        elif previous is not None and index.previous != previous:
            hurt(file, index, "the segment was not sealed after the one before it")
        if anchored is None:
            unanchored = True
        elif anchored != index.digest.hex():
            hurt(file, index, "the seal is not the one kept outside the tape")
        previous = index.digest
    if missing:
        end = tape.end
        damage.append(Hurt(end, end, 0, None, f"sealed segment {min(missing)} is not there"))
    return damage, unanchored
