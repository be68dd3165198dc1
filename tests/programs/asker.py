"""Ask the terminal twelve things, again and again, and keep what it answers.

Stand-alone: ``python -I -S asker.py LOG [--rounds N] [--settle MS] [--wait] [--apart]``. A round ends when everything
it asked was answered, or after eighty seconds. LOG gets a line of JSON for each round, with what was read in it and how
long the answers took, and one for what came after the last.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import select
import time
import tty

PROBES = (
    b"\x1b[c",
    b"\x1b[>c",
    b"\x1b[>q",
    b"\x1b[5n",
    b"\x1b[6n",
    b"\x1b[?6n",
    b"\x1b[?2026$p",
    b"\x1bP$qm\x1b\\",
    b"\x1b]10;?\x1b\\",
    b"\x1b]11;?\x1b\\",
    b"\x1b[?u",
    b"\x1b[?1004h",
)
ANSWERS = (
    rb"\x1b\[\?[\d;]+c",
    rb"\x1b\[>[\d;]+c",
    rb"\x1bP>\|[^\x1b]+\x1b\\",
    rb"\x1b\[0n",
    rb"\x1b\[\d+;\d+R",
    rb"\x1b\[\?\d+;\d+R",
    rb"\x1b\[\?2026;\d\$y",
    rb"\x1bP1\$r[^\x1b]*m\x1b\\",
    rb"\x1b\]10;rgb:[^\x1b]+\x1b\\",
    rb"\x1b\]11;rgb:[^\x1b]+\x1b\\",
    rb"\x1b\[\?\d+u",
    rb"\x1b\[I",
)
_DEADLINE_S = 80.0
_TOGETHER = b"".join(PROBES)


def all_answered(data: bytes) -> bool:
    """Whether there is an answer to every probe."""
    return all(re.search(answer, data) for answer in ANSWERS)


def _read(timeout_s: float) -> bytes:
    return os.read(0, 65536) if select.select([0], [], [], timeout_s)[0] else b""


def _settle(settle_s: float) -> bytes:
    """What comes until nothing has for a while."""
    data = b""
    while part := _read(settle_s):
        data += part
    return data


def main() -> None:
    """Ask."""
    parser = argparse.ArgumentParser()
    parser.add_argument("log")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--settle", type=int, default=20)
    parser.add_argument("--wait", action="store_true", help="for a byte before the first round")
    parser.add_argument("--apart", action="store_true", help="one write for each probe")
    options = parser.parse_args()
    tty.setraw(0)
    log = open(options.log, "w")  # noqa: SIM115
    if options.wait:
        os.write(1, b"ready")
        os.read(0, 1)
    for number in range(options.rounds):
        os.write(1, b"\x1b[?1004l\x1b[H" + b"x" * (number % 3))
        began = time.monotonic()
        for probe in PROBES if options.apart else (_TOGETHER,):
            os.write(1, probe)
        data = b""
        while not all_answered(data) and time.monotonic() - began < _DEADLINE_S:
            data += _read(1.0)
        took_ms = (time.monotonic() - began) * 1000
        data += _settle(options.settle / 1000)
        print(json.dumps({"round": number, "data": data.decode("latin-1"), "ms": took_ms}), file=log, flush=True)
    print(json.dumps({"round": None, "data": _settle(0.5).decode("latin-1"), "ms": 0}), file=log, flush=True)
    os.write(1, b"\r\ndone\r\n")
    os.read(0, 1)


if __name__ == "__main__":
    main()
