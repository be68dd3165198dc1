"""Bindings in the catalog: told by one event each, as they were at any instant, and never granted by who comes late."""

from __future__ import annotations

import pytest

from scrubjay.errors import BadInput, BindingUnfit, NoSuchBinding
from scrubjay.fleet.bindings import PENDING_US
from scrubjay.fleet.parties import Party
from scrubjay.store.bindings import (
    accept_binding,
    binding_between,
    bindings_of,
    expire_bindings,
    find_bindings,
    get_binding,
    list_bindings,
    reject_binding,
    request_binding,
    unbind,
)
from scrubjay.store.events import Event, read_events
from tests.store.crew import READ, WRITE, Crew


def _told(crew: Crew, after: int) -> list[Event]:
    return [event for event in read_events(crew.connection, after=after) if event.kind.startswith("binding.")]


def test_each_step_is_told_by_one_event_with_everything_there_is_to_know(crew: Crew, ann: Party, bob: Party) -> None:
    start = crew.last
    binding = crew.bind(ann, bob, READ, "to look")
    accept_binding(crew.connection, binding, by="bob", wall_us=crew.tick())
    crew.bind(ann, bob, WRITE)
    reject_binding(crew.connection, binding, by="bob", answer="not that", wall_us=crew.tick())
    crew.bind(ann, bob, WRITE)
    expire_bindings(crew.connection, wall_us=crew.now_us + PENDING_US)
    unbind(crew.connection, binding, by="ada", answer="done", wall_us=crew.tick())

    told = _told(crew, start)

    assert [
        (event.kind, event.data["state"], event.data["granted"], event.data["pending"], event.data["by"])
        for event in told
    ] == [
        ("binding.requested", "pending", [], ["terminal:read"], "test"),
        ("binding.accepted", "active", ["terminal:read"], [], "bob"),
        ("binding.requested", "active", ["terminal:read"], ["terminal:write"], "test"),
        ("binding.rejected", "active", ["terminal:read"], [], "bob"),
        ("binding.requested", "active", ["terminal:read"], ["terminal:write"], "test"),
        ("binding.expired", "active", ["terminal:read"], [], "time"),
        ("binding.unbound", "inactive", [], [], "ada"),
    ]
    for event in told:
        parties = {name: event.data[name] for name in ("initiator", "initiator_name", "target", "target_name")}
        assert parties == {"initiator": ann, "initiator_name": "ann", "target": bob, "target_name": "bob"}
        assert event.data["binding"] == binding.id
        assert event.pod == crew.pod(bob)
    assert told[0].data["reason"] == "to look"
    assert (told[3].data["answer"], told[6].data["answer"]) == ("not that", "done")
    assert "answer" not in told[4].data


def test_a_binding_reads_at_every_instant_as_it_was(crew: Crew, ann: Party, bob: Party) -> None:
    binding = crew.bind(ann, bob, READ)
    asked_us = crew.now_us
    accepted = accept_binding(crew.connection, binding, by="bob", wall_us=crew.tick())
    ended = unbind(crew.connection, binding, by="bob", wall_us=crew.tick())

    assert list_bindings(crew.connection, at_us=asked_us - 1) == []
    assert list_bindings(crew.connection, at_us=asked_us) == [binding]
    assert list_bindings(crew.connection, at_us=asked_us + 1) == [accepted]
    assert list_bindings(crew.connection, at_us=asked_us + 2) == list_bindings(crew.connection) == []
    assert list_bindings(crew.connection, ended=True) == [ended]
    assert list_bindings(crew.connection, at_us=asked_us, ended=True) == [binding]


def test_who_comes_late_with_what_it_knew_grants_nothing(crew: Crew, ann: Party, bob: Party) -> None:
    stale = crew.bind(ann, bob, READ)
    unbind(crew.connection, stale, by="ann", wall_us=crew.tick())
    before = crew.last

    for late in (accept_binding, reject_binding, unbind):
        with pytest.raises(BindingUnfit, match="it is inactive"):
            late(crew.connection, stale, by="bob", wall_us=crew.tick())

    assert crew.last == before
    assert get_binding(crew.connection, stale.id).granted == frozenset()


def test_two_who_accept_at_once_grant_it_once(crew: Crew, ann: Party, bob: Party) -> None:
    stale = crew.bind(ann, bob, READ)
    accept_binding(crew.connection, stale, by="bob", wall_us=crew.tick())

    with pytest.raises(BindingUnfit, match="nothing of that is asked for"):
        accept_binding(crew.connection, stale, by="ada", wall_us=crew.tick())

    assert get_binding(crew.connection, stale.id).decided_by == "bob"


def test_after_an_end_there_is_a_new_binding(crew: Crew, ann: Party, bob: Party) -> None:
    first = crew.bind(ann, bob)
    reject_binding(crew.connection, first, by="bob", wall_us=crew.tick())

    second = crew.bind(ann, bob)

    assert second.id != first.id
    assert binding_between(crew.connection, ann, bob) == second
    assert get_binding(crew.connection, first.id).state == "rejected"
    assert bindings_of(crew.connection, bob) == [second]


def test_the_other_way_round_is_another_binding(crew: Crew, ann: Party, bob: Party) -> None:
    there, back = crew.bind(ann, bob), crew.bind(bob, ann)

    assert binding_between(crew.connection, ann, bob) == there
    assert binding_between(crew.connection, bob, ann) == back
    assert {binding.id for binding in bindings_of(crew.connection, ann)} == {there.id, back.id}


def test_what_cannot_be_asked_for_leaves_nothing(crew: Crew, ann: Party, bob: Party) -> None:
    before = crew.last

    with pytest.raises(BadInput):
        crew.bind(ann, ann)
    with pytest.raises(BadInput):
        crew.bind(ann, bob, frozenset())

    assert crew.last == before


def test_an_agent_outside_pods_asks_and_is_told_like_one_inside(crew: Crew, bob: Party) -> None:
    outside = Party("agent:t1")
    binding = request_binding(crew.connection, initiator=outside, target=bob, scopes=READ, by="ci", wall_us=crew.tick())

    accept_binding(crew.connection, binding, by="bob", wall_us=crew.tick())

    assert crew.inbox(outside) == ["bob: terminal:read is yours now."]


def test_a_binding_is_found_by_its_id_and_by_the_beginning_of_it(crew: Crew, ann: Party, bob: Party) -> None:
    there, back = crew.bind(ann, bob), crew.bind(bob, ann)
    shared = next(length for length in range(26) if there.id[: length + 1] != back.id[: length + 1])

    assert find_bindings(crew.connection, there.id) == [there]
    assert find_bindings(crew.connection, there.id[: shared + 1]) == [there]
    assert len(find_bindings(crew.connection, there.id[:shared])) == 2
    assert find_bindings(crew.connection, there.id + "a") == []
    with pytest.raises(NoSuchBinding):
        get_binding(crew.connection, there.id[:8])
    for nothing in ("\0", "\ud800", "~", "%", "x" * 10_000):
        assert find_bindings(crew.connection, nothing) == []
        with pytest.raises(NoSuchBinding):
            get_binding(crew.connection, nothing)
