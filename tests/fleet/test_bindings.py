"""Bindings: whatever is done to one stays inside the table, and scopes are granted by nothing but a yes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from scrubjay.errors import BadInput, BindingUnfit
from scrubjay.fleet import bindings
from scrubjay.fleet.access import Scope
from scrubjay.fleet.bindings import ALIVE, PENDING_US, SCOPES, TRANSITIONS, Action, Binding, State, parse_scopes
from scrubjay.fleet.parties import Party
from tests.support.tables import every_row
from tests.support.tiers import sized

_ANN, _BOB = Party("ann"), Party("bob")
_READ: frozenset[Scope] = frozenset({"terminal:read"})
_WRITE: frozenset[Scope] = frozenset({"terminal:write"})
_NONE: frozenset[Scope] = frozenset()
_BOTH = _READ | _WRITE
_some_scopes = st.sampled_from([_READ, _WRITE, _BOTH])


def _ask(
    current: Binding | None = None, scopes: frozenset[Scope] = _READ, *, new_id: str = "0", wall_us: int = 0
) -> Binding:
    return bindings.request(
        current, new_id=new_id, initiator=_ANN, target=_BOB, scopes=scopes, by="ann", reason=None, wall_us=wall_us
    )


def _in_state(state: State) -> Binding:
    match state:
        case "pending":
            return _ask()
        case "active":
            return bindings.accept(_ask(), by="bob")
        case "inactive":
            return bindings.unbind(_ask(), by="bob")
        case "rejected":
            return bindings.reject(_ask(), by="bob")
        case "expired":
            return bindings.expire(_ask())


def _do(current: Binding, action: Action) -> Binding:
    """Do something where there is something to do it to: what is asked for is pending, if it can be."""
    asked = replace(current, pending=_WRITE) if current.state in ALIVE else current
    match action:
        case "request":
            return _ask(replace(asked, pending=_NONE), _WRITE)
        case "accept":
            return bindings.accept(asked, by="bob")
        case "reject":
            return bindings.reject(asked, by="bob")
        case "unbind":
            return bindings.unbind(asked, by="bob")
        case "expire":
            return bindings.expire(asked)


_STATES: list[State] = ["pending", "active", "inactive", "rejected", "expired"]
_ACTIONS: list[Action] = ["request", "accept", "reject", "unbind", "expire"]


@every_row("action", _ACTIONS)
@every_row("state", _STATES)
def test_what_is_in_the_table_happens_and_what_is_not_is_refused(state: State, action: Action) -> None:
    current = _in_state(state)
    assert current.state == state
    following = TRANSITIONS.get((state, action))

    if following is None:
        with pytest.raises(BindingUnfit):
            _do(current, action)
    else:
        assert _do(current, action).state == following


class _Life(RuleBasedStateMachine):
    """What two parties have with each other, beside a model that only knows what was asked for and what was granted."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.granted = self.pending = _NONE
        self.current = _ask()

    @initialize(scopes=_some_scopes)
    def begin(self, scopes: frozenset[Scope]) -> None:
        self.current, self.pending = _ask(None, scopes), scopes

    @rule(scopes=_some_scopes)
    def ask(self, scopes: frozenset[Scope]) -> None:
        self.asked += 1
        alive = self.current if self.current.state in ALIVE else None

        following = _ask(alive, scopes, new_id=str(self.asked), wall_us=self.asked)

        if alive is None:
            self.granted = self.pending = _NONE
            assert following.id == str(self.asked)
        else:
            assert following.id == alive.id
            assert (following == alive) == (scopes <= self.granted | self.pending)
        if following != alive:
            assert following.expires_us == self.asked + PENDING_US
        self.pending |= scopes - self.granted
        self._step(alive, "request", following)

    @rule(scopes=st.none() | _some_scopes)
    def accept(self, scopes: frozenset[Scope] | None) -> None:
        wanted = self.pending if scopes is None else self.pending & scopes
        if not wanted:
            with pytest.raises(BindingUnfit):
                bindings.accept(self.current, by="bob", scopes=scopes)
            return
        self.granted, self.pending = self.granted | wanted, _NONE
        self._step(self.current, "accept", bindings.accept(self.current, by="bob", scopes=scopes))

    @rule()
    def reject(self) -> None:
        if not self.pending:
            with pytest.raises(BindingUnfit):
                bindings.reject(self.current, by="bob")
            return
        self.pending = _NONE
        self._step(self.current, "reject", bindings.reject(self.current, by="bob", answer="no"))

    @rule()
    def expire(self) -> None:
        if not self.pending:
            with pytest.raises(BindingUnfit):
                bindings.expire(self.current)
            return
        self.pending = _NONE
        self._step(self.current, "expire", bindings.expire(self.current))

    @rule()
    def unbind(self) -> None:
        if self.current.state not in ALIVE:
            with pytest.raises(BindingUnfit):
                bindings.unbind(self.current, by="ann")
            return
        self.granted = self.pending = _NONE
        self._step(self.current, "unbind", bindings.unbind(self.current, by="ann"))

    def _step(self, before: Binding | None, action: Action, following: Binding) -> None:
        assert TRANSITIONS[before.state if before is not None else None, action] == following.state
        self.current = following

    @invariant()
    def scopes_are_those_that_were_granted_and_asked_for(self) -> None:
        current = self.current
        assert (current.granted, current.pending) == (self.granted, self.pending)
        assert not current.granted & current.pending
        assert bool(current.granted) == (current.state == "active")
        assert bool(current.pending) == (current.expires_us is not None)
        assert current.pending or current.state != "pending"
        assert current.state in ALIVE or not current.pending


