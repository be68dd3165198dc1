"""What is kept of a tape outside the tape, so that a cut or changed tape does not look whole.

Implements docs/tape-format.md, section 5. The watermark is the writer's; a line per sealed segment
is the sealer's.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from scrubjay.tape.watermark import Watermark, decode_watermark

WATERMARK = "watermark"
_SEALS = "seals"


@dataclass(frozen=True, slots=True)
class Anchor:
    """What is known of a tape from outside it."""

    watermark: Watermark | None
    seals: dict[int, str]  #: SHA-256 by the number of the sealed segment


def read_anchor(folder: Path, tape: str) -> Anchor:
    """What ``folder`` says about ``tape``; another tape's watermark does not count."""
    try:
        watermark = decode_watermark((folder / WATERMARK).read_bytes())
    except FileNotFoundError:
        watermark = None
    if watermark is not None and watermark.tape != tape:
        watermark = None
    seals: dict[int, str] = {}
    try:
        lines = (folder / _SEALS).read_text("ascii", "replace").splitlines()
    except FileNotFoundError:
        lines = []
    for line in lines:
        fields = line.split()
        if len(fields) == 2 and fields[0].isdigit():
            seals[int(fields[0])] = fields[1]
    return Anchor(watermark, seals)


def add_seal(folder: Path, number: int, digest: bytes) -> None:
    """Keep the digest of a sealed segment; it is on the medium when this returns."""
    fd = os.open(folder / _SEALS, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, f"{number} {digest.hex()}\n".encode())
        os.fsync(fd)
    finally:
        os.close(fd)
