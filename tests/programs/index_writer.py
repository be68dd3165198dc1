"""A process that adds rows to a search index, batch by batch, and goes on where it was left."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from unittest.mock import patch

from scrubjay.replay.rows import Row
from scrubjay.replay.search import SearchIndex

BATCH = 300


def row(number: int) -> Row:
    """The row of that number, which names itself."""
    return Row(number * 1000, number, number % 40, "shown", f"common row{number} of {number % 7} things")


def main() -> None:
    """``index_writer PATH TAPE ROWS [DIE]``: with DIE, in the middle of the batch of that number."""
    path, tape, until = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    die = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    with SearchIndex(path) as index:
        progress = index.progress(tape)
        assert progress.state == str(progress.offset).encode() * bool(progress.offset)
        for batch, start in enumerate(range(progress.offset, until, BATCH), 1):
            if batch == die:
                patch("scrubjay.replay.search.encode_rows", _die).start()
            stop = min(until, start + BATCH)
            index.add(tape, map(row, range(start, stop)))
            index.finish_batch(tape, stop, str(stop).encode())
            print(stop, flush=True)


def _die(_rows: list[Row]) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
