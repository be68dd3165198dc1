"""Waits: which happening ends which wait, and how; and when one takes too long."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from scrubjay.fleet.parties import PERSON, Party
from scrubjay.fleet.waits import (
    OUTCOMES,
    TRANSITIONS,
    Answered,
    Archived,
    Attended,
    Ended,
    Finished,
    Happening,
    Kind,
    Offered,
    Outcome,
    Refused,
    Source,
    Spoke,
    State,
    Stopped,
    Taken,
    Wait,
    WentOn,
    ending_of,
    message_key,
)
from scrubjay.ids import PodId
from tests.support.tables import every_row

_ANN, _BOB, _CAT, _ADA = Party("ann"), Party("bob"), Party("cat"), Party("person:ada")
_ASKED = message_key("build", 3)

# Ann waits for …
_BOB_ITSELF = Wait("1", _ANN, "pod", "declared", on=_BOB)
_ANSWER = Wait("1", _ANN, "pod", "message", key=_ASKED, on=_BOB)
_GUESSED_ANSWER = replace(_ANSWER, source="inferred")
_ANSWER_OF_ADA = Wait("1", _ANN, "person", "message", key=_ASKED, on=_ADA)
_ARTIFACT = Wait("1", _ANN, "artifact", "declared", key="api.json")
_ARTIFACT_OF_BOB = replace(_ARTIFACT, on=_BOB)
_CHANNEL = Wait("1", _ANN, "channel", "declared", key="build")
_CHANNEL_FROM_BOB = replace(_CHANNEL, on=_BOB)
_BINDING = Wait("1", _ANN, "binding", "binding", key="b1", on=_BOB)
_ACCEPTANCE = Wait("1", _ANN, "pod", "inferred", key="h1", on=_BOB)
_POD, _OTHER_POD = PodId("p1"), PodId("p2")
_PROMPT = Wait("1", _ANN, "person", "prompt", key="person:permission", on=PERSON, evidence={"pod": _POD})
_EVERYTHING = (
    *(_BOB_ITSELF, _ANSWER, _GUESSED_ANSWER, _ANSWER_OF_ADA, _ARTIFACT, _ARTIFACT_OF_BOB, _CHANNEL, _CHANNEL_FROM_BOB),
    *(_BINDING, _ACCEPTANCE, _PROMPT),
)


def _spoke(who: Party, channel: str = "build", *, to: Party | None = None, reply_to: int | None = None) -> Spoke:
    answered = message_key("build", reply_to) if reply_to is not None else None
    return Spoke(who, channel, frozenset() if to is None else frozenset({to}), answered)


def _told(who: Party, whom: Party) -> Spoke:
    return Spoke(who, f"inbox:{whom}", frozenset({whom}), None, whom)


def _offered(who: Party, key: str | None = None, *, to: Party | None = None) -> Offered:
    return Offered(who, "h1", key, to)


_CASES: list[tuple[str, Wait, Happening, Outcome | None]] = [
    ("whom it waits for has exited", _BOB_ITSELF, Ended(_BOB, "exited 1"), "failed"),
    ("whom it asked has exited", _ANSWER, Ended(_BOB, "exited 1"), "failed"),
    ("whom it asked is lost, though nobody said that it waits", _GUESSED_ANSWER, Ended(_BOB, "lost"), "failed"),
    ("who should make an artifact has exited", _ARTIFACT_OF_BOB, Ended(_BOB, "exited 1"), "failed"),
    ("who should say something has exited", _CHANNEL_FROM_BOB, Ended(_BOB, "exited 1"), "failed"),
    ("who should grant something has exited", _BINDING, Ended(_BOB, "exited 1"), "failed"),
    ("who should accept something has exited", _ACCEPTANCE, Ended(_BOB, "exited 1"), "failed"),
    ("somebody else has exited", _BOB_ITSELF, Ended(_CAT, "exited 1"), None),
    ("an artifact may come of anybody", _ARTIFACT, Ended(_BOB, "exited 1"), None),
    ("in a channel anybody may say something", _CHANNEL, Ended(_BOB, "exited 1"), None),
    ("a person does not exit", _PROMPT, Ended(_BOB, "exited 1"), None),
    *((f"the waiter of {wait.kind} has exited", wait, Ended(_ANN, "exited 1"), "abandoned") for wait in _EVERYTHING),
    ("whom it waits for has stopped", _BOB_ITSELF, Stopped(_BOB, "exited 1"), "failed"),
    ("whom it asked has stopped", _ANSWER, Stopped(_BOB, "exited 1"), "failed"),
    ("whose prompt was shown has stopped", _PROMPT, Stopped(_ANN, "exited 1"), "abandoned"),
    *(
        (f"the waiter of {wait.kind} has stopped, and may be gone on with", wait, Stopped(_ANN, "exited 1"), None)
        for wait in _EVERYTHING
        if wait.source != "prompt"
    ),
    ("it works again, and so did not wait for the answer", _GUESSED_ANSWER, WentOn(_ANN), "cancelled"),
    ("it works again, and so did not wait for it to be accepted", _ACCEPTANCE, WentOn(_ANN), "cancelled"),
    ("it works again, and said that it waits", _BOB_ITSELF, WentOn(_ANN), None),
    ("it works again, and asked to wait for the answer", _ANSWER, WentOn(_ANN), None),
    ("it works again, but the binding is still pending", _BINDING, WentOn(_ANN), None),
    ("it works again, but its prompt is another matter", _PROMPT, WentOn(_ANN), None),
    ("whom it asked works again", _GUESSED_ANSWER, WentOn(_BOB), None),
    ("a person has answered", _PROMPT, Attended(_ANN, _POD), "met"),
    ("a person has answered in another terminal of the session", _PROMPT, Attended(_ANN, _OTHER_POD), None),
    ("a person has answered somebody else", _PROMPT, Attended(_BOB, _POD), None),
    ("a person has answered, but it was another agent that was asked", _ANSWER, Attended(_ANN, _POD), None),
    ("a person has answered a prompt, not what was asked in a channel", _ANSWER_OF_ADA, Attended(_ANN, _POD), None),
    ("it was granted", _BINDING, Answered("b1", granted=True, how="bob granted it"), "met"),
    ("it was refused", _BINDING, Answered("b1", granted=False, how="bob refused"), "failed"),
    ("another binding was granted", _BINDING, Answered("b2", granted=True, how="bob granted it"), None),
    ("an artifact has the name of a binding", replace(_ARTIFACT, key="b1"), Answered("b1", granted=True, how=""), None),
    ("whom it waits for has finished", _BOB_ITSELF, Finished(_BOB), "met"),
    ("somebody else has finished", _BOB_ITSELF, Finished(_CAT), None),
    ("it has finished itself", _BOB_ITSELF, Finished(_ANN), None),
    ("whom it asked has finished without an answer", _ANSWER, Finished(_BOB), None),
    ("whom it asked has finished without an answer, as far as we know", _GUESSED_ANSWER, Finished(_BOB), None),
    ("who should make an artifact has finished without", _ARTIFACT_OF_BOB, Finished(_BOB), None),
    ("who should grant something has finished without", _BINDING, Finished(_BOB), None),
    ("who should say something has finished without", _CHANNEL_FROM_BOB, Finished(_BOB), None),
    ("somebody speaks in the channel", _CHANNEL, _spoke(_CAT), "met"),
    ("it speaks there itself", _CHANNEL, _spoke(_ANN), None),
    ("somebody speaks elsewhere", _CHANNEL, _spoke(_CAT, "other"), None),
    ("who it waits to hear from speaks in the channel", _CHANNEL_FROM_BOB, _spoke(_BOB), "met"),
    ("somebody else speaks in the channel", _CHANNEL_FROM_BOB, _spoke(_CAT), None),
    ("whom it waits for speaks to it", _BOB_ITSELF, _spoke(_BOB, to=_ANN), "met"),
    ("whom it waits for speaks to it alone", _BOB_ITSELF, _told(_BOB, _ANN), "met"),
    ("whom it waits for speaks to somebody else", _BOB_ITSELF, _spoke(_BOB, to=_CAT), None),
    ("somebody else speaks to it", _BOB_ITSELF, _spoke(_CAT, to=_ANN), None),
    *(
        case
        for wait, how in ((_ANSWER, "waits for the answer"), (_GUESSED_ANSWER, "seems to wait for the answer"))
        for case in (
            (f"it {how}, and there is a reply", wait, _spoke(_BOB, reply_to=3), "met"),
            (f"it {how}, and is mentioned where it asked", wait, _spoke(_BOB, to=_ANN), "met"),
            (f"it {how}, and is told alone", wait, _told(_BOB, _ANN), "met"),
            (f"it {how}, and somebody else replies", wait, _spoke(_CAT, reply_to=3), None),
            (f"it {how}, and another message has a reply", wait, _spoke(_BOB, to=_ANN, reply_to=2), None),
            (f"it {how}, and something is said to nobody", wait, _spoke(_BOB), None),
            (f"it {how}, and is mentioned elsewhere", wait, _spoke(_BOB, "other", to=_ANN), None),
            (f"it {how}, and somebody else is told", wait, _told(_BOB, _CAT), None),
            (f"it {how}, and asks again", wait, _spoke(_ANN, to=_BOB), None),
            (f"it {how}, and something is handed over", wait, _offered(_BOB, to=_ANN), None),
        )
    ),
    ("a person replies", _ANSWER_OF_ADA, _spoke(_ADA, reply_to=3), "met"),
    ("a person mentions it", _ANSWER_OF_ADA, _spoke(_ADA, to=_ANN), "met"),
    ("another person replies", _ANSWER_OF_ADA, _spoke(Party("person:eve"), reply_to=3), "met"),
    ("another person replies to something else", _ANSWER_OF_ADA, _spoke(Party("person:eve"), reply_to=2), None),
    ("a person replies for an agent", _ANSWER, _spoke(_ADA, reply_to=3), None),
    ("an artifact is not a word", _ARTIFACT_OF_BOB, _told(_BOB, _ANN), None),
    ("a grant is not a word", _BINDING, _told(_BOB, _ANN), None),
    ("an acceptance is not a word", _ACCEPTANCE, _told(_BOB, _ANN), None),
    ("the channel was archived", _CHANNEL, Archived("build"), "failed"),
    ("the channel it asked in was archived", _ANSWER, Archived("build"), "failed"),
    ("the channel it seems to have asked in was archived", _GUESSED_ANSWER, Archived("build"), "failed"),
    ("another channel was archived", _CHANNEL, Archived("other"), None),
    ("a channel it did not ask in was archived", _ANSWER, Archived("buil"), None),
    ("an artifact has the name of a channel", replace(_ARTIFACT, key="build"), Archived("build"), None),
    ("somebody offers the artifact", _ARTIFACT, _offered(_CAT, "api.json"), "met"),
    ("somebody offers it the artifact", _ARTIFACT, _offered(_CAT, "api.json", to=_ANN), "met"),
    ("somebody offers the artifact to another", _ARTIFACT, _offered(_BOB, "api.json", to=_CAT), None),
    ("somebody offers another artifact", _ARTIFACT, _offered(_BOB, "db.json"), None),
    ("somebody offers something without a name", _ARTIFACT, _offered(_BOB, to=_ANN), None),
    ("it offers the artifact itself", _ARTIFACT, _offered(_ANN, "api.json"), None),
    ("who should make the artifact offers it", _ARTIFACT_OF_BOB, _offered(_BOB, "api.json"), "met"),
    ("somebody else offers the artifact", _ARTIFACT_OF_BOB, _offered(_CAT, "api.json"), None),
    ("whom it waits for hands something over to it", _BOB_ITSELF, _offered(_BOB, to=_ANN), "met"),
    ("whom it waits for offers something to all", _BOB_ITSELF, _offered(_BOB, "api.json"), None),
    ("whom it waits for hands something over to another", _BOB_ITSELF, _offered(_BOB, to=_CAT), None),
    ("somebody else hands something over to it", _BOB_ITSELF, _offered(_CAT, to=_ANN), None),
    ("its handoff was accepted", _ACCEPTANCE, Taken(_BOB, "h1"), "met"),
    ("its handoff was accepted by somebody else", _ACCEPTANCE, Taken(_CAT, "h1"), None),
    ("another handoff was accepted", _ACCEPTANCE, Taken(_BOB, "h2"), None),
    ("an artifact has the name of a handoff", replace(_ARTIFACT_OF_BOB, key="h1"), Taken(_BOB, "h1"), None),
    ("its handoff was declined", _ACCEPTANCE, Refused(_BOB, "h1", "it was declined"), "failed"),
    ("it has withdrawn its handoff", _ACCEPTANCE, Refused(_ANN, "h1", "it was withdrawn"), "cancelled"),
    ("another handoff was declined", _ACCEPTANCE, Refused(_BOB, "h2", "it was declined"), None),
    ("a declined handoff has the name of an artifact", replace(_ARTIFACT, key="h1"), Refused(_BOB, "h1", ""), None),
]


@every_row(("wait", "happening", "outcome"), [case[1:] for case in _CASES])
def test_a_happening_ends_the_waits_it_is_about_and_no_others(
    wait: Wait, happening: Happening, outcome: Outcome | None
) -> None:
    ending = ending_of(wait, happening)

    assert (ending[0] if ending is not None else None) == outcome


def test_every_kind_of_happening_is_in_the_table_and_ends_something() -> None:
    ends = {type(happening) for _, _, happening, outcome in _CASES if outcome is not None}
    does_not = {type(happening) for _, _, happening, outcome in _CASES if outcome is None}

    assert ends == does_not == set(get_args(Happening))


def test_every_outcome_comes_from_some_happening() -> None:
    assert {outcome for _, _, _, outcome in _CASES} == {*OUTCOMES, None}


def test_the_end_says_why() -> None:
    assert ending_of(_BOB_ITSELF, Ended(_BOB, "exited 1")) == ("failed", "exited 1, and will not do it any more")
    assert ending_of(_BOB_ITSELF, Ended(_ANN, "exited 1")) == ("abandoned", "it exited 1")
    assert ending_of(_BINDING, Answered("b1", granted=False, how="bob refused: no")) == ("failed", "bob refused: no")
    assert ending_of(_ACCEPTANCE, Refused(_BOB, "h1", "it was declined")) == ("failed", "it was declined")


_parties = st.sampled_from([_ANN, _BOB, _CAT, _ADA, PERSON])
_keys = st.sampled_from(["build", "build#3", "b1", "h1", "api.json"])
_waits = st.builds(
    Wait,
    id=st.just("1"),
    waiter=_parties,
    kind=st.sampled_from(get_args(Kind)),
    source=st.sampled_from(get_args(Source)),
    key=st.none() | _keys,
    on=st.none() | _parties,
    evidence=st.sampled_from([{}, {"pod": _POD}]),
)
_mentions = st.frozensets(_parties)
_happenings: st.SearchStrategy[Happening] = st.one_of(
    st.builds(Finished, _parties),
    st.builds(WentOn, _parties),
    st.builds(Attended, _parties, st.just(_POD)),
    st.builds(Ended, _parties, st.just("exited 1")),
    st.builds(Stopped, _parties, st.just("exited 1")),
    st.builds(Spoke, _parties, _keys, _mentions, st.none() | _keys, st.none() | _parties),
    st.builds(Archived, _keys),
    st.builds(Offered, _parties, _keys, st.none() | _keys, st.none() | _parties),
    st.builds(Taken, _parties, _keys),
    st.builds(Refused, _parties, _keys, st.just("it was declined")),
    st.builds(Answered, _keys, granted=st.booleans(), how=st.just("so")),
)


@given(wait=_waits, happening=_happenings)
def test_whatever_happens_a_wait_is_open_or_has_an_outcome_of_the_table(wait: Wait, happening: Happening) -> None:
    ending = ending_of(wait, happening)

    assert wait.state == "open"
    if ending is not None:
        assert replace(wait, outcome=ending[0]).state in TRANSITIONS.values()
        assert ending[1]


@given(wait=_waits, happening=_happenings)
def test_nobody_meets_its_own_wait_by_what_it_does(wait: Wait, happening: Happening) -> None:
    doer = getattr(happening, "party", None)

    if doer == wait.waiter != wait.on and not isinstance(happening, Attended):
        ending = ending_of(wait, happening)

        assert ending is None or ending[0] in ("cancelled", "abandoned")


def test_the_table_has_every_state_and_no_way_back() -> None:
    states = set(get_args(State))

    assert {"open", *TRANSITIONS.values()} == states
    assert {state for state, _ in TRANSITIONS} == {"open"}


@every_row(
    ("deadline_us", "wall_us", "starving"),
    [(None, 1_099, False), (None, 1_100, True), (1_500, 1_499, False), (1_500, 1_500, True), (1_010, 1_010, True)],
)
def test_a_wait_starves_past_its_deadline_or_without_one_when_it_is_old(
    *, deadline_us: int | None, wall_us: int, starving: bool
) -> None:
    wait = replace(_BOB_ITSELF, since_us=1_000, deadline_us=deadline_us)

    assert wait.is_starving(wall_us, after_us=100) == starving
