"""Waits in the catalog: begun and ended once, told by one event each; and the circles they make."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scrubjay.errors import BadInput
from scrubjay.fleet.parties import PERSON, SCRUBJAY, Party
from scrubjay.fleet.waits import OUTCOMES, Outcome, Wait
from scrubjay.ids import new_record_id
from scrubjay.store.deadlocks import Deadlock, end_deadlock, found_deadlock, list_deadlocks, past_deadlocks
from scrubjay.store.events import read_events
from scrubjay.store.parties import end_of, name_of, pod_of
from scrubjay.store.tokens import add_token
from scrubjay.store.waits import begin_wait, end_wait, get_wait, list_waits, recent_waits, waits_of
from tests.store.crew import Crew


def _end(crew: Crew, wait: Wait, outcome: Outcome) -> Wait:
    return end_wait(crew.connection, wait, outcome, "so it is", wall_us=crew.tick())


def test_a_wait_is_kept_with_all_that_is_in_it_and_told(crew: Crew, ann: Party, bob: Party) -> None:
    start = crew.last
    wait = Wait(
        new_record_id(),
        ann,
        "artifact",
        "declared",
        key="api.json",
        on=bob,
        reason="need it",
        deadline_us=99,
        evidence={"offset": 7},
    )

    began = begin_wait(crew.connection, wait, wall_us=crew.tick())

    assert began == replace(wait, since_us=crew.now_us)
    assert get_wait(crew.connection, wait.id) == began
    (event,) = read_events(crew.connection, after=start)
    assert (event.kind, event.pod) == ("wait.began", crew.pod(ann))
    assert event.data == {
        "wait": wait.id,
        "waiter": ann,
        "waiter_name": "ann",
        "kind": "artifact",
        "source": "declared",
        "key": "api.json",
        "on": bob,
        "on_name": "bob",
        "reason": "need it",
        "deadline_us": 99,
        "evidence": {"offset": 7},
    }


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_wait_ends_once_whatever_is_tried_after(crew: Crew, ann: Party, bob: Party, outcome: Outcome) -> None:
    wait = crew.wait(ann, "pod", on=bob)
    start = crew.last

    ended = _end(crew, wait, outcome)
    assert (ended.state, ended.detail, ended.until_us) == (outcome, "so it is", crew.now_us)
    for other in OUTCOMES:
        assert _end(crew, wait, other) == ended

    assert get_wait(crew.connection, wait.id) == ended
    (event,) = read_events(crew.connection, after=start)
    assert event.kind == "wait.ended"
    assert event.data == {"wait": wait.id, "waiter": ann, "on": bob, "outcome": outcome, "detail": "so it is"}


def test_who_waits_twice_for_the_same_waits_once(crew: Crew, ann: Party, bob: Party) -> None:
    first = crew.wait(ann, "pod", on=bob)
    before = crew.last

    assert crew.wait(ann, "pod", on=bob) == first
    assert crew.last == before

    others = [crew.wait(ann, "artifact", on=bob, key="a"), crew.wait(ann, "artifact", key="a")]
    assert len({first.id, *(wait.id for wait in others), crew.wait(bob, "pod", on=ann).id}) == 4
    _end(crew, first, "met")
    assert crew.wait(ann, "pod", on=bob).id != first.id


def test_what_names_no_wait_finds_none(crew: Crew) -> None:
    assert [get_wait(crew.connection, raw) for raw in ("", "\0", "\ud800", "x")] == [None] * 4


def test_nobody_waits_for_itself(crew: Crew, ann: Party) -> None:
    before = crew.last

    with pytest.raises(BadInput, match="itself"):
        crew.wait(ann, "pod", on=ann)

    assert crew.last == before


def test_waits_read_at_every_instant_as_they_were(crew: Crew, ann: Party, bob: Party) -> None:
    first = crew.wait(ann, "pod", on=bob)
    began_us = crew.now_us
    second = crew.wait(bob, "artifact", key="a")
    _end(crew, first, "met")

    assert list_waits(crew.connection, at_us=began_us - 1) == []
    assert list_waits(crew.connection, at_us=began_us) == [first]
    assert list_waits(crew.connection, at_us=began_us + 1) == [first, second]
    assert list_waits(crew.connection, at_us=began_us + 2) == list_waits(crew.connection) == [second]
    assert waits_of(crew.connection, ann) == []


def test_what_has_ended_lately_is_there_the_latest_first(crew: Crew, ann: Party, bob: Party) -> None:
    waits = [crew.wait(ann, "artifact", key=key) for key in "abc"]
    ended = [_end(crew, wait, "met") for wait in waits]

    assert recent_waits(crew.connection, after_us=0, limit=9) == ended[::-1]
    assert recent_waits(crew.connection, after_us=0, limit=2) == ended[:0:-1]
    assert recent_waits(crew.connection, after_us=crew.now_us, limit=9) == ended[2:]


def test_a_circle_is_kept_once_with_its_edges_and_how_it_was_opened(crew: Crew, ann: Party, bob: Party) -> None:
    there, back = crew.wait(ann, "pod", on=bob), crew.wait(bob, "pod", on=ann)
    start = crew.last

    def find() -> Deadlock:
        waits = [there.id, back.id]
        return found_deadlock(crew.connection, "k", parties=[ann, bob], waits=waits, cut=back.id, wall_us=crew.tick())

    found = find()
    assert find() == found
    found_us = found.since_us
    assert list_deadlocks(crew.connection) == [found]

    ended = end_deadlock(crew.connection, "k", "ada cut it", wall_us=crew.tick())
    assert ended == replace(found, until_us=crew.now_us, outcome="ada cut it")
    assert end_deadlock(crew.connection, "k", "again", wall_us=crew.tick()) is None
    assert list_deadlocks(crew.connection) == list_deadlocks(crew.connection, at_us=found_us - 1) == []
    assert list_deadlocks(crew.connection, at_us=found_us) == [found]
    again = find()
    assert past_deadlocks(crew.connection, limit=9) == [again, ended]
    assert past_deadlocks(crew.connection, limit=1) == [again]

    events = read_events(crew.connection, after=start)
    assert [event.kind for event in events] == ["deadlock.found", "deadlock.ended", "deadlock.found"]
    assert events[0].data["names"] == ["ann", "bob"]
    assert events[0].data["cut"] == back.id
    edges = events[0].data["edges"]
    assert isinstance(edges, list)
    assert edges[0] == {
        "wait": there.id,
        "waiter": ann,
        "waiter_name": "ann",
        "on": bob,
        "on_name": "bob",
        "reason": "need it",
        "source": "declared",
        "since_us": there.since_us,
    }
    assert events[1].data["outcome"] == "ada cut it"


def test_a_party_is_called_as_its_newest_pod_is_or_was(crew: Crew, ann: Party) -> None:
    add_token(
        crew.connection,
        id="t1",
        digest=b"",
        role="agent",
        name="ci",
        pod=None,
        expires_us=None,
        wall_us=crew.tick(),
    )

    crew.hire("ann-2", again=ann)
    assert (name_of(crew.connection, ann), pod_of(crew.connection, ann)) == ("ann-2", crew.pod(ann))
    crew.delete(ann)
    assert (name_of(crew.connection, ann), pod_of(crew.connection, ann)) == ("ann", crew.pod(ann))
    crew.delete(ann)
    assert (name_of(crew.connection, ann), pod_of(crew.connection, ann)) == ("ann-2", None)

    assert name_of(crew.connection, Party("agent:t1")) == "ci"
    assert name_of(crew.connection, Party("agent:unknown-token")) == "unknown-"
    assert name_of(crew.connection, Party("a" * 26)) == "aaaaaaaa"
    assert name_of(crew.connection, Party("person:ada")) == "ada"
    assert name_of(crew.connection, PERSON) == "person"
    assert name_of(crew.connection, SCRUBJAY) == "scrubjay"
    assert pod_of(crew.connection, PERSON) is None


def test_a_party_has_ended_when_all_its_pods_have(crew: Crew, ann: Party) -> None:
    crew.hire("ann-2", again=ann)
    crew.exit(ann, index=0)
    assert end_of(crew.connection, ann) is None

    crew.status(ann, process="lost", reason="keeper killed")
    assert end_of(crew.connection, ann) == "lost: keeper killed"
    crew.delete(ann)
    crew.delete(ann)
    assert end_of(crew.connection, ann) == "was deleted"
    crew.hire("ann-3", again=ann)
    assert end_of(crew.connection, ann) is None

    for party in (Party("agent:t"), Party("person:ada"), PERSON, SCRUBJAY, Party("a" * 26)):
        assert end_of(crew.connection, party) is None
