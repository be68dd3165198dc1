"""S13: what an agent asks its terminal is answered once, by the pod's own terminal, whoever else is watching."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from random import Random
from typing import Protocol

import pytest

from scrubjay.tape.format import Kind
from scrubjay.tape.record import Json
from tests.programs import asker
from tests.support.conditions import DEADLINE_S, eventually
from tests.support.fleet import Fleet, Member, Onlooker
from tests.support.paths import PROGRAMS
from tests.support.processes import kill
from tests.support.services import Viewer
from tests.support.tiers import sized

_WITHIN_S = 0.1  # with nobody watching

# As xterm does it, in words that no other terminal here uses.
_XTERM = {
    b"\x1b[c": b"\x1b[?64;1;2;6c",
    b"\x1b[>c": b"\x1b[>41;390;0c",
    b"\x1b[>q": b"\x1bP>|xterm(390)\x1b\\",
    b"\x1b[5n": b"\x1b[0n",
    b"\x1b[6n": b"\x1b[1;2R",
    b"\x1b[?6n": b"\x1b[?1;2R",
    b"\x1b[?2026$p": b"\x1b[?2026;0$y",
    b"\x1bP$qm\x1b\\": b"\x1bP1$r0;1m\x1b\\",
    b"\x1b]10;?\x1b\\": b"\x1b]10;rgb:1234/1234/1234\x1b\\",
    b"\x1b]11;?\x1b\\": b"\x1b]11;rgb:5678/5678/5678\x1b\\",
    b"\x1b[?u": b"\x1b[?31u",
}
_ASKED = re.compile(b"|".join(re.escape(query) for query in _XTERM))


# Who answers: a process that does nothing else, or server and runner.


class Answerer(Protocol):
    """A process that is a pod's terminal, and can be killed."""

    def start(self) -> None:
        """Return when it answers."""
        ...

    def kill(self) -> None:
        """At once, whatever it is doing."""
        ...


class _Up:
    def __init__(self, fleet: Fleet, member: Member) -> None:
        self.service = fleet.service("up", "--port", "0")
        self._member = member

    def start(self) -> None:
        self.service.start()
        eventually(lambda: _status(self._member).get("answering") is True, "it answers")

    def kill(self) -> None:
        self.service.close()


class _Alone:
    def __init__(self, member: Member) -> None:
        self._member = member
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        argv = [sys.executable, str(PROGRAMS / "answerer.py"), str(self._member.pod.folder)]
        self._process = subprocess.Popen(
            [*argv, self._member.pod.id, self._member.name], stdout=subprocess.PIPE, text=True, process_group=0
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None


@contextmanager
def _started(answerer: Answerer) -> Generator[None]:
    answerer.start()
    try:
        yield
    finally:
        answerer.kill()


class Person:
    """Somebody attached with a terminal that answers by itself, in one piece or byte by byte."""

    def __init__(self, onlooker: Onlooker, *, split: bool) -> None:
        self._onlooker, self._split = onlooker, split
        self.asked = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._answer)
        self._thread.start()

    def _answer(self) -> None:
        position = 0
        while not self._ended.wait(0.001):
            for found in _ASKED.finditer(bytes(self._onlooker.shown), position):
                position = found.end()
                self.asked += 1
                answer = _XTERM[found[0]]
                for piece in (answer[:3], answer[3:]) if self._split else (answer,):
                    self._onlooker.type(piece)

    def leave(self) -> None:
        """Stop answering."""
        self._ended.set()
        self._thread.join()


@contextmanager
def _attached(fleet: Fleet, member: Member, *, split: bool = False) -> Generator[Person]:
    before = _followers(member)
    onlooker = fleet.attach(member)
    eventually(lambda: _followers(member) > before, "somebody is attached")
    person = Person(onlooker, split=split)
    try:
        yield person
    finally:
        person.leave()


def _status(member: Member) -> Json:
    with member.pod.connect() as keeper:
        return keeper.status(timeout_s=DEADLINE_S) or {}


def _followers(member: Member) -> int:
    return int(str(_status(member).get("followers", 0)))


# What the agent got.


def _start(fleet: Fleet, *options: str) -> tuple[Member, Path]:
    log = fleet.logs / "asked"
    script = PROGRAMS / "asker.py"
    return fleet.start("asker", sys.executable, "-I", "-S", str(script), str(log), *options), log


def _begin(member: Member) -> None:
    eventually(lambda: b"ready" in member.output(), "it is ready to ask")
    with member.pod.connect() as keeper:
        keeper.ask({"do": "write", "author": "test"}, b"!")


def _rounds(log: Path, rounds: int) -> list[tuple[bytes, float]]:
    """What was read in each round and how long that took; in the last what came after all of them."""
    all_was_asked = lambda: log.exists() and log.read_bytes().count(b"\n") > rounds  # noqa: E731
    eventually(all_was_asked, "all was asked", within_s=DEADLINE_S + rounds)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [(line["data"].encode("latin-1"), line["ms"]) for line in lines]


def _assert_each_answered_once(read: list[tuple[bytes, float]]) -> None:
    """Exactly one answer to each probe in each round, nothing else, and nothing of another terminal."""
    for number, (data, _) in enumerate(read[:-1]):
        rest, counts = data, Counter[bytes]()
        for answer in asker.ANSWERS:
            rest, counts[answer] = re.subn(answer, b"", rest)
        assert set(counts.values()) == {1}, (number, data)
        assert rest == b"", (number, rest)
        for answer in set(_XTERM.values()) - {b"\x1b[0n", b"\x1b[1;2R", b"\x1b[?1;2R"}:
            assert answer not in data, number
        assert b"\x1bP>|Scrubjay " in data
        # The place of the cursor, which another terminal does not know.
        assert f"\x1b[1;{number % 3 + 1}R".encode() in data
    assert read[-1][0] == b""


