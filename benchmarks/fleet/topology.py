"""The topology of a thousand pods: as one asks for it inside the server, and over HTTP, beside a query per pod."""

from __future__ import annotations

import asyncio
import http.client
import shutil
import sqlite3
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path

from sqlalchemy import Connection

from benchmarks.fleet import crowd
from benchmarks.fleet.server import Server, running_server
from benchmarks.plan import Plan
from benchmarks.report import Cell, Report, Table, Target, percentile
from scrubjay.cli.machinery import CATALOG
from scrubjay.clock import SystemClock
from scrubjay.fleet.access import Principal
from scrubjay.fleet.parties import session_party
from scrubjay.server.changes import Changes
from scrubjay.server.coordination.coordination import Coordination
from scrubjay.server.coordination.topology import FLOW_S
from scrubjay.server.tower import Tower
from scrubjay.settings import Settings
from scrubjay.store.bindings import bindings_of
from scrubjay.store.channels import channels_of
from scrubjay.store.messages import inbox_of
from scrubjay.store.parties import name_of, pod_of
from scrubjay.store.pods import get_pod, list_pods
from scrubjay.store.sqlite import SqliteDatabase
from scrubjay.store.tapes import ReplicatedTapes
from scrubjay.store.waits import waits_of
from scrubjay.wire.viewer import encode_json

ROUNDS = 200
WARM_UP = 10  # more before: a server that has just come up is at other things, too
NAIVE_ROUNDS = 5  # they take seconds
AGO_S = 600  # the past instant: everybody was waiting already
LONG_FLOW_S = crowd.AGE_S + 3600
LIMIT_MS = 50.0
_OURS, _NAIVE, _FLOOR = "inside the server, now", "a query per pod", "sqlite3, as it is"
# The same rows by the standard library, for what it takes to have them at all.
_JOINS = (
    """SELECT pod.*, pod_fact.name, pod_fact.branch, status.process, status.activity, status.evidence FROM pod
    JOIN pod_fact ON pod_fact.pod = pod.id AND pod_fact.until_event IS NULL
    JOIN status ON status.pod = pod.id AND status.until_event IS NULL WHERE pod.until_event IS NULL""",
    "SELECT * FROM binding WHERE until_event IS NULL AND state IN ('pending', 'active')",
    "SELECT * FROM wait WHERE until_event IS NULL",
    "SELECT * FROM deadlock WHERE until_event IS NULL",
    """SELECT channel.*, count(*), max(wall_us) FROM channel JOIN message ON message.channel = channel.id
    WHERE channel.until_event IS NULL AND kind <> 'inbox' GROUP BY channel.id""",
    "SELECT channel, party FROM channel_member WHERE until_event IS NULL",
    "SELECT * FROM runner_link WHERE until_event IS NULL",
    """SELECT author, party, count(*), max(wall_us) FROM message NATURAL JOIN delivery
    WHERE wall_us > (SELECT max(wall_us) FROM message) - 900000000 GROUP BY author, party""",
)


def measure(plan: Plan) -> Report:
    """All of them on the same catalog."""
    folder = plan.folder / "crowd"
    folder.mkdir(0o700)
    crowd.fill(folder)
    queries = {
        "now": "",
        "at an instant": f"at={time.time_ns() // 1000 - AGO_S * 1_000_000}",
        "now, with all messages": f"flow_s={LONG_FLOW_S}",
    }
    kilobytes: dict[str, float] = {}
    with running_server(plan, lambda data: shutil.copy(folder / CATALOG, data / CATALOG)) as server:
        rows = _over_http(server, queries, kilobytes)
    rows |= asyncio.run(_inside(folder, kilobytes))
    shutil.rmtree(folder)
    table = Table(
        f"topology of {crowd.PODS:,} pods, {crowd.BINDINGS} bindings, {crowd.WAITS:,} waits, {crowd.CHANNELS} channels "
        f"and {crowd.MESSAGES:,} messages",
        ("by", "times", "p50 ms", "p99 ms", "worst ms", "kB"),
        [_row(name, samples, kilobytes.get(name)) for name, samples in rows.items()],
        (
            "a query per pod: the same facts by the catalog's own functions, asked for each pod and each edge",
            "sqlite3: the same rows by joins of Python's own module, as JSON; without who is who and what follows",
            f"messages are of the last {FLOW_S / 60:g} minutes, or all there are, of {crowd.AGE_S / 3600:g} hours",
        ),
    )
    report = Report("topology", [table])
    ours, naive, floor = (percentile(rows[name], 50) for name in (_OURS, _NAIVE, _FLOOR))
    compared: list[tuple[Cell, ...]] = [(_NAIVE, naive / ours), (_FLOOR, floor / ours)]
    report.tables.append(Table(f"as many times as long as {_OURS}, by p50", ("by", "ratio"), compared))
    for name in ("now", "at an instant"):
        for percent in (50, 99):
            measured = percentile(rows[f"over HTTP, {name}"], percent)
            report.targets.append(Target(f"topology over HTTP, {name}, p{percent}", measured, LIMIT_MS, "ms"))
    return report


