"""Remembering, coming back and finding: over MCP and REST, in an empty catalog and among a million memories.

Peers are a stream of Redis that syncs every entry as we do, a table of SQLite that does nothing else, and, for finding,
the same index asked by ``sqlite3`` in the same process, and a scan with LIKE.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from random import Random
from typing import Literal, cast
from urllib.parse import urlencode

from benchmarks.family import CommandFailed
from benchmarks.fleet import remembered
from benchmarks.fleet.redis import Line, find_redis, running_redis
from benchmarks.fleet.remembered import Remembered
from benchmarks.fleet.server import Server, running_server
from benchmarks.fleet.web import Web
from benchmarks.plan import Plan
from benchmarks.report import Cell, Report, Table, Target, middle, percentile
from scrubjay.cli.machinery import CATALOG
from scrubjay.store.sqlite_library import load_sqlite

ALONE, SESSIONS, EACH = 500, 50, 40  # appends one after the other; sessions at once, and appends of each
RETURNS = 300
QUERIES = 100  # of each kind
SCANS = 3  # they take a second
LIMIT_MS = 50.0
PROMPT = "the login page shows an empty box when the password was wrong, find out why and fix it"
RESPONSE = "The handler swallowed the error. It raises now, the page shows what went wrong, and a test holds it. " * 4
_COMMON, _MIDDLING, _RARE = range(5, 50), range(200, 500), range(40_000, 60_000)  # words, by rank
_DAY_US = 24 * 3600 * 1_000_000
_COLUMNS = ("by", "p50 ms", "p99 ms", "per second", f"{SESSIONS} at once, p50 ms", "p99 ms", "per second")

_Append = Callable[[], object]
_Who = Literal["a person", "an agent", "one with many sessions", "one with many that hold little"]


def measure(plan: Plan) -> Report:
    """Appends, returns and searches."""
    rows: list[tuple[Cell, ...]] = []
    with running_server(plan) as server, _ours(server, _token(server)) as ours:
        rows.append(("scrubjay: add_memory over MCP", *_time_appends(ours)))
    peers = [("sqlite3, one table, a sync each, in process", *_sqlite(plan.folder / "peer.sqlite"))]
    program = find_redis()
    if program is not None:
        with running_redis(program, plan.folder / "redis") as path, _redis(path) as appends:
            peers.append(("redis stream, a sync each, unix socket", *_time_appends(appends)))
    found: list[Remembered] = []
    with running_server(plan, lambda data: found.append(remembered.fill(data))) as server:
        with _ours(server, found[0].token) as ours:
            rows.append((f"… among {remembered.MEMORIES:,} others", *_time_appends(ours)))
        returns = _time_returns(server, found[0])
        searches, scans = _time_searches(server, found[0])
    return _report(found[0], [*rows, *peers], returns, searches, scans)


def _report(
    there: Remembered,
    rows: list[tuple[Cell, ...]],
    returns: list[float],
    searches: dict[str, _Timed],
    scans: dict[str, list[float]],
) -> Report:
    report = Report("memory")
    notes = (
        f"a memory of {len(PROMPT) + len(RESPONSE)} characters, on the disk before it is acknowledged, by everybody",
        "ours has HTTP, JSON, a token, a lease that is checked, a number without a gap, an idempotency key, an event",
        "and a full-text index in the same transaction; Redis and the table have none of that",
    )
    report.tables.append(Table("appending to one session, and to fifty at once", _COLUMNS, rows, notes))
    ratios = [
        (row[0], *(_ratio(cast(float, own), row[at]) for at, own in enumerate(rows[0]) if at in (1, 2, 4, 5)))
        for row in rows[1:]
    ]
    report.tables.append(Table("add_memory takes as many times as long as", _COLUMNS[:3] + _COLUMNS[4:6], ratios))
    timed: list[tuple[Cell, ...]] = [
        ("resume_session(takeover=true)", RETURNS, percentile(returns, 50), percentile(returns, 99), max(returns))
    ]
    report.tables.append(Table("coming back, with the last ten memories", ("what", "times", *_SPREAD), timed))
    report.tables.append(
        Table(
            f"finding among {remembered.MEMORIES:,} memories, twenty at a time, newest first",
            ("what", "times", "hits", *_SPREAD, "sqlite3 p50 ms", "ratio"),
            [_search_row(name, timed) for name, timed in searches.items()],
            (
                f"made in {there.filled_s:.0f} s, a catalog of {there.megabytes:,.0f} MB",
                "sqlite3: the same index asked in the same process, for the numbers alone, without any filter",
                "by a person over REST, in all there are; by agents over MCP, in their own",
                "hits: of the first page, at most twenty; a median",
            ),
        )
    )
    report.tables.append(
        Table(
            "the same by a scan with LIKE (sqlite3, in process)",
            ("what", "times", "p50 ms", "as many times as ours"),
            [
                (name, len(each), middle(each), middle(each) / percentile(searches[name].ours_ms, 50))
                for name, each in scans.items()
            ],
        )
    )
    everything = [each for timed in searches.values() for each in timed.ours_ms]
    worst = max(searches, key=lambda name: percentile(searches[name].ours_ms, 99))
    report.targets += [
        Target("searches of all kinds, p99", percentile(everything, 99), LIMIT_MS, "ms"),
        Target(f"the slowest kind ({worst}), p99", percentile(searches[worst].ours_ms, 99), LIMIT_MS, "ms"),
        Target("resume_session, p99", percentile(returns, 99), LIMIT_MS, "ms"),
        Target("add_memory, p99", cast(float, rows[0][2]), LIMIT_MS, "ms"),
    ]
    return report


_SPREAD = ("p50 ms", "p99 ms", "worst ms")


def _ratio(own: float, theirs: Cell) -> float | None:
    return own / theirs if isinstance(theirs, float) else None


# Appending.


def _time_appends(appends: Sequence[_Append]) -> tuple[float | None, ...]:
    """One after the other by the first of them, then all at once."""
    appends[0]()  # the first time everything is done for the first time
    alone, alone_s = _time(appends[0], ALONE)
    if len(appends) == 1:
        return percentile(alone, 50), percentile(alone, 99), ALONE / alone_s, None, None, None
    together: list[float] = []
    trouble: list[BaseException] = []

    def run(append: _Append) -> None:
        try:
            together.extend(_time(append, EACH)[0])
        except (CommandFailed, OSError) as error:
            trouble.append(error)

    threads = [threading.Thread(target=run, args=(append,)) for append in appends]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took_s = time.perf_counter() - began
    if trouble:
        raise CommandFailed(str(trouble[0])) from trouble[0]
    return (
        *(percentile(alone, 50), percentile(alone, 99), ALONE / alone_s),
        *(percentile(together, 50), percentile(together, 99), len(together) / took_s),
    )


def _time(action: _Append, times: int) -> tuple[list[float], float]:
    """Milliseconds of each, and seconds of all."""
    samples: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        action()
        samples.append((time.perf_counter() - began) * 1e3)
    return samples, sum(samples) / 1e3


def _token(server: Server, role: str = "agent") -> str:
    made = server.client.post("/api/v1/tokens", {"role": role, "name": f"benchmark {role}"})
    return cast("dict[str, str]", made)["token"]


@contextmanager
def _ours(server: Server, token: str) -> Generator[list[_Append]]:
    """Clients with a session each."""
    with ExitStack() as stack:
        appends: list[_Append] = []
        for number in range(SESSIONS):
            web = stack.enter_context(closing(Web(server.address, token, Scrubjay_Connection=f"client-{number}")))
            web.call("resume_session")
            appends.append(_appending(web))
        yield appends


def _appending(web: Web) -> _Append:
    keys = iter(range(1, 1 << 30))

    def append() -> None:
        web.call("add_memory", prompt=PROMPT, response=RESPONSE, idempotency_key=f"k{next(keys)}")

    return append


@contextmanager
def _redis(path: Path) -> Generator[list[_Append]]:
    with ExitStack() as stack:
        lines = [stack.enter_context(closing(Line(path))) for _ in range(SESSIONS)]
        yield [_adding(line, f"session-{number}") for number, line in enumerate(lines)]


def _adding(line: Line, stream: str) -> _Append:
    return lambda: line.ask("XADD", stream, "*", "prompt", PROMPT, "response", RESPONSE)


def _sqlite(path: Path) -> tuple[float | None, ...]:
    """A connection of one process, so there is nobody to be at once with."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE memory (number INTEGER PRIMARY KEY, prompt TEXT, response TEXT)")
        insertion = "INSERT INTO memory (prompt, response) VALUES (?, ?)"
        return _time_appends([lambda: connection.execute(insertion, (PROMPT, RESPONSE))])


