"""Handoffs in the catalog: told by one event each, taken by whom they are for, and by nobody too late."""

from __future__ import annotations

import pytest

from scrubjay.errors import BadInput, HandoffUnfit, NoSuchHandoff
from scrubjay.fleet.handoffs import Handoff
from scrubjay.fleet.parties import Party
from scrubjay.store.events import read_events
from scrubjay.store.handoffs import (
    accept_handoff,
    artifact_for,
    decline_handoff,
    find_handoffs,
    get_handoff,
    list_handoffs,
    withdraw_handoff,
)
from tests.store.crew import Crew


def test_an_offer_is_kept_with_all_that_is_in_it_and_its_recipient_told(crew: Crew, ann: Party, bob: Party) -> None:
    offered, met = crew.offer(ann, to=bob, key="api.json")

    assert met == []
    assert get_handoff(crew.connection, offered.id) == offered
    assert offered == Handoff(
        offered.id, ann, "here you are", bob, "api.json", ("a.json",), "abc", "offered", (), crew.now_us, crew.now_us
    )
    assert crew.inbox(bob) == [
        f"ann hands api.json over to you: here you are Take it with accept_handoff(handoff={offered.id!r})."
    ]


def test_each_step_is_told_by_one_event(crew: Crew, ann: Party, bob: Party) -> None:
    start = crew.last
    taken, declined, withdrawn = (crew.offer(ann, to=bob)[0] for _ in range(3))
    for _ in range(2):  # again is as good as once
        accept_handoff(crew.connection, taken, bob, wall_us=crew.tick())
    decline_handoff(crew.connection, declined, bob, wall_us=crew.tick())
    withdraw_handoff(crew.connection, withdrawn, wall_us=crew.tick())

    told = [event for event in read_events(crew.connection, after=start) if event.kind.startswith("handoff.")]

    assert [(event.kind, event.data["handoff"], event.data["state"], event.data["by_name"]) for event in told] == [
        ("handoff.offered", taken.id, "offered", "ann"),
        ("handoff.offered", declined.id, "offered", "ann"),
        ("handoff.offered", withdrawn.id, "offered", "ann"),
        ("handoff.accepted", taken.id, "accepted", "bob"),
        ("handoff.declined", declined.id, "declined", "bob"),
        ("handoff.withdrawn", withdrawn.id, "withdrawn", "ann"),
    ]
    assert {(event.data["offered_by"], event.data["recipient"], event.pod) for event in told} == {
        (ann, bob, crew.pod(ann))
    }


def test_who_comes_late_with_what_it_knew_takes_nothing_and_loses_nobody(crew: Crew, ann: Party, bob: Party) -> None:
    cat = crew.hire("cat")
    stale, _ = crew.offer(ann, key="api.json")

    accept_handoff(crew.connection, stale, bob, wall_us=crew.tick())
    accept_handoff(crew.connection, stale, cat, wall_us=crew.tick())
    assert get_handoff(crew.connection, stale.id).takers == (bob, cat)

    with pytest.raises(HandoffUnfit, match="it is accepted"):
        withdraw_handoff(crew.connection, stale, wall_us=crew.tick())
    with pytest.raises(HandoffUnfit, match="it is accepted"):
        decline_handoff(crew.connection, stale, bob, wall_us=crew.tick())
    gone, _ = crew.offer(ann, to=bob)
    withdraw_handoff(crew.connection, gone, wall_us=crew.tick())
    with pytest.raises(HandoffUnfit, match="it is withdrawn"):
        accept_handoff(crew.connection, gone, bob, wall_us=crew.tick())


def test_who_it_is_not_for_cannot_take_it_and_nothing_is_left_of_the_attempt(
    crew: Crew, ann: Party, bob: Party
) -> None:
    cat = crew.hire("cat")
    to_bob, _ = crew.offer(ann, to=bob)
    before = crew.last

    for party in (ann, cat):
        with pytest.raises(HandoffUnfit, match="for somebody else"):
            accept_handoff(crew.connection, to_bob, party, wall_us=crew.tick())

    assert crew.last == before


def test_nobody_hands_over_to_itself(crew: Crew, ann: Party) -> None:
    before = crew.last

    with pytest.raises(BadInput, match="itself"):
        crew.offer(ann, to=ann)

    assert crew.last == before


def test_a_handoff_reads_at_every_instant_as_it_was(crew: Crew, ann: Party, bob: Party) -> None:
    offered, _ = crew.offer(ann, to=bob)
    offered_us = crew.now_us
    later, _ = crew.offer(ann, to=bob)
    taken = accept_handoff(crew.connection, offered, bob, wall_us=crew.tick())

    assert list_handoffs(crew.connection, at_us=offered_us - 1) == []
    assert list_handoffs(crew.connection, at_us=offered_us) == [offered]
    assert list_handoffs(crew.connection, at_us=offered_us + 1) == [offered, later]
    assert list_handoffs(crew.connection) == [taken, later]  # the oldest first, whatever became of it
    assert taken.offered_us == offered_us


def test_the_newest_artifact_that_one_may_take_is_found(crew: Crew, ann: Party, bob: Party) -> None:
    cat = crew.hire("cat")
    crew.offer(ann, key="api.json")
    of_ann, _ = crew.offer(ann, key="api.json")
    of_cat, _ = crew.offer(cat, key="api.json")
    to_cat, _ = crew.offer(ann, key="api.json", to=cat)
    gone, _ = crew.offer(ann, key="api.json")
    withdraw_handoff(crew.connection, gone, wall_us=crew.tick())

    def found(party: Party, of: Party | None = None) -> Handoff | None:
        return artifact_for(crew.connection, "api.json", party, of=of)

    assert found(bob) == of_cat
    assert found(bob, ann) == of_ann
    assert found(cat) == to_cat
    assert found(ann) == of_cat
    assert found(ann, ann) is None
    assert artifact_for(crew.connection, "db.json", bob) is None
    taken = accept_handoff(crew.connection, of_cat, bob, wall_us=crew.tick())
    assert found(ann) == taken  # it stays there


def test_a_handoff_is_found_by_its_id_and_by_the_beginning_of_it(crew: Crew, ann: Party, bob: Party) -> None:
    offered, _ = crew.offer(ann, to=bob)

    assert [find_handoffs(crew.connection, offered.id[:length]) for length in (26, 8, 1)] == [[offered]] * 3
    for nothing in ("\0", "\ud800", "~", "%", offered.id + "a"):
        assert find_handoffs(crew.connection, nothing) == []
        assert artifact_for(crew.connection, nothing, bob) is None
        with pytest.raises(NoSuchHandoff):
            get_handoff(crew.connection, nothing)
