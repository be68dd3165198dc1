"""MCP clients that remember, each in a process of its own, killed by a test and followed by the next one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

from scrubjay.tape.record import Json
from tests.programs.rememberer import Life, Transport, arguments_of
from tests.support.conditions import DEADLINE_S, eventually
from tests.support.paths import PROGRAMS
from tests.support.processes import children_of, is_alive, kill
from tests.support.proxy import has_unclosed
from tests.support.services import Service

_PROGRAM = PROGRAMS / "rememberer.py"
_PAGE = 1000


class Nursery:
    """A process that has the SDK loaded and forks clients."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(_PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def bring_forth(self, life: Life) -> int:
        """The process of a new client."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(life)) + "\n")
        self._process.stdin.flush()
        return int(json.loads(self._process.stdout.readline())["pid"])

    def close(self) -> None:
        """End it, not those it has brought forth."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(DEADLINE_S)


@contextmanager
def open_nursery() -> Generator[Nursery]:
    """One that is closed on the way out."""
    nursery = Nursery()
    try:
        yield nursery
    finally:
        nursery.close()


class Journal:
    """What the lives of one client have noted, read as it grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[Json] = []
        self._offset = 0
        path.touch()

    def read(self) -> list[Json]:
        """All there is; AssertionError if a life has failed."""
        with self.path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        new = [cast(Json, json.loads(line)) for line in whole.splitlines()]
        self.lines += new
        failed = [line for line in new if "failed" in line]
        assert not failed, failed
        return self.lines

    def answered(self) -> list[Json]:
        """The memories that were acknowledged, in the order in which they were."""
        return [line for line in self.read() if "has" in line]

    def is_asking(self) -> bool:
        """Whether the last thing that was noted is what was asked for, and not what came of it."""
        lines = self.read()
        return bool(lines) and "asks" in lines[-1]


@dataclass(slots=True)
class Remembering:
    """One session, and the processes that come and go under it."""

    nursery: Nursery
    server: Service
    url: str
    token: str
    transport: Transport
    journal: Journal
    session: str | None = None
    pid: int = 0
    lives: int = 0

    def begin(self, *, by_parameter: bool = False) -> None:
        """Let the next process come."""
        self.lives += 1
        words = [sys.executable, "-P", "-m", "scrubjay", "--data", str(self.server.data), "mcp", "--server", self.url]
        life = Life(
            transport=self.transport,
            url=self.url,
            token=self.token,
            journal=str(self.journal.path),
            name=f"{self.journal.path.stem}-{self.lives}",  # no two processes have the same
            bridge=words,
            session=self.session,
            by_parameter=by_parameter,
        )
        self.pid = self.nursery.bring_forth(life)

    def await_answers(self, number: int) -> None:
        """Return when so many more are acknowledged."""
        wanted = len(self.journal.answered()) + number

        def are_there() -> bool:
            if len(self.journal.answered()) >= wanted:
                return True
            assert is_alive(self.pid), "it has ended by itself"
            return False

        eventually(are_there, f"{number} more memories over {self.transport}")

    def open(self) -> None:
        """Let the first process begin a session, and learn which."""
        self.begin()
        self.await_answers(1)
        self.session = str(next(line for line in self.journal.read() if "back" in line)["session"])

    def kill(self, *, with_bridge: bool = False) -> bool:
        """Kill the client with -9, and with it what it speaks through; whether that was in the middle of an append."""
        bridges = children_of(self.pid) if with_bridge else []
        for pid in (self.pid, *bridges):
            kill(pid)
        eventually(lambda: not is_alive(self.pid), "it is gone")
        return self.journal.is_asking()

    def await_free(self) -> None:
        """Return when nobody holds the session any more: whoever died with it is not heard of.

        What they asked for last may still be on its way, and count as a sign of life when the server reads it.
        """
        port = int(self.url.rpartition(":")[2])
        eventually(lambda: not has_unclosed(port), "the server has read what they asked for")
        eventually(lambda: self.describe()["resumable"], "its holder has lapsed")

    def describe(self) -> Json:
        """What people are told of the session."""
        return cast(Json, self.server.client.get(f"/api/v1/sessions/{self.session}"))

    def memories(self) -> list[Json]:
        """All that is in the session."""
        found: list[Json] = []
        cursor: object = None
        while True:
            query = {"limit": _PAGE} | ({"cursor": str(cursor)} if cursor is not None else {})
            page = cast(Json, self.server.client.get(f"/api/v1/sessions/{self.session}/memories", **query))
            found += cast(list[Json], page["memories"])
            cursor = page.get("cursor")
            if cursor is None:
                return found

    def assert_whole(self) -> int:
        """AssertionError unless everything is there once, where it was acknowledged; how many memories there are."""
        memories, answered = self.memories(), self.journal.answered()
        numbers = list(range(1, len(memories) + 1))
        assert [memory["seq"] for memory in memories] == numbers
        # The client asks for one after the other, so the contents are numbered as they are.
        assert [memory["prompt"] for memory in memories] == [f"number {number}" for number in numbers]
        assert [memory["response"] for memory in memories] == [arguments_of(number)["response"] for number in numbers]
        assert not [line for line in answered if line["seq"] != line["has"]]
        assert [line["has"] for line in answered] == sorted({cast(int, line["has"]) for line in answered})
        known = cast(int, answered[-1]["has"])
        assert len(memories) in (known, known + 1)  # the last one may have been done without an answer

        assert {line["session"] for line in self.journal.lines if "session" in line} == {self.session}
        assert not [line for line in answered if line["warning"] is not None and line["has"] != 1]
        epochs = [cast(int, memory["epoch"]) for memory in memories]
        assert epochs == sorted(epochs)
        backs = [line for line in self.journal.lines if "back" in line]
        granted = [cast(int, line["epoch"]) for line in backs]
        assert granted == sorted(set(granted)), "each return has an epoch of its own"
        for line in backs[1:]:
            assert line["back"] is True
            assert line["last_seq"] in (line["known"], line["asked"])
            assert line["last"] == f"number {line['last_seq']}"
        return len(memories)
