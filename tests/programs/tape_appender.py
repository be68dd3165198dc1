"""A process that copies a tape and says what it has synced, for a test that kills it."""

from __future__ import annotations

import sys
from pathlib import Path

from scrubjay.ids import parse_pod_id
from scrubjay.store.tapes import ReplicatedTapes
from scrubjay.tape.raw_bytes import read_bytes
from scrubjay.tape.reader import Tape


def main() -> None:
    """Copy the tape in one folder into another, a few records at a time, until killed or done."""
    source, folder, pod = Path(sys.argv[1]), Path(sys.argv[2]), parse_pod_id(sys.argv[3])
    tape = Tape(source / "tape", pod)
    tapes = ReplicatedTapes(folder)
    end = tapes.have(pod).have
    for count, record in enumerate(tape.records(end), 1):
        if count % 7 == 0:
            tapes.append(pod, end, read_bytes(tape, end, record.end - end))
            end = record.end
        if count % 35 == 0:
            print(tapes.sync().kept[pod], flush=True)


if __name__ == "__main__":
    main()