# Coming back.


def _time_returns(server: Server, there: Remembered) -> list[float]:
    """Two connections of one agent take a session from each other, again and again."""
    with ExitStack() as stack:
        webs = [
            stack.enter_context(closing(Web(server.address, there.token, Scrubjay_Connection=f"life-{number}")))
            for number in range(2)
        ]
        session = there.sessions[remembered.PODS]  # one of its own
        samples: list[float] = []
        for number in range(RETURNS + 1):
            began = time.perf_counter()
            answer = webs[number % 2].call("resume_session", session_id=session, takeover=True)
            if number:
                samples.append((time.perf_counter() - began) * 1e3)
            if not answer["resumed"]:
                raise CommandFailed(f"it was not resumed: {answer['warning']}")
        return samples


# Finding.


class _Timed:
    """Searches of one kind."""

    def __init__(self) -> None:
        self.ours_ms: list[float] = []
        self.bare_ms: list[float] = []
        self.hits: list[int] = []


def _search_row(name: str, timed: _Timed) -> tuple[Cell, ...]:
    ours, bare = timed.ours_ms, timed.bare_ms
    spread = percentile(ours, 50), percentile(ours, 99), max(ours)
    peer = (percentile(bare, 50), percentile(ours, 50) / percentile(bare, 50)) if bare else (None, None)
    return name, len(ours), round(middle([float(hits) for hits in timed.hits])), *spread, *peer