def test_whatever_is_done_scopes_are_granted_by_nothing_but_a_yes() -> None:
    run_state_machine_as_test(
        _Life, settings=settings(max_examples=sized(25, 100, 5000), stateful_step_count=30, deadline=None)
    )


def test_who_asks_twice_gets_the_same_binding() -> None:
    first = _ask(scopes=_READ, wall_us=5)

    assert _ask(first, _READ, new_id="2", wall_us=9) is first
    assert _ask(bindings.accept(first, by="bob"), _READ, new_id="2") == bindings.accept(first, by="bob")


def test_more_scopes_are_pending_while_the_others_stay_granted() -> None:
    active = bindings.accept(_ask(scopes=_READ), by="bob")

    more = _ask(active, _BOTH, wall_us=7)

    assert (more.state, more.granted, more.pending, more.expires_us) == ("active", _READ, _WRITE, 7 + PENDING_US)
    for refused in (bindings.reject(more, by="bob"), bindings.expire(more)):
        assert (refused.state, refused.granted, refused.pending) == ("active", _READ, _NONE)
    assert bindings.accept(more, by="bob").granted == _BOTH
    assert bindings.unbind(more, by="bob").granted == _NONE


def test_what_is_not_granted_of_what_is_asked_for_is_refused() -> None:
    some = bindings.accept(_ask(scopes=_BOTH), by="bob", scopes=_READ)

    assert (some.state, some.granted, some.pending) == ("active", _READ, _NONE)
    with pytest.raises(BindingUnfit, match="nothing of that is asked for"):
        bindings.accept(_ask(scopes=_READ), by="bob", scopes=_WRITE)


def test_a_new_request_says_why_and_an_old_reason_stays_if_it_does_not() -> None:
    first = replace(_ask(scopes=_READ), reason="to look", answer="not now")

    more = _ask(first, _WRITE)

    assert (more.reason, more.answer) == ("to look", None)


def test_nobody_is_bound_to_itself() -> None:
    with pytest.raises(BadInput, match="itself"):
        bindings.request(None, new_id="1", initiator=_ANN, target=_ANN, scopes=_READ, by="ann", reason=None, wall_us=0)


def test_a_binding_without_a_scope_is_not_asked_for() -> None:
    with pytest.raises(BadInput, match="no scope"):
        _ask(scopes=_NONE)


def test_scopes_are_named_as_they_are() -> None:
    assert parse_scopes(["terminal:write", "terminal:read", "terminal:read"]) == frozenset(SCOPES)
    with pytest.raises(BadInput, match="'terminal:own' is not a scope"):
        parse_scopes(["terminal:read", "terminal:own"])
    with pytest.raises(BadInput, match="no scope is named"):
        parse_scopes([])
