"""The search index of the server's tapes, kept up to date beside everything else.

Indexing is work for a process of its own, which takes only the time nothing else wants; what is newest is indexed when
somebody searches.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import structlog

from scrubjay.errors import IndexDiscarded, NotATape, ScrubjayError
from scrubjay.ids import PodId
from scrubjay.query import Query
from scrubjay.replay.indexer import Indexer
from scrubjay.replay.keyframes import open_keyframes
from scrubjay.replay.search import Hit, SearchIndex
from scrubjay.replay.workers import Workers
from scrubjay.tape.reader import Tape

WORTH_BYTES = 256 << 10  # of a tape that grows; one that has ended is indexed at once

log = structlog.get_logger()


class Shelf:
    """A tape and what the library knows of it."""

    __slots__ = ("created_us", "growing", "pod", "tape")

    def __init__(self, pod: PodId, tape: Tape, created_us: int, *, growing: bool) -> None:
        self.pod, self.tape, self.created_us, self.growing = pod, tape, created_us, growing


class Library:
    """All tapes, to be searched."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="library")
        self._indexed: dict[PodId, int] = {}
        self._finished: set[PodId] = set()
        self._forgotten: set[PodId] = set()  # since indexing last began

    async def search(
        self, query: Query, shelves: list[Shelf], *, since_us: int | None, until_us: int | None, limit: int
    ) -> list[Hit]:
        """Rows that match, the newest first, in everything recorded up to now."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._search, query, shelves, since_us, until_us, limit)

    def _search(
        self, query: Query, shelves: list[Shelf], since_us: int | None, until_us: int | None, limit: int
    ) -> list[Hit]:
        tapes = [shelf.pod for shelf in shelves]
        with SearchIndex(self._path) as index:
            for attempt in (1, 2):
                try:
                    bring_up_to_date(index, shelves)
                    return index.search(query, tapes=tapes, since_us=since_us, until_us=until_us, limit=limit)
                except IndexDiscarded:  # it was damaged; it can be made again on the spot
                    if attempt == 2:
                        raise
        raise AssertionError

    async def keep_up(self, shelves: Iterable[Shelf]) -> None:
        """Have a process of its own index what has grown enough since the last time."""
        self._forgotten.clear()
        behind, ends = await asyncio.to_thread(self._find_behind, list(shelves))
        if not behind:
            return
        work = {
            "index": str(self._path),
            "tapes": [[str(shelf.tape.folder), shelf.pod, shelf.created_us] for shelf in behind],
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "scrubjay.server.library",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            with suppress(ProcessLookupError):
                os.sched_setscheduler(process.pid, os.SCHED_IDLE, os.sched_param(0))
            assert process.stdin is not None
            # It stays open: by its end the process learns that nobody waits for it any more.
            process.stdin.write(json.dumps(work).encode() + b"\n")
            await process.wait()
            process.stdin.close()
        except asyncio.CancelledError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            raise
        if process.returncode:
            log.warning("library.indexing_failed", status=process.returncode, tapes=len(behind))
        self._indexed.update(ends)
        self._finished.update(shelf.pod for shelf in behind if not shelf.growing)
        for pod in self._forgotten.intersection(ends):
            self.forget(pod)  # once more: it may have been indexed after that

    def forget(self, pod: PodId) -> None:
        """A tape was deleted: nobody shall find in the index what it has shown."""
        self._forgotten.add(pod)
        self._indexed.pop(pod, None)
        self._finished.discard(pod)
        self._thread.submit(self._forget, pod)

    def _forget(self, pod: PodId) -> None:
        try:
            if self._path.exists():
                with SearchIndex(self._path) as index:
                    index.forget(pod)
        except (OSError, ScrubjayError) as error:
            log.warning("library.not_forgotten", pod=pod, error=str(error))

    def is_finished(self, pod: PodId) -> bool:
        """Whether a tape that has ended is indexed to its end."""
        return pod in self._finished

    def _find_behind(self, shelves: list[Shelf]) -> tuple[list[Shelf], dict[PodId, int]]:
        """The tapes that have grown enough, and how far they go now."""
        behind: list[Shelf] = []
        ends: dict[PodId, int] = {}
        for shelf in shelves:
            try:
                done, end = self._indexed.get(shelf.pod, -1), shelf.tape.end
            except (OSError, IndexError):
                continue  # it is being deleted
            if end - done >= WORTH_BYTES if shelf.growing else end > done:
                behind.append(shelf)
                ends[shelf.pod] = end
        return behind, ends

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=True, cancel_futures=True)


def bring_up_to_date(index: SearchIndex, shelves: Iterable[Shelf]) -> None:
    """Index what was recorded since the last time."""
    with Workers() as workers:
        for shelf in shelves:
            with suppress(NotATape):
                if shelf.growing or index.progress(shelf.pod).offset < shelf.tape.end:
                    _index(index, shelf, workers)


def _index(index: SearchIndex, shelf: Shelf, workers: Workers) -> None:
    keyframes = open_keyframes(Path(shelf.tape.folder).parent, shelf.tape, workers.identity)
    try:
        index.register(shelf.pod, shelf.created_us or None)
        # What stands on a screen now can be searched, though nothing on the tape has ended it.
        Indexer(shelf.tape, workers, keyframes, index).run(now_us=time.time_ns() // 1000)
    finally:
        keyframes.close()


def main() -> None:
    """Index the tapes that are named in the first line of standard input, unless its end comes first."""
    work = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_whoever_asked, daemon=True).start()
    shelves = [
        Shelf(PodId(pod), Tape(Path(folder), pod), created, growing=True) for folder, pod, created in work["tapes"]
    ]
    with SearchIndex(Path(work["index"])) as index:
        try:
            bring_up_to_date(index, shelves)
        except IndexDiscarded:
            bring_up_to_date(index, shelves)


def _end_with_whoever_asked() -> None:
    sys.stdin.read()
    os._exit(1)  # it can be killed at any moment; what was indexed is kept


if __name__ == "__main__":
    main()
