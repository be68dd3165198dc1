"""What a party may do to which terminal, and whom it knows: as the last event left it."""

from __future__ import annotations

import pytest

from scrubjay.fleet.access import Principal, Scope
from scrubjay.fleet.parties import PERSON, SCRUBJAY, Party, PartyKind, kind_of, party_of, session_party
from scrubjay.fleet.standing import Standing
from scrubjay.ids import SessionId
from tests.support.tables import every_row

_ANN, _BOB, _CAT = Party("ann"), Party("bob"), Party("cat")
_READ: list[Scope] = ["terminal:read"]


def _bind(standing: Standing, one: Party, other: Party, state: str, granted: list[Scope] | None = None) -> None:
    data = {"initiator": one, "target": other, "state": state, "granted": granted or []}
    standing.observe(f"binding.{state}", data)


def _join(standing: Standing, channel: str, *parties: Party) -> None:
    for party in parties:
        standing.observe("channel.joined", {"channel": channel, "party": party})


def test_what_is_granted_holds_one_way_and_until_it_is_taken_back() -> None:
    standing = Standing()

    _bind(standing, _ANN, _BOB, "active", _READ)
    assert standing.scopes(_ANN, _BOB) == {"terminal:read"}
    assert standing.scopes(_BOB, _ANN) == frozenset()

    _bind(standing, _ANN, _BOB, "inactive")
    assert standing.scopes(_ANN, _BOB) == frozenset()


@pytest.mark.parametrize("state", ["pending", "active"])
def test_who_is_bound_knows_each_other_and_what_is_pending_grants_nothing(state: str) -> None:
    standing = Standing()

    _bind(standing, _ANN, _BOB, state)

    assert standing.knows(_ANN, _BOB)
    assert standing.knows(_BOB, _ANN)
    assert not standing.knows(_ANN, _CAT)
    assert standing.scopes(_ANN, _BOB) == frozenset()


@every_row("state", ["inactive", "rejected", "expired"])
def test_who_is_bound_no_longer_does_not_know_each_other(state: str) -> None:
    standing = Standing()

    _bind(standing, _ANN, _BOB, "pending")
    _bind(standing, _ANN, _BOB, state)

    assert not standing.knows(_ANN, _BOB)
    assert not standing.knows(_BOB, _ANN)
    assert standing.acquaintances(_ANN) == {_ANN}


def test_of_two_that_are_bound_both_ways_one_end_is_not_the_other() -> None:
    standing = Standing()
    _bind(standing, _ANN, _BOB, "active", _READ)
    _bind(standing, _BOB, _ANN, "pending")

    _bind(standing, _ANN, _BOB, "inactive")

    assert standing.knows(_ANN, _BOB)
    assert standing.knows(_BOB, _ANN)
    _bind(standing, _BOB, _ANN, "rejected")
    assert not standing.knows(_ANN, _BOB)


def test_members_of_a_channel_know_each_other_until_one_leaves_or_it_is_archived() -> None:
    standing = Standing()
    _join(standing, "build", _ANN, _BOB, _CAT)
    _join(standing, "other", _ANN, _CAT)
    assert standing.acquaintances(_BOB) == {_ANN, _BOB, _CAT}

    standing.observe("channel.left", {"channel": "build", "party": _BOB})
    assert standing.acquaintances(_BOB) == {_BOB}
    assert standing.acquaintances(_ANN) == {_ANN, _CAT}

    standing.observe("channel.archived", {"channel": "build"})
    assert standing.knows(_ANN, _CAT)
    standing.observe("channel.archived", {"channel": "other"})
    assert not standing.knows(_ANN, _CAT)


def test_everybody_knows_itself() -> None:
    assert Standing().knows(_ANN, _ANN)
    assert Standing().acquaintances(_ANN) == {_ANN}


def test_other_events_and_what_is_left_twice_change_nothing() -> None:
    standing = Standing()
    _join(standing, "build", _ANN, _BOB)

    for kind in ("channel.created", "message.posted", "pod.status", "wait.began"):
        standing.observe(kind, {"channel": "build", "party": _ANN})
    standing.observe("channel.left", {"channel": "nowhere", "party": _ANN})
    _bind(standing, _ANN, _CAT, "inactive")

    assert standing.acquaintances(_ANN) == {_ANN, _BOB}


@every_row(
    ("party", "kind"),
    [
        (session_party("a" * 26), "pod"),
        (Party("agent:t1"), "agent"),
        (Party("person:ada"), "person"),
        (Party("person:agent:x"), "person"),
        (PERSON, "person"),
        (SCRUBJAY, "scrubjay"),
    ],
)
def test_what_a_party_is_can_be_told_from_its_name(party: Party, kind: PartyKind) -> None:
    assert kind_of(party) == kind


def test_who_coordinates_is_known_by_session_token_or_name() -> None:
    session = SessionId("s" * 26)

    assert party_of(Principal("token:t1", "pod", "claude"), session) == session
    assert party_of(Principal("token:t1", "agent", "ci"), None) == "agent:t1"
    assert party_of(Principal("browser:b1", "operator", "ada"), None) == "person:ada"
    assert party_of(Principal("local", "viewer", "ada"), None) == "person:ada"
