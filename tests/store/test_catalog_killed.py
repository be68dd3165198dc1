"""What was acknowledged is there, whatever becomes of the process or its disk."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import cast

import pytest
from sqlalchemy import Connection, select

from scrubjay.store import schema
from scrubjay.store.events import last_number, read_events
from tests.store.catalogs import check_integrity, open_catalog
from tests.support.paths import PROGRAMS
from tests.support.strace import tampered
from tests.support.tiers import sized

pytestmark = pytest.mark.anyio

_WRITER = PROGRAMS / "numbered_writer.py"


class _Writer:
    """A process that writes numbers."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.pid = process.pid
        self._process = process

    def next(self) -> int:
        """The next number it says."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.endswith("\n"), "the writer ended by itself"
        return int(line)

    def kill(self) -> list[int]:
        """Kill it; returns what it had said and nobody had read."""
        self._process.kill()
        # Not communicate(), which passes over what was taken from the pipe and not read.
        assert self._process.stdout is not None
        rest = self._process.stdout.read()
        return [int(line) for line in rest.splitlines(keepends=True) if line.endswith("\n")]


@contextmanager
def _writing(path: Path, first: int) -> Generator[_Writer]:
    command = [sys.executable, str(_WRITER), str(path), str(first)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield _Writer(process)
        finally:
            process.kill()


def _read_numbers(connection: Connection) -> tuple[list[int], list[int]]:
    """The numbers of events and of facts; everything else about them is as it should be."""
    assert check_integrity(connection) == []
    events = read_events(connection, limit=10_000_000)
    assert [event.number for event in events] == list(range(1, last_number(connection) + 1))
    instants = [event.wall_us for event in events]
    assert instants == sorted(instants)
    facts = connection.execute(select(schema.request.c.answer)).scalars()
    return (
        sorted(cast(int, event.data["number"]) for event in events),
        sorted(cast(int, cast(dict[str, object], answer)["number"]) for answer in facts),
    )


async def test_r2_killed_at_any_moment_a_catalog_has_everything_that_was_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    random = Random(4)
    acknowledged: set[int] = set()
    attempted = 0

    for _ in range(sized(2, 6, 200)):
        with _writing(path, attempted + 1) as writer:
            for _ in range(random.randrange(1, 400)):
                acknowledged.add(writer.next())
            acknowledged.update(writer.kill())
        async with open_catalog(path) as catalog:
            events, facts = await catalog.database.read(_read_numbers)

        assert events == facts
        assert len(events) == len(set(events))
        assert acknowledged <= set(events)
        attempted = max(events)


@pytest.mark.needs("strace")
async def test_writes_whose_sync_fails_are_refused_and_later_ones_go_on(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    said: list[int] = []

    with _writing(path, 1) as writer:
        said.extend(writer.next() for _ in range(20))
        with tampered(writer.pid, tmp_path / "strace", trace="fsync", inject=["fsync:error=EIO"]):
            while not said[-1] < 0:
                said.append(writer.next())
            said.extend(writer.next() for _ in range(20))
        while not said[-1] > 0:
            said.append(writer.next())
        said.extend(writer.next() for _ in range(200))
        said.extend(writer.kill())
    async with open_catalog(path) as catalog:
        events, facts = await catalog.database.read(_read_numbers)

    refused = {-number for number in said if number < 0}
    acknowledged = {number for number in said if number > 0}
    assert len(refused) >= 20
    assert events == facts
    assert acknowledged <= set(events)
    assert not refused & set(events)
