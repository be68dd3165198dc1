"""Handoffs: whatever is done to one stays inside the table, and it goes to whom it is for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from scrubjay.errors import HandoffUnfit
from scrubjay.fleet import handoffs
from scrubjay.fleet.handoffs import TRANSITIONS, Action, Handoff, State
from scrubjay.fleet.parties import Party
from tests.support.tables import every_row
from tests.support.tiers import sized

_ANN, _BOB, _CAT = Party("ann"), Party("bob"), Party("cat")
_TO_BOB = Handoff("h1", _ANN, "here", recipient=_BOB)
_FOR_ALL = Handoff("h1", _ANN, "here", key="api.json")
_FOR_ANYBODY = Handoff("h1", _ANN, "here")


def _in_state(state: State) -> Handoff:
    match state:
        case "offered":
            return _TO_BOB
        case "accepted":
            return handoffs.accept(_TO_BOB, _BOB)
        case "declined":
            return handoffs.decline(_TO_BOB)
        case "withdrawn":
            return handoffs.withdraw(_TO_BOB)


def _do(current: Handoff, action: Action) -> Handoff:
    match action:
        case "accept":
            return handoffs.accept(current, _BOB)
        case "decline":
            return handoffs.decline(current)
        case "withdraw":
            return handoffs.withdraw(current)


_STATES: list[State] = ["offered", "accepted", "declined", "withdrawn"]
_ACTIONS: list[Action] = ["accept", "decline", "withdraw"]


@every_row("action", _ACTIONS)
@every_row("state", _STATES)
def test_what_is_in_the_table_happens_and_what_is_not_is_refused(state: State, action: Action) -> None:
    current = _in_state(state)
    assert current.state == state
    following = TRANSITIONS.get((state, action))

    if following is None:
        with pytest.raises(HandoffUnfit, match=f"it is {state}"):
            _do(current, action)
    else:
        assert _do(current, action).state == following


class _Life(RuleBasedStateMachine):
    """A handoff, beside a model that only knows whether it is over and who has it."""

    def __init__(self) -> None:
        super().__init__()
        self.current = _TO_BOB
        self.over = False
        self.takers: list[Party] = []

    @initialize(first=st.sampled_from([_TO_BOB, _FOR_ALL, _FOR_ANYBODY, replace(_TO_BOB, key="api.json")]))
    def begin(self, first: Handoff) -> None:
        self.current = first

    @rule(taker=st.sampled_from([_ANN, _BOB, _CAT]))
    def accept(self, taker: Party) -> None:
        current = self.current
        for_it = taker == _BOB if current.recipient is not None else taker != _ANN
        free = not self.takers or taker in self.takers or (current.key is not None and current.recipient is None)
        if self.over or not for_it or not free:
            with pytest.raises(HandoffUnfit):
                handoffs.accept(current, taker)
            return
        following = handoffs.accept(current, taker)
        if taker in self.takers:
            assert following is current
            return
        self.takers.append(taker)
        self._step("accept", following)

    @rule(withdrawn=st.booleans())
    def end(self, *, withdrawn: bool) -> None:
        action: Action = "withdraw" if withdrawn else "decline"
        if self.over or self.takers:
            with pytest.raises(HandoffUnfit):
                _do(self.current, action)
            return
        self.over = True
        self._step(action, _do(self.current, action))

    def _step(self, action: Action, following: Handoff) -> None:
        assert TRANSITIONS[self.current.state, action] == following.state
        assert replace(following, state=self.current.state, takers=self.current.takers) == self.current
        self.current = following

    @invariant()
    def it_is_with_whom_it_was_taken_by(self) -> None:
        assert list(self.current.takers) == self.takers
        assert (self.current.state == "accepted") == bool(self.takers)
        assert (self.current.state in ("declined", "withdrawn")) == self.over


def test_whatever_is_done_it_goes_to_whom_it_is_for() -> None:
    run_state_machine_as_test(
        _Life, settings=settings(max_examples=sized(25, 100, 5000), stateful_step_count=12, deadline=None)
    )


def test_what_has_a_key_is_taken_by_everybody_who_needs_it() -> None:
    taken = handoffs.accept(handoffs.accept(_FOR_ALL, _BOB), _CAT)

    assert taken.takers == (_BOB, _CAT)
    assert handoffs.accept(taken, _BOB) is taken


def test_what_has_no_key_is_taken_once() -> None:
    with pytest.raises(HandoffUnfit, match="somebody else has taken it"):
        handoffs.accept(handoffs.accept(_FOR_ANYBODY, _BOB), _CAT)


@every_row(("handoff", "whose"), [(_TO_BOB, {_BOB}), (_FOR_ALL, {_BOB, _CAT}), (replace(_TO_BOB, key="k"), {_BOB})])
def test_it_is_for_its_recipient_or_for_everybody_but_who_offers_it(handoff: Handoff, whose: set[Party]) -> None:
    assert {party for party in (_ANN, _BOB, _CAT) if handoff.is_for(party)} == whose