def _typed(member: Member) -> list[tuple[str, bytes, int | None]]:
    typed = [record.typed() for record in member.records(Kind.INPUT)]
    return [(one.author, one.data, one.answers) for one in typed]


@pytest.mark.parametrize("viewers", [0, pytest.param(1, marks=pytest.mark.chaos), sized(3, 10, 10)])
def test_s13_each_probe_is_answered_once_however_many_follow(
    fleet: Fleet, viewers: int, promised: Callable[[float], float]
) -> None:
    rounds = sized(3, 20, 200)
    member, log = _start(fleet, "--wait", "--rounds", str(rounds))
    for _ in range(viewers):
        fleet.follow(member)
    eventually(lambda: _followers(member) == viewers, "all follow")

    with _started(_Alone(member)):
        _begin(member)
        read = _rounds(log, rounds)

        _assert_each_answered_once(read)
        if viewers == 0:
            took = sorted(took_ms for _, took_ms in read[:-1])
            assert took[len(took) // 2] < promised(_WITHIN_S) * 1000
    before = _typed(member)
    fleet.cli("screen", "asker")
    fleet.cli("logs", "asker")
    assert _typed(member) == before
    assert {author for author, _, _ in before[1:]} == {"terminal"}
    offsets = [answers for _, _, answers in before[1:]]
    assert offsets == sorted(set(offsets), key=lambda offset: offset or 0)


@pytest.mark.parametrize("viewers", [0, sized(3, 10, 10)])
def test_s13_the_runner_answers_each_probe_once_however_many_view(
    fleet: Fleet, viewers: int, promised: Callable[[float], float]
) -> None:
    rounds = sized(3, 20, 200)
    member, log = _start(fleet, "--wait", "--rounds", str(rounds))
    up = _Up(fleet, member)

    with _started(up), ExitStack() as stack:
        for _ in range(viewers):
            viewer = stack.enter_context(closing(Viewer(up.service.data / "server.sock", member.pod.id)))
            eventually(lambda: viewer.keyframes, "somebody looks")  # noqa: B023
        _begin(member)
        read = _rounds(log, rounds)

        _assert_each_answered_once(read)
        if viewers == 0:
            took = sorted(took_ms for _, took_ms in read[:-1])
            assert took[len(took) // 2] < promised(_WITHIN_S) * 1000
    assert {author for author, _, _ in _typed(member)} == {"test", "terminal"}


@pytest.mark.parametrize("persons", [pytest.param(1, marks=pytest.mark.chaos), sized(2, 3, 3)])
def test_s13_terminals_of_persons_who_are_attached_answer_nothing(fleet: Fleet, persons: int) -> None:
    rounds = sized(3, 15, 100)
    member, log = _start(fleet, "--wait", "--rounds", str(rounds), "--apart", "--settle", "100")

    with _started(_Alone(member)), ExitStack() as stack:
        attached = [stack.enter_context(_attached(fleet, member, split=number > 0)) for number in range(persons)]
        _begin(member)
        read = _rounds(log, rounds)

        _assert_each_answered_once(read)
        for person in attached:
            assert person.asked >= rounds * len(_XTERM)
    # Nor is anything of it on the tape.
    assert {author for author, _, _ in _typed(member)} == {"test", "terminal"}


@pytest.mark.parametrize("who", [pytest.param("alone", marks=pytest.mark.chaos), "attached", "up"])
def test_s13_answers_are_exactly_once_when_the_terminal_is_killed_again_and_again(fleet: Fleet, who: str) -> None:
    rounds, kills = sized(25, 150, 1500), sized(1, 4, 40)
    rng = Random("kills")
    member, log = _start(fleet, "--wait", "--rounds", str(rounds), "--apart", "--settle", "10")

    terminal = _Up(fleet, member) if who == "up" else _Alone(member)
    with _started(terminal), ExitStack() as stack:
        if who == "attached":
            stack.enter_context(_attached(fleet, member))
        _begin(member)
        for _ in range(kills):
            done = log.read_bytes().count(b"\n") if log.exists() else 0
            wanted = min(rounds, done + rng.randint(3, 15))
            eventually(lambda: log.read_bytes().count(b"\n") >= wanted, "it goes on")  # noqa: B023
            time.sleep(rng.random() / 50)  # anywhere in a round
            terminal.kill()
            terminal.start()
        read = _rounds(log, rounds)

        _assert_each_answered_once(read)


def test_s13_what_was_asked_before_the_terminal_came_is_answered_once_it_is_there(fleet: Fleet) -> None:
    member, log = _start(fleet, "--rounds", "1")
    eventually(lambda: asker.PROBES[-1] in member.output(), "it has asked")

    with _started(_Alone(member)):
        read = _rounds(log, 1)

    _assert_each_answered_once(read)


def test_s13_without_a_terminal_of_the_pod_the_person_answers(fleet: Fleet) -> None:
    member, log = _start(fleet, "--wait", "--rounds", "1")
    with _attached(fleet, member) as person:
        _begin(member)
        eventually(lambda: person.asked >= len(_XTERM), "it was asked")
        person_read = lambda: b"".join(data for _, data, _ in _typed(member))  # noqa: E731
        eventually(lambda: b"xterm(390)" in person_read(), "it has answered")
        kill(member.agent_pid, signal.SIGKILL)

    assert not log.exists() or b"Scrubjay" not in log.read_bytes()
    assert {author.partition(":")[0] for author, _, _ in _typed(member)} == {"test", "person"}
    assert os.path.exists(member.pod.folder)