def _time_searches(server: Server, there: Remembered) -> tuple[dict[str, _Timed], dict[str, list[float]]]:
    rng = Random(11)
    kinds = _kinds(there, rng)
    found = {name: _Timed() for name in kinds}
    scans: dict[str, list[float]] = {}
    path = server.folder / CATALOG
    with (
        closing(Web(server.address, _token(server, "operator"))) as person,
        closing(Web(server.address, there.token)) as agent,
        closing(Web(server.address, there.sparse_token)) as sparse,
        closing(Web(server.address, there.other_token)) as other,
        closing(load_sqlite().connect(f"file:{path}?mode=ro", uri=True)) as bare,
    ):
        for number in range(QUERIES + 1):
            for name, (who, make) in kinds.items():
                query = make()
                if name == _NEXT_PAGE:
                    query["cursor"] = str(_search(person, query)["cursor"])
                began = time.perf_counter()
                match who:
                    case "a person":
                        answer = _search(person, query)
                    case "an agent":
                        answer = other.call("query_raw_memories", **query)
                    case "one with many sessions":
                        answer = agent.call("query_raw_memories", **query)
                    case "one with many that hold little":
                        answer = sparse.call("query_raw_memories", **query)
                took_ms = (time.perf_counter() - began) * 1e3
                if number:
                    found[name].ours_ms.append(took_ms)
                    found[name].hits.append(len(cast("list[object]", answer["memories"])))
        for name in _BARE:
            for _ in range(QUERIES):
                found[name].bare_ms.append(_time_bare(bare, kinds[name][1]()["query"]))
        for name in (_RARE_WORD, _COMMON_WORD):
            scans[name] = [_time_scan(bare, kinds[name][1]()["query"]) for _ in range(SCANS)]
    return found, scans


