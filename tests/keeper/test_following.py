"""Those who follow a tape see what is on it, from where they ask, and nothing that could still be lost."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable

import pytest

from scrubjay.errors import KeeperGone, KeeperRefused
from scrubjay.pods.connection import Connection
from scrubjay.tape.format import Kind
from scrubjay.tape.record import Record
from scrubjay.tape.stream import RecordStream
from tests.support.conditions import DEADLINE_S, eventually
from tests.support.fleet import Fleet, Member
from tests.support.processes import kill


def _follow(member: Member, keeper: Connection, offset: int) -> RecordStream:
    keeper.send({"do": "follow", "from": offset})
    return RecordStream(member.pod.id, offset)


def _read_to_the_end(keeper: Connection, stream: RecordStream, found: list[Record]) -> object:
    """Take everything until the connection ends; the status the keeper said goodbye with, if it did."""
    ended: object = None
    keeper.socket.settimeout(DEADLINE_S)
    try:
        while True:
            for meta, tail in keeper.receive():
                if "tape" in meta:
                    found += stream.feed(tail)
                ended = meta.get("ended", ended)
    except KeeperGone:
        return ended


def test_a_follower_gets_every_record_to_the_last_and_the_status(fleet: Fleet) -> None:
    member = fleet.metronome("m", "--rate", "2000", "--count", "1000")
    found: list[Record] = []

    with member.pod.connect() as keeper:
        ended = _read_to_the_end(keeper, _follow(member, keeper, 0), found)

    assert ended == 0
    assert found == member.records()
    assert found[-1].kind == Kind.SEAL


def test_what_a_follower_was_shown_survives_the_keeper(fleet: Fleet) -> None:
    member = fleet.metronome("m", "--rate", "20000", "--every-ms", "1")
    found: list[Record] = []

    with member.pod.connect() as keeper:
        stream = _follow(member, keeper, 0)
        while len(found) < 200:
            for _, tail in keeper.receive():
                found += stream.feed(tail)
        kill(member.keeper_pid)
        _read_to_the_end(keeper, stream, found)
    eventually(lambda: not member.pod.alive, "the keeper is gone")

    assert member.records()[: len(found)] == found


def test_a_late_follower_begins_where_it_asks_to(fleet: Fleet) -> None:
    member = fleet.start("m", "sh", "-c", "echo one; read x; echo two")
    eventually(lambda: b"one" in member.output(), "it shows the first line")
    first = member.records()
    found: list[Record] = []

    with member.pod.connect() as keeper:
        stream = _follow(member, keeper, first[-1].end)
        keeper.send({"do": "write", "author": "test"}, b"\n")
        _read_to_the_end(keeper, stream, found)

    assert first + found == member.records()


def test_a_follower_that_stops_reading_for_a_while_misses_nothing(fleet: Fleet) -> None:
    member = fleet.metronome("m", "--wait", "--rate", "0", "--long", "--count", "50000", "--stay")
    eventually(member.log.exists, "the agent waits for its start")
    found: list[Record] = []

    with member.pod.connect() as keeper:
        stream = _follow(member, keeper, 0)
        kill(member.agent_pid, signal.SIGUSR1)
        eventually(lambda: member.progress == 49_999, "the agent has written everything")
        eventually(lambda: member.ledger().last == 49_999, "it is all on the tape")
        kill(member.agent_pid)
        _read_to_the_end(keeper, stream, found)

    assert found == member.records()


def test_a_follower_is_told_to_read_sealed_segments_from_their_files(fleet: Fleet) -> None:
    code = "import os, tty; tty.setraw(1)\nfor _ in range(18): os.write(1, bytes(1 << 20))\nos.read(0, 1)"
    member = fleet.start("m", sys.executable, "-I", "-S", "-c", code)
    fleet.eventually(lambda: member.segments(".sealed") and len(member.segments(".raw")) == 1, "one is sealed")

    with member.pod.connect() as keeper:
        keeper.send({"do": "follow", "from": 0})
        ((meta, _),) = keeper.receive()

    assert meta == {"sealed": 0}
    assert fleet.cli("verify", "m").stdout == "m: clean\n"


def test_a_follower_that_reads_nothing_delays_the_end_by_two_seconds_at_most(
    fleet: Fleet, promised: Callable[[float], float]
) -> None:
    member = fleet.metronome("m", "--wait", "--rate", "0", "--long", "--count", "20000")
    eventually(member.log.exists, "the agent waits for its start")

    with member.pod.connect() as keeper:
        keeper.send({"do": "follow", "from": 0})
        kill(member.agent_pid, signal.SIGUSR1)
        eventually(lambda: member.records(Kind.EXIT), "the agent has ended")
        began = time.monotonic()
        eventually(lambda: member.records()[-1].kind == Kind.SEAL, "its tape is closed")
        with member.pod.connect() as late, pytest.raises(KeeperRefused, match="the tape is closed"):
            late.ask({"do": "mark", "label": "too late", "author": "test"})
        eventually(lambda: not member.pod.alive, "the keeper has ended")

    assert member.labels() == []
    assert time.monotonic() - began < promised(4)
    assert member.ledger().last == 19_999
