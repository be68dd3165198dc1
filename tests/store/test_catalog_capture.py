"""Turns that are captured: remembered once, in the session and with the epoch their pod had when they happened."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from sqlalchemy import Connection

from scrubjay.fleet.memories import Instant, Turn
from scrubjay.fleet.parties import Party
from scrubjay.fleet.sessions import Holder, pod_holder
from scrubjay.fleet.turns import Asked, Captured, Underway
from scrubjay.store.capture import Progress, capture_turns, read_progress
from scrubjay.store.memories import Appending, append_memory, list_memories
from scrubjay.store.pods import add_pod, remove_pod
from scrubjay.store.sessions import finish, get_session, grant, open_session, suspend
from scrubjay.store.status import Status
from tests.store.catalogs import START_US, pod_facts, pod_id, session_id
from tests.support.catalogs import memory_catalog

_POD, _OTHER, _SESSION = pod_id(1), pod_id(2), session_id(1)
_SECOND = 1_000_000
_BEGUN = START_US + 1


@pytest.fixture
def catalog() -> Generator[Connection]:
    with memory_catalog() as connection, connection.begin():
        add_pod(connection, pod_facts(1, session=_SESSION), Status("running"), wall_us=_BEGUN)
        open_session(connection, id=_SESSION, holder=pod_holder(_POD), held_by="pod-1", wall_us=_BEGUN)
        yield connection


def _turn(number: int, prompt: str | None = None, response: str = "yes") -> Captured:
    """The turn that took the tenth second after so many tens, on a tape with 100 bytes a second."""
    at, offset = 10 * number * _SECOND, 1000 * number
    turn = Turn(prompt=prompt if prompt is not None else f"prompt {number}", response=response)
    return Captured(turn, _BEGUN + at, offset, _BEGUN + at + 9 * _SECOND, at + 9 * _SECOND, offset + 900, offset + 950)


def _capture(catalog: Connection, *turns: Captured, to: int = 0) -> list[int]:
    known = read_progress(catalog).get(_POD, Progress())
    after = Progress(to or turns[-1].end)
    wall_us = _BEGUN + turns[-1].at
    _, found = capture_turns(catalog, _POD, list(turns), known, after, wall_us=wall_us)
    return [memory.seq for memory in found]


def _remembered(catalog: Connection) -> list[tuple[int, str, int]]:
    return [(memory.seq, memory.turn.prompt, memory.epoch) for memory in list_memories(catalog, _SESSION)]


def test_captured_turns_go_on_the_sequence_and_say_where_on_the_tape_they_are(catalog: Connection) -> None:
    assert _capture(catalog, _turn(1), _turn(2)) == [1, 2]

    first, second = list_memories(catalog, _SESSION)

    assert (first.source, first.epoch, first.agent) == ("hook", 1, "claude")
    assert first.tape == Instant(_POD, 19 * _SECOND, 1900)
    assert first.key == f"hook:{_POD}:1900"
    assert second.turn == Turn(prompt="prompt 2", response="yes")


def test_what_was_captured_before_is_not_captured_again_from_wherever_one_looks(catalog: Connection) -> None:
    before = read_progress(catalog).get(_POD, Progress())
    _capture(catalog, _turn(1), to=2000)

    now, found = capture_turns(catalog, _POD, [_turn(1)], before, Progress(2000), wall_us=_BEGUN)
    assert (now.offset, found) == (2000, [])
    assert _capture(catalog, _turn(1), _turn(2), to=3000) == [2]

    assert _remembered(catalog) == [(1, "prompt 1", 1), (2, "prompt 2", 1)]


def test_how_far_a_tape_was_looked_through_is_kept_with_what_had_not_ended_there(catalog: Connection) -> None:
    underway = Underway(asked=(Asked("why?", 5, 7),), running=True, turn="t1", tools=("Bash",))

    capture_turns(catalog, _POD, [], Progress(), Progress(500, underway), wall_us=_BEGUN)

    assert read_progress(catalog) == {_POD: Progress(500, underway)}
    capture_turns(catalog, _POD, [], Progress(500), Progress(600, done=True), wall_us=_BEGUN)
    assert read_progress(catalog) == {_POD: Progress(600, done=True)}


def _remember(catalog: Connection, turn: Turn, offset: int) -> None:
    how = Appending(_SESSION, 1, "agent", tape=Instant(_POD, None, offset))
    append_memory(catalog, turn, how, wall_us=_BEGUN)


def test_what_the_agent_has_remembered_itself_is_not_captured(catalog: Connection) -> None:
    _remember(catalog, Turn(prompt="prompt  1\n", response="in my own words"), 1500)
    _remember(catalog, Turn(thought="hm", response="yes"), 2900)

    assert _capture(catalog, _turn(1), _turn(2), _turn(3)) == [3]

    assert [prompt for _, prompt, _ in _remembered(catalog)] == ["prompt  1\n", "", "prompt 3"]


def test_what_it_remembered_of_another_turn_that_said_the_same_is_another(catalog: Connection) -> None:
    _remember(catalog, Turn(prompt="go on", response="done"), 1500)

    assert _capture(catalog, _turn(1, "go on"), _turn(2, "go on")) == [2]


def test_a_session_that_was_taken_over_gets_what_was_before_and_nothing_after(catalog: Connection) -> None:
    session = get_session(catalog, _SESSION)
    taken = grant(
        catalog, session, Holder("wire:ann:1"), held_by="ann", how="taken_over", wall_us=_BEGUN + 25 * _SECOND
    )

    assert _capture(catalog, _turn(1), _turn(2), _turn(3)) == [1, 2]

    assert _remembered(catalog) == [(1, "prompt 1", 1), (2, "prompt 2", 1)]
    now = get_session(catalog, _SESSION)
    assert (now.holder, now.epoch, now.state) == (taken.holder, 2, "open")

    grant(catalog, now, pod_holder(_POD), held_by="pod-1", how="resumed", wall_us=_BEGUN + 45 * _SECOND)
    assert _capture(catalog, _turn(4), _turn(5)) == [3, 4]
    assert [epoch for _, _, epoch in _remembered(catalog)] == [1, 1, 3, 3]


def test_a_pod_that_has_ended_had_its_session(catalog: Connection) -> None:
    suspend(catalog, get_session(catalog, _SESSION), why="exited 0", wall_us=_BEGUN + 30 * _SECOND)
    assert _capture(catalog, _turn(2)) == [1]
    grant(
        catalog,
        get_session(catalog, _SESSION),
        pod_holder(_OTHER),
        held_by="pod-2",
        how="resumed",
        wall_us=_BEGUN + 60 * _SECOND,
    )

    assert _capture(catalog, _turn(3)) == [2]

    assert [epoch for _, _, epoch in _remembered(catalog)] == [1, 1]
    assert get_session(catalog, _SESSION).state == "open"


def test_the_turn_in_which_a_session_was_finished_is_its_last(catalog: Connection) -> None:
    finish(catalog, get_session(catalog, _SESSION), by="pod-1", why=None, wall_us=_BEGUN + 25 * _SECOND)

    assert _capture(catalog, _turn(2), _turn(3)) == [1]

    assert get_session(catalog, _SESSION).state == "finished"


def test_a_pod_that_goes_on_with_another_session_is_in_that_one_until_it_loses_it(catalog: Connection) -> None:
    other = open_session(catalog, owner=Party(_SESSION), holder=None, held_by="", wall_us=_BEGUN)
    other = grant(catalog, other, pod_holder(_POD), held_by="pod-1", how="resumed", wall_us=_BEGUN + 25 * _SECOND)

    _capture(catalog, _turn(1), _turn(2), _turn(3))
    grant(catalog, other, pod_holder(_OTHER), held_by="pod-2", how="taken_over", wall_us=_BEGUN + 45 * _SECOND)
    _capture(catalog, _turn(4), _turn(5))

    assert [memory.turn.prompt for memory in list_memories(catalog, other.id)] == ["prompt 2", "prompt 3", "prompt 4"]
    assert [prompt for _, prompt, _ in _remembered(catalog)] == ["prompt 1", "prompt 5"]


def test_what_a_pod_did_before_there_was_a_server_is_remembered(catalog: Connection) -> None:
    early, ended = session_id(2), session_id(3)
    add_pod(catalog, pod_facts(2, session=early), Status("running"), wall_us=_BEGUN + 90 * _SECOND)
    open_session(catalog, id=early, holder=pod_holder(_OTHER), held_by="pod-2", wall_us=_BEGUN + 90 * _SECOND)
    add_pod(catalog, pod_facts(3, session=ended), Status("exited"), wall_us=_BEGUN + 90 * _SECOND)
    open_session(catalog, id=ended, holder=None, held_by="pod-3", wall_us=_BEGUN + 90 * _SECOND)

    for pod in (_OTHER, pod_id(3)):
        capture_turns(catalog, pod, [_turn(1)], Progress(), Progress(2000), wall_us=_BEGUN + 99 * _SECOND)

    assert [memory.epoch for memory in list_memories(catalog, early)] == [1]
    assert [memory.epoch for memory in list_memories(catalog, ended)] == [0]


def test_a_pod_that_never_had_the_session_adds_nothing_to_it(catalog: Connection) -> None:
    add_pod(catalog, pod_facts(2, session=_SESSION), Status("running"), wall_us=_BEGUN + _SECOND)

    capture_turns(catalog, _OTHER, [_turn(1)], Progress(), Progress(2000), wall_us=_BEGUN + 99 * _SECOND)

    assert _remembered(catalog) == []


def test_of_a_pod_that_was_removed_nothing_is_remembered_any_more(catalog: Connection) -> None:
    remove_pod(catalog, _POD, wall_us=_BEGUN + 99 * _SECOND)

    assert _capture(catalog, _turn(1)) == []