def _row(name: str, samples: list[float], kilobytes: float | None) -> tuple[Cell, ...]:
    return name, len(samples), percentile(samples, 50), percentile(samples, 99), max(samples), kilobytes


async def _inside(folder: Path, kilobytes: dict[str, float]) -> dict[str, list[float]]:
    rows: dict[str, list[float]] = {_OURS: [], _NAIVE: [], _FLOOR: []}
    async with _open(folder) as coordination:
        person = coordination.reception.actor(Principal("local", "operator", "benchmark"))
        for number in range(ROUNDS + 1):
            began = time.perf_counter()
            answer = encode_json(await coordination.topology.at(person))
            if number:  # the first time statements are compiled
                rows[_OURS].append((time.perf_counter() - began) * 1e3)
            kilobytes[_OURS] = len(answer) / 1e3
        for _ in range(NAIVE_ROUNDS):
            began = time.perf_counter()
            await coordination.tower.database.read(_ask_each_pod)
            rows[_NAIVE].append((time.perf_counter() - began) * 1e3)
    rows[_FLOOR] += [_join_plainly(folder / CATALOG) for _ in range(ROUNDS)]
    return rows


@asynccontextmanager
async def _open(folder: Path) -> AsyncGenerator[Coordination]:
    """A server without its doors."""
    changes = Changes()
    database = await SqliteDatabase.open(folder / CATALOG, on_events=changes.publish)
    with closing(ReplicatedTapes(folder / "tapes")) as tapes:
        tower = Tower(database, tapes, changes, SystemClock(), search_path=folder / "search.sqlite")
        try:
            await tower.begin()
            coordination = Coordination(tower, Settings(data=folder))
            await coordination.begin()
            yield coordination
        finally:
            await tower.close()
            await database.close()


def _ask_each_pod(connection: Connection) -> bytes:
    """What somebody writes who has the functions of the catalog at hand, and few pods."""
    told: list[object] = []
    for facts, _ in list_pods(connection):
        found, party = get_pod(connection, facts.id), session_party(facts.session)
        assert found is not None
        edges = [binding.target for binding in bindings_of(connection, party) if binding.initiator == party]
        edges += [wait.on for wait in waits_of(connection, party) if wait.on is not None]
        edges += [delivery.message.author for delivery in inbox_of(connection, party, limit=1000, everything=True)]
        ends = [(name_of(connection, end), pod_of(connection, end)) for end in edges]
        channels = [channel.name for channel in channels_of(connection, party)]
        told.append([found[0].describe(), found[1].describe(), ends, channels])
    return encode_json(told)


def _join_plainly(path: Path) -> float:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT 1 FROM clock")
        began = time.perf_counter()
        encode_json([connection.execute(statement).fetchall() for statement in _JOINS])
        return (time.perf_counter() - began) * 1e3


def _over_http(server: Server, queries: Mapping[str, str], kilobytes: dict[str, float]) -> dict[str, list[float]]:
    """By turns, on one connection, as a page has it."""
    headers = {"Authorization": f"Bearer {server.make_token()}"}
    rows: dict[str, list[float]] = {f"over HTTP, {name}": [] for name in queries}
    with closing(http.client.HTTPConnection(*server.address, timeout=60)) as connection:
        for number in range(WARM_UP + ROUNDS):
            for name, query in zip(rows, queries.values(), strict=True):
                began = time.perf_counter()
                connection.request("GET", f"/api/v1/topology?{query}", headers=headers)
                answer = connection.getresponse().read()
                if number >= WARM_UP:
                    rows[name].append((time.perf_counter() - began) * 1e3)
                kilobytes[name] = len(answer) / 1e3
    return rows
