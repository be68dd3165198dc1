"""From saying something in a channel to its being read in an inbox, beside a stream of Redis that syncs as we do."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Protocol, cast

from benchmarks.family import CommandFailed
from benchmarks.fleet.redis import Line, find_redis, running_redis
from benchmarks.fleet.server import Server, running_server, wait_until
from benchmarks.fleet.web import Web
from benchmarks.plan import Plan
from benchmarks.report import Cell, Report, Table, Target, percentile

MESSAGES = 300  # of each kind
LIMIT_MS = 50.0
CHANNEL, READER, TEXT = "build", "reader", "the tests are green, go on with the release notes"
_WAIT_S = 60


class _Place(Protocol):
    """Where one says something and another reads it. What is said is on the disk before it is acknowledged, and so is
    that it was read."""

    def post(self) -> None:
        """Say something; returns when it is acknowledged."""
        ...

    def read(self) -> None:
        """Have the one message that is new."""
        ...

    def await_message(self) -> None:
        """The same, from before it is said."""
        ...

    def is_awaited(self) -> bool:
        """Whether somebody waits for a message."""
        ...

    def finish(self) -> None:
        """Take note of it."""
        ...


def measure(plan: Plan) -> Report:
    """Ours and Redis, by turns of what is done."""
    with running_server(plan) as server, _ours(server) as ours:
        rows = [_row("scrubjay: REST to post, MCP to read", *_time_all(ours))]
    program = find_redis()
    if program is not None:
        with _redis(program, plan.folder / "redis") as redis:
            rows.append(_row("redis stream, consumer group, unix socket", *_time_all(redis)))
    columns = (
        *("by", "acknowledged p50 ms", "p99"),
        *("posted and read p50 ms", "p99", "by one who waits p50 ms", "p99"),
    )
    notes = (
        "posted and read: the inbox is read when the post is acknowledged",
        "by one who waits: it has been blocked in wait_for (in XREADGROUP) since before, and then reads its inbox",
        "both sync each post, and that it was read, before they say so (Redis with appendfsync always)",
        "Redis has no HTTP, no tokens and no JSON, knows nobody by name, and keeps everything in memory",
    )
    table = Table(f"{MESSAGES} messages of each kind, one after the other", columns, rows, notes)
    report = Report("messages", [table])
    report.targets.append(Target("posted and read, p99", cast(float, rows[0][4]), LIMIT_MS, "ms"))
    report.targets.append(Target("read by one who waits, p99", cast(float, rows[0][6]), LIMIT_MS, "ms"))
    if len(rows) > 1:
        ratios = [cast(float, own) / cast(float, theirs) for own, theirs in zip(rows[0][1:], rows[1][1:], strict=True)]
        report.tables.append(Table("ours, as many times as long as", columns, [(rows[1][0], *ratios)]))
    return report


def _row(name: str, *timed_ms: list[float]) -> tuple[Cell, ...]:
    return name, *(percentile(samples, percent) for samples in timed_ms for percent in (50, 99))


def _time_all(place: _Place) -> tuple[list[float], list[float], list[float]]:
    """Milliseconds until a post is acknowledged, until it is read then, and until who waits has read it."""
    acknowledged, read = list[float](), list[float]()
    for number in range(MESSAGES + 1):
        began = time.perf_counter()
        place.post()
        done = time.perf_counter()
        place.read()
        if number:  # the first time everything is done for the first time
            acknowledged.append((done - began) * 1e3)
            read.append((time.perf_counter() - began) * 1e3)
        place.finish()
    return acknowledged, read, _time_waiting(place)


def _time_waiting(place: _Place) -> list[float]:
    samples, had = list[float](), SimpleQueue[float]()

    def wait() -> None:
        for _ in range(MESSAGES):
            place.await_message()
            had.put(time.perf_counter())
            place.finish()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    for _ in range(MESSAGES):
        wait_until(place.is_awaited, _WAIT_S, "somebody to wait")
        began = time.perf_counter()
        place.post()
        samples.append((had.get(timeout=_WAIT_S) - began) * 1e3)
    thread.join()
    return samples


# Ours.


class _Ours:
    """A person who posts, and an agent outside pods who reads."""

    def __init__(self, person: Web, reader: Web) -> None:
        self._person, self._reader = person, reader
        self._last = 0
        self._read: list[str] = []

    def post(self) -> None:
        self._person.ask("POST", f"/api/v1/channels/{CHANNEL}/messages", {"text": TEXT, "mentions": [READER]})

    def read(self) -> None:
        found = cast("list[dict[str, object]]", self._reader.call("read_inbox")["messages"])
        if len(found) != 1:
            raise CommandFailed(f"{len(found)} messages are in the inbox instead of one")
        self._last, self._read = cast(int, found[0]["seq"]), [str(found[0]["id"])]

    def await_message(self) -> None:
        answer = self._reader.call("wait_for", channel=CHANNEL, after=self._last, timeout_s=_WAIT_S)
        if answer["state"] != "met":
            raise CommandFailed(f"nothing was said in {_WAIT_S} s")
        self.read()

    def is_awaited(self) -> bool:
        return bool(self._person.ask("GET", "/api/v1/waits")["waits"])

    def finish(self) -> None:
        self._reader.call("acknowledge", messages=self._read)


@contextmanager
def _ours(server: Server) -> Generator[_Ours]:
    tokens = [
        cast("dict[str, str]", server.client.post("/api/v1/tokens", {"role": role, "name": name}))["token"]
        for role, name in (("operator", "person"), ("agent", READER))
    ]
    with closing(Web(server.address, tokens[0])) as person, closing(Web(server.address, tokens[1])) as reader:
        person.ask("POST", "/api/v1/channels", {"name": CHANNEL, "members": [READER]})
        yield _Ours(person, reader)


# Redis.


class _Redis:
    """One who posts, and one of a group who reads."""

    def __init__(self, poster: Line, reader: Line) -> None:
        self._poster, self._reader = poster, reader
        self._read = b""

    def post(self) -> None:
        self._poster.ask("XADD", CHANNEL, "*", "author", "person", "mentions", READER, "text", TEXT)

    def read(self) -> None:
        self._take("COUNT", 2)

    def await_message(self) -> None:
        self._take("COUNT", 2, "BLOCK", _WAIT_S * 1000)

    def _take(self, *how: object) -> None:
        found = self._reader.ask("XREADGROUP", "GROUP", READER, READER, *how, "STREAMS", CHANNEL, ">")
        entries = cast("list[list[list[list[bytes]]]]", found or [[[], []]])[0][1]
        if len(entries) != 1:
            raise CommandFailed(f"{len(entries)} messages are in the stream instead of one")
        self._read = entries[0][0]

    def is_awaited(self) -> bool:
        return b"blocked_clients:1" in cast(bytes, self._poster.ask("INFO", "clients"))

    def finish(self) -> None:
        self._reader.ask("XACK", CHANNEL, READER, self._read.decode())


@contextmanager
def _redis(program: str, folder: Path) -> Generator[_Redis]:
    with running_redis(program, folder) as path, closing(Line(path)) as poster, closing(Line(path)) as reader:
        poster.ask("XGROUP", "CREATE", CHANNEL, READER, "$", "MKSTREAM")
        yield _Redis(poster, reader)