_RARE_WORD, _COMMON_WORD, _PHRASE, _BEGINNING = "a rare word", "a common word", "a phrase", "the beginning of a word"
_NEXT_PAGE = "a common word, the next page"
_BARE = (_RARE_WORD, _COMMON_WORD, _PHRASE, _BEGINNING)


def _kinds(there: Remembered, rng: Random) -> dict[str, tuple[_Who, Callable[[], dict[str, str]]]]:
    """How each is asked for, and by whom: agents see their own sessions alone."""

    def word(ranks: range) -> str:
        return there.words[rng.choice(ranks)]

    def asking(query: Callable[[], str], **more: Callable[[], str]) -> Callable[[], dict[str, str]]:
        return lambda: {"query": query(), **{name: value() for name, value in more.items()}}

    def common() -> str:
        return word(_COMMON)

    def day(days: int) -> str:
        return str(there.begun_us + days * _DAY_US)

    def phrase(ranks: range) -> str:
        return f'"{word(ranks)} {word(ranks)}"'

    people: dict[str, Callable[[], dict[str, str]]] = {
        _RARE_WORD: asking(lambda: word(_RARE)),
        _COMMON_WORD: asking(common),
        "two common words": asking(lambda: f"{common()} {common()}"),
        "a common and a rare word": asking(lambda: f"{common()} {word(_RARE)}"),
        "a common word without another": asking(lambda: f"{common()} -{common()}"),
        _PHRASE: asking(lambda: phrase(_COMMON)),
        "a phrase that hardly occurs": asking(lambda: phrase(_MIDDLING)),
        _BEGINNING: asking(lambda: f"{word(_MIDDLING)[:4]}*"),
        "a word that nobody has said": asking(lambda: f"x{word(_RARE)}"),
        "a common word in one session": asking(common, session=lambda: rng.choice(there.sessions)),
        "a common word of one agent": asking(common, agent=lambda: rng.choice(there.agents)),
        "a common word of one pod": asking(common, pod=lambda: rng.choice(there.pods)),
        "a common word in one day": asking(common, since=lambda: day(40), until=lambda: day(41)),
        "a rare word in one day": asking(lambda: word(_RARE), since=lambda: day(40), until=lambda: day(41)),
        _NEXT_PAGE: asking(common),
    }
    kinds: dict[str, tuple[_Who, Callable[[], dict[str, str]]]] = {
        name: ("a person", make) for name, make in people.items()
    }
    for name in (_RARE_WORD, _COMMON_WORD, _PHRASE):
        kinds[f"{name}, in {remembered.OTHER_SESSIONS} sessions of one's own"] = ("an agent", people[name])
    many = f"in {remembered.MANY_SESSIONS:,} sessions of one's own"
    for name in (_RARE_WORD, _COMMON_WORD, _PHRASE):
        kinds[f"{name}, {many}"] = ("one with many sessions", people[name])
    for name in (_RARE_WORD, _COMMON_WORD, _PHRASE):
        kinds[f"{name}, {many} that hold {remembered.SPARSE:.0%}"] = ("one with many that hold little", people[name])
    return kinds


def _search(web: Web, query: dict[str, str]) -> dict[str, object]:
    return web.ask("GET", f"/api/v1/memories?{urlencode(query | {'limit': '20'})}")


def _time_bare(connection: sqlite3.Connection, query: str) -> float:
    wanted = f"text : ({query})" if query.startswith('"') else f'text : ("{query.rstrip("*")}"{"*" * query.count("*")})'
    began = time.perf_counter()
    connection.execute(
        "SELECT rowid FROM memory_text WHERE memory_text MATCH ? ORDER BY rowid DESC LIMIT 21", (wanted,)
    ).fetchall()
    return (time.perf_counter() - began) * 1e3


def _time_scan(connection: sqlite3.Connection, word: str) -> float:
    began = time.perf_counter()
    connection.execute(
        "SELECT number FROM memory WHERE prompt LIKE ? OR response LIKE ? ORDER BY number DESC LIMIT 21",
        (f"%{word}%", f"%{word}%"),
    ).fetchall()
    return (time.perf_counter() - began) * 1e3
