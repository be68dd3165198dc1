"""Sessions: who gets one, who is refused and why, and who may write."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrubjay.errors import Fenced, SessionFinished
from scrubjay.fleet.parties import Party
from scrubjay.fleet.sessions import (
    Claim,
    Holder,
    Reason,
    Session,
    State,
    how_granted,
    is_session_id,
    judge,
    pod_holder,
    pod_of_holder,
    require_holding,
    warn,
)
from scrubjay.ids import PodId, SessionId, new_session_id
from tests.support.tables import every_row

_ID = SessionId("s" * 26)
_ME, _OTHER = Holder("wire:token:a:1"), Holder("wire:token:a:2")
_FREE = Session(_ID, Party("agent:a"), "suspended", 3, 7, 0, 0, _OTHER, "bob")
_HELD = replace(_FREE, state="open")
_MINE = replace(_HELD, holder=_ME)
_FINISHED = replace(_FREE, state="finished")

_CASES: list[tuple[str, Session, Claim, Reason | None, str]] = [
    ("nobody has it", _FREE, Claim(_ME), None, "resumed"),
    ("I have it", _MINE, Claim(_ME), None, "resumed"),
    ("another has it", _HELD, Claim(_ME), "held", ""),
    ("another has it, and I take it", _HELD, Claim(_ME, takeover=True), None, "taken_over"),
    ("another has it, and was not heard of", _HELD, Claim(_ME, lapsed=True), None, "resumed"),
    ("it is finished", _FINISHED, Claim(_ME), "finished", ""),
    ("it is finished, and takeover is not reopening", _FINISHED, Claim(_ME, takeover=True), "finished", ""),
    ("it is finished, and I reopen it", _FINISHED, Claim(_ME, reopen=True), None, "reopened"),
    ("it has expired", _FREE, Claim(_ME, expired=True), "expired", ""),
    ("it has expired, and I reopen it", _FREE, Claim(_ME, expired=True, reopen=True), None, "reopened"),
    ("reopening takes nothing from anybody", _HELD, Claim(_ME, reopen=True), "held", ""),
]


@every_row(("session", "claim", "reason", "how"), [case[1:] for case in _CASES])
def test_a_claim_is_granted_or_refused_with_its_reason(
    session: Session, claim: Claim, reason: Reason | None, how: str
) -> None:
    assert judge(session, claim) == reason
    if reason is None:
        assert how_granted(session, claim) == how


_states = st.sampled_from(get_args(State))
_claims = st.builds(Claim, st.just(_ME), st.booleans(), st.booleans(), st.booleans(), st.booleans())


@given(_states, st.sampled_from([_ME, _OTHER, None]), _claims)
def test_nobody_loses_a_session_unless_they_were_silent_or_it_was_taken(
    state: State, holder: Holder | None, claim: Claim
) -> None:
    session = replace(_FREE, state=state, holder=holder)

    if state == "open" and holder == _OTHER and judge(session, claim) is None:
        assert claim.takeover or claim.lapsed


def test_only_the_holder_writes_and_only_with_its_epoch() -> None:
    require_holding(_MINE, _ME, None)
    require_holding(_MINE, _ME, 3)
    for session, epoch in ((_MINE, 2), (_MINE, 4), (_HELD, None), (_HELD, 3)):
        with pytest.raises(Fenced) as caught:
            require_holding(session, _ME, epoch)
        assert caught.value.epoch == 3
    with pytest.raises(SessionFinished):
        require_holding(replace(_FINISHED, holder=_ME), _ME, 3)


def test_who_is_fenced_hears_who_has_it_and_how_to_get_it_back() -> None:
    with pytest.raises(Fenced) as caught:
        require_holding(_HELD, _ME, None)

    assert str(caught.value).startswith("nothing was written into session ssssssss: another connection (bob) has it")
    assert caught.value.hint == f"resume_session(session_id={_ID!r}) asks for it again; takeover=true takes it"


def test_every_reason_has_a_sentence_that_names_what_was_asked_for_and_the_new_session() -> None:
    new = SessionId("n" * 26)
    for reason in get_args(Reason):
        said = warn(reason, _ID, new, held_by="bob", for_s=12)

        assert said.startswith("NOT RESUMED: ")
        assert _ID in said
        assert said.endswith(f"You are in a new session, {new}: what you add goes there.")


def test_a_long_id_is_cut_in_the_sentence() -> None:
    said = warn("malformed", "x" * 5000, _ID)

    assert len(said) < 300


def test_a_pod_as_a_holder_is_found_again_and_nothing_else_is_one() -> None:
    assert pod_of_holder(pod_holder("abc")) == PodId("abc")
    for other in (None, _ME, Holder("principal:token:x:"), Holder("")):
        assert pod_of_holder(other) is None


def test_only_ids_look_like_ids() -> None:
    assert is_session_id(new_session_id())
    for raw in ("", "x", "A" * 26, "a" * 25, "a" * 27, "a" * 25 + "\n", "../" + "a" * 23, "0" * 26):
        assert not is_session_id(raw)
