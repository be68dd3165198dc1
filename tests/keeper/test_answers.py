"""What an agent asks its terminal is answered by one terminal, once; and who is fenced off types nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import cast

import pytest

from scrubjay.errors import KeeperRefused
from scrubjay.keeper.answers import LATE_US, Answers, NotAnswerable
from scrubjay.keeper.clients import Client
from scrubjay.pods.connection import Connection
from scrubjay.tape.format import Kind
from scrubjay.tape.record import Json, Typed
from tests.support.conditions import DEADLINE_S, eventually
from tests.support.fleet import Fleet, Member, Onlooker

_ATTRIBUTES = b"\x1b[?62;22c"
_S = 1_000_000


# The arithmetic.


def _clients(count: int) -> list[Client]:
    return [cast(Client, object()) for _ in range(count)]


def _begin(
    answers: Answers, client: Client, *, end: int, now: int = _S, quiet_us: int = 0, persons: bool = False
) -> int:
    return answers.begin(client, end=end, now=now, quiet_us=quiet_us, persons=persons)[0]


def test_what_nobody_has_answered_yet_is_for_whoever_comes() -> None:
    (client,) = _clients(1)

    assert _begin(Answers(), client, end=500) == 0


def test_an_answer_is_taken_once() -> None:
    answers, (client,) = Answers(), _clients(1)
    _begin(answers, client, end=500)

    answers.check(client, 500, end=500)
    answers.answered = 500

    for offset in (499, 500):
        with pytest.raises(NotAnswerable, match="answered already"):
            answers.check(client, offset, end=600)
    with pytest.raises(NotAnswerable, match="ends at 600"):
        answers.check(client, 601, end=600)
    answers.check(client, 600, end=600)


def test_whoever_comes_back_goes_on_where_answers_ended() -> None:
    answers, (first, second) = Answers(), _clients(2)
    _begin(answers, first, end=500)
    answers.answered = 300
    answers.end(first, _S)

    assert _begin(answers, second, end=600, now=3 * _S) == 300
    with pytest.raises(NotAnswerable, match="another terminal"):
        answers.check(first, 600, end=600)


def test_persons_terminals_have_answered_what_they_were_shown() -> None:
    answers, (client,) = Answers(), _clients(1)

    assert _begin(answers, client, end=500, persons=True) == 500

    left, (other,) = Answers(), _clients(1)
    left.last_person_left(400)
    assert _begin(left, other, end=500) == 400


def test_persons_who_were_muted_have_answered_nothing() -> None:
    answers, (first, second) = Answers(), _clients(2)
    _begin(answers, first, end=100)
    answers.last_person_left(400)
    answers.end(first, _S)
    assert not answers.take_over(2 * _S)

    assert _begin(answers, second, end=500, now=2 * _S, persons=True) == 0


def test_persons_answer_when_the_pods_terminal_stays_away() -> None:
    answers, (first, second) = Answers(), _clients(2)
    _begin(answers, first, end=100)
    answers.end(first, _S)

    assert answers.take_over(_S + int(Answers.TAKE_OVER_S * _S))
    assert answers.by_persons
    assert _begin(answers, second, end=500, now=9 * _S, persons=True) == 500
    assert not answers.by_persons


@pytest.mark.parametrize("quiet", [True, False])
def test_what_was_asked_long_ago_is_not_answered_any_more(*, quiet: bool) -> None:
    answers, (client,) = Answers(), _clients(1)
    for second in range(100):
        answers.pass_time(1000 + second, second * _S)

    start = _begin(answers, client, end=2000, now=100 * _S, quiet_us=LATE_US if quiet else 0)

    assert start == 2000 if quiet else 1100 - 2 * LATE_US // _S <= start <= 1100 - LATE_US // _S


# In a keeper.


class Pod:
    """A pod whose agent says what it has got."""

    def __init__(self, fleet: Fleet, name: str = "m") -> None:
        self._heard = fleet.logs / f"{name}.heard"
        self._heard.touch()
        code = (
            "import os, sys, tty; tty.setraw(0); out = open(sys.argv[1], 'ab', 0); os.write(1, b'ready')\n"
            "while data := os.read(0, 65536): out.write(data)"
        )
        self.member: Member = fleet.start(name, sys.executable, "-I", "-S", "-c", code, str(self._heard))
        eventually(lambda: b"ready" in self.member.output(), "it is ready")

    @property
    def heard(self) -> bytes:
        """What its agent has got."""
        return Path(self._heard).read_bytes()

    def typed(self) -> list[Typed]:
        """What is on its tape of that."""
        return [record.typed() for record in self.member.records(Kind.INPUT)]

    def connect(self) -> Connection:
        """A connection to its keeper."""
        return self.member.pod.connect()

    def status(self) -> Json:
        """What its keeper says of itself."""
        with self.connect() as keeper:
            return keeper.status(timeout_s=DEADLINE_S) or {}


@pytest.fixture
def pod(fleet: Fleet) -> Pod:
    """A pod whose agent says what it has got."""
    return Pod(fleet)


def _begin_answering(keeper: Connection) -> int:
    start = keeper.ask({"do": "answer"})["from"]
    assert isinstance(start, int)
    return start


def _end(pod: Pod) -> int:
    end = pod.status()["offset"]
    assert isinstance(end, int)
    return end


def _answer(keeper: Connection, offset: int, data: bytes = _ATTRIBUTES) -> None:
    keeper.ask({"do": "write", "author": "terminal", "answers": offset}, data)


def test_an_answer_is_typed_once_and_recorded_with_what_it_answers(pod: Pod) -> None:
    with pod.connect() as keeper:
        assert _begin_answering(keeper) == 0
        end = _end(pod)
        _answer(keeper, end)
        with pytest.raises(KeeperRefused, match="answered already"):
            _answer(keeper, end)
        with pytest.raises(KeeperRefused, match="nothing was asked"):
            _answer(keeper, end + 10_000)

    eventually(lambda: pod.heard == _ATTRIBUTES, "the answer has arrived")
    assert pod.typed() == [Typed("terminal", _ATTRIBUTES, None, answers=end)]


def test_only_the_newest_terminal_answers_and_the_one_before_is_told(pod: Pod) -> None:
    with pod.connect() as old, pod.connect() as new:
        _begin_answering(old)
        _begin_answering(new)

        assert old.receive() == [({"replaced": True}, b"")]
        with pytest.raises(KeeperRefused, match="another terminal"):
            _answer(old, 1)
        _answer(new, 1)

    assert [typed.answers for typed in pod.typed()] == [1]


def test_a_terminal_that_comes_back_goes_on_where_it_was(pod: Pod) -> None:
    with pod.connect() as first:
        _begin_answering(first)
        _answer(first, 7)
    eventually(lambda: pod.status()["answering"] is False, "it is gone")

    with pod.connect() as second:
        assert _begin_answering(second) == 7
        assert pod.status()["answering"] is True


def test_a_connection_that_never_asked_to_may_not_answer(pod: Pod) -> None:
    with pod.connect() as keeper, pytest.raises(KeeperRefused, match="another terminal"):
        _answer(keeper, 1)

    assert pod.typed() == []


def test_answers_of_a_relayed_terminal_are_dropped_while_the_pods_own_answers(pod: Pod) -> None:
    relayed: Json = {"do": "write", "author": "ann", "at_terminal": True}
    with pod.connect() as person, pod.connect() as terminal:
        person.ask(relayed, b"before" + _ATTRIBUTES)
        _begin_answering(terminal)
        for piece in (b"one" + _ATTRIBUTES[:4], _ATTRIBUTES[4:] + b"two", b"\x1b]11;rgb:0/0", b"/0\x07", b"\x1b[1;2R"):
            person.ask(relayed, piece)
        person.ask({"do": "write", "author": "script"}, _ATTRIBUTES)  # by one who means it
        person.ask(relayed, b"\x1b")
        eventually(lambda: pod.heard.endswith(b"\x1b"), "escape comes through")

    assert pod.heard == b"before" + _ATTRIBUTES + b"onetwo\x1b[1;2R" + _ATTRIBUTES + b"\x1b"
    assert b"".join(typed.data for typed in pod.typed()) == pod.heard


def test_what_a_relayed_terminal_was_shown_is_not_answered_again(pod: Pod) -> None:
    with pod.connect() as person, pod.connect() as terminal:
        person.send({"do": "follow", "from": 0, "at_terminal": True})
        person.ask({"do": "mark", "label": "there", "author": "test"})

        assert _begin_answering(terminal) == _end(pod)


def _attached(fleet: Fleet, pod: Pod) -> Onlooker:
    person = fleet.attach(pod.member)
    eventually(lambda: pod.status()["followers"] == 1, "somebody is attached")
    return person


def test_answers_of_an_attached_terminal_are_dropped_before_they_are_recorded(fleet: Fleet, pod: Pod) -> None:
    person = _attached(fleet, pod)
    with pod.connect() as terminal:
        assert _begin_answering(terminal) == _end(pod)
        for piece in (b"a", _ATTRIBUTES, b"b\x1b[", b"?62;22cc", b"\x1b[I", b"\x1b]52;c;c2VjcmV0\x07", b"d", b"\x1b"):
            before = len(pod.heard)
            person.type(piece)
            if piece[:1] != b"\x1b" or piece == b"\x1b":  # or it would be in the same read as the next
                eventually(lambda: len(pod.heard) > before, f"{piece!r} is typed")  # noqa: B023

        eventually(lambda: pod.heard == b"abc\x1b[Id\x1b", "the last key is typed")
    assert b"".join(typed.data for typed in pod.typed()) == b"abc\x1b[Id\x1b"
    for path in fleet.data.rglob("*.raw"):
        assert b"c2VjcmV0" not in path.read_bytes()


@pytest.mark.chaos  # for five seconds nothing happens; test_persons_answer_when_the_pods_terminal_stays_away is quicker
def test_an_attached_terminal_answers_again_when_the_pods_own_stays_away(fleet: Fleet, pod: Pod) -> None:
    person = _attached(fleet, pod)
    person.type(_ATTRIBUTES)
    eventually(lambda: pod.heard == _ATTRIBUTES, "it answers by itself")
    with pod.connect() as terminal:
        _begin_answering(terminal)
        person.type(_ATTRIBUTES + b".")
        eventually(lambda: pod.heard == _ATTRIBUTES + b".", "it is muted")

    def answers() -> bool:
        person.type(_ATTRIBUTES)
        return pod.heard.endswith(_ATTRIBUTES)

    eventually(answers, "it answers again")
    with pod.connect() as terminal:
        assert _begin_answering(terminal) == _end(pod)


def test_leaving_by_keys_works_while_answers_are_dropped(fleet: Fleet, pod: Pod) -> None:
    person = _attached(fleet, pod)
    with pod.connect() as terminal:
        _begin_answering(terminal)
        person.type(b"\x1c")
        person.type(_ATTRIBUTES)
        person.type(b"\x1c")

        assert person.wait() == 0
    assert pod.heard == b""


# Epochs.


def test_what_comes_with_an_earlier_epoch_is_fenced_off(pod: Pod) -> None:
    with pod.connect() as keeper:
        keeper.ask({"do": "write", "author": "a", "epoch": 3}, b"a3")
        keeper.ask({"do": "write", "author": "b", "epoch": 5}, b"b5")
        lates: list[Json] = [
            {"do": "write", "author": "a", "epoch": 4},
            {"do": "resize", "cols": 90, "rows": 20, "epoch": 4},
            {"do": "signal", "signal": "TERM", "author": "a", "epoch": 0},
            {"do": "stop", "author": "a", "grace_ms": 0, "epoch": 4},
        ]
        for late in lates:
            with pytest.raises(KeeperRefused, match="fenced: epoch 5 has begun"):
                keeper.ask(late, b"late")
        keeper.ask({"do": "write", "author": "b", "epoch": 5}, b"again")
        keeper.ask({"do": "write", "author": "c"}, b"none")

    assert pod.status()["epoch"] == 5
    assert [(typed.author, typed.epoch, typed.data) for typed in pod.typed()] == [
        ("a", 3, b"a3"),
        ("b", 5, b"b5"),
        ("b", 5, b"again"),
        ("c", None, b"none"),
    ]
    eventually(lambda: pod.heard == b"a3b5againnone", "only those are typed")
    assert pod.member.records(Kind.RESIZE, Kind.SIGNAL) == []


@pytest.mark.parametrize("what", ["resize", "signal", "stop"])
def test_any_request_with_an_epoch_begins_it(pod: Pod, what: str) -> None:
    asked: dict[str, Json] = {
        "resize": {"do": "resize", "cols": 90, "rows": 20},
        "signal": {"do": "signal", "signal": "CONT", "author": "b"},
        "stop": {"do": "stop", "author": "b", "grace_ms": 60_000},
    }
    with pod.connect() as keeper:
        keeper.ask(asked[what] | {"epoch": 8})
        if what != "stop":
            with pytest.raises(KeeperRefused, match="fenced"):
                keeper.ask({"do": "write", "author": "a", "epoch": 7}, b"x")

    assert [record.json().get("epoch") for record in pod.member.records(Kind.SIGNAL)] == [8] * (what != "resize")


@pytest.mark.parametrize("epoch", [-1, "5", None, True, 1.5])
def test_an_epoch_that_is_no_number_is_refused(shared_member: Member, epoch: object) -> None:
    with shared_member.pod.connect() as keeper, pytest.raises(KeeperRefused, match="must be a whole number"):
        keeper.ask({"do": "write", "author": "a", "epoch": epoch}, b"x")
