"""What is kept of a tape outside the tape, so that a cut or changed tape does not look whole.

Implements docs/tape-format.md, section 5. The watermark is the writer's; a line per sealed segment
is the sealer's.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from scrubjay.tape.disk import Folder
from scrubjay.tape.watermark import Watermark, decode_watermark

WATERMARK = "watermark"
_SEALS = "seals"
_SEAL = re.compile(r"(([0-9]+) ([0-9a-f]{64})) ([0-9a-f]{8})")


@dataclass(frozen=True, slots=True)
class Anchor:
    """What is known of a tape from outside it."""

    watermark: Watermark | None
    seals: dict[int, str]  #: SHA-256 by the number of the sealed segment


def read_anchor(folder: Path, tape: str) -> Anchor:
    """What ``folder`` says about ``tape``; another tape's watermark does not count."""
    seals: dict[int, str] = {}
    try:
        lines = (folder / _SEALS).read_text("ascii", "replace").splitlines()
    except FileNotFoundError:
        lines = []
    for line in lines:
        match = _SEAL.fullmatch(line)
        if match is not None and int(match[4], 16) == crc32(match[1].encode()):
            seals[int(match[2])] = match[3]
    return Anchor(_read_watermark(folder, tape), seals)


def read_synced(folder: Path, tape: str) -> int:
    """How much of ``tape`` is known to be on the medium, while its writer is at work too."""
    watermark = _read_watermark(folder, tape)
    return watermark.offset if watermark is not None else 0


def _read_watermark(folder: Path, tape: str) -> Watermark | None:
    try:
        watermark = decode_watermark((folder / WATERMARK).read_bytes())
    except FileNotFoundError:
        return None
    return watermark if watermark is not None and watermark.tape == tape else None


def add_seal(folder: Path, number: int, digest: bytes) -> None:
    """Keep the digest of a sealed segment; it is on the medium when this returns."""
    fd = os.open(folder / _SEALS, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        line = f"{number} {digest.hex()}"
        # A line end comes first, too: a line that a power cut left half written must not swallow this one.
        os.write(fd, f"\n{line} {crc32(line.encode()):08x}\n".encode())
        os.fsync(fd)
    finally:
        os.close(fd)
    Folder(str(folder)).sync()
