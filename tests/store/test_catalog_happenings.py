"""What happens between agents, and what follows from it for those who wait."""

from __future__ import annotations

import pytest

from scrubjay.fleet.bindings import PENDING_US
from scrubjay.fleet.parties import PERSON, Party, agent_party
from scrubjay.fleet.waits import message_key
from scrubjay.store.bindings import accept_binding, bindings_of, expire_bindings, list_bindings, reject_binding, unbind
from scrubjay.store.channels import channels_of, get_channel, inbox_id, own_inbox
from scrubjay.store.events import read_events
from scrubjay.store.handoffs import accept_handoff, decline_handoff, get_handoff, withdraw_handoff
from scrubjay.store.retiring import retire_agent, retire_channel
from scrubjay.store.tokens import add_token, revoke_token
from scrubjay.store.waits import end_wait, get_wait, list_waits, waits_of
from scrubjay.tape.record import Json
from tests.store.crew import READ, WRITE, Crew

# Bindings.


def test_who_asks_for_a_terminal_waits_and_whose_it_is_is_told(crew: Crew, ann: Party, bob: Party) -> None:
    binding = crew.bind(ann, bob, READ, "to see the tests")

    wait = crew.only_wait(ann)
    assert (wait.kind, wait.source, wait.key, wait.on) == ("binding", "binding", binding.id, bob)
    assert wait.reason == "terminal:read asked for: to see the tests"
    (told,) = crew.deliveries(bob)
    assert told.message.text.startswith("ann asks to look at your terminal and its past (terminal:read).")
    assert "to see the tests" in told.message.text
    assert binding.id in told.message.text
    assert told.message.about == {"binding": binding.id}
    assert crew.inbox(ann) == []


def test_a_grant_meets_the_wait_and_says_what_is_granted(crew: Crew, ann: Party, bob: Party) -> None:
    binding, wait = crew.bind(ann, bob, READ | WRITE), crew.only_wait(ann)

    accept_binding(crew.connection, binding, by="bob", scopes=READ, wall_us=crew.tick())

    assert crew.end(wait) == ("met", "bob granted terminal:read")
    assert crew.inbox(ann) == ["bob: terminal:read is yours now."]


def test_a_refusal_fails_the_wait_and_says_why(crew: Crew, ann: Party, bob: Party) -> None:
    binding, wait = crew.bind(ann, bob), crew.only_wait(ann)

    reject_binding(crew.connection, binding, by="bob", answer="not now", wall_us=crew.tick())

    assert crew.end(wait) == ("failed", "bob refused: not now")
    assert crew.inbox(ann) == ["bob: terminal:read was refused: not now"]


def test_an_end_before_the_answer_fails_the_wait(crew: Crew, ann: Party, bob: Party) -> None:
    binding, wait = crew.bind(ann, bob), crew.only_wait(ann)

    unbind(crew.connection, binding, by="bob", wall_us=crew.tick())

    assert crew.end(wait) == ("failed", "bob ended the binding")
    assert crew.inbox(ann) == ["bob: bob ended the binding."]


def test_who_ends_its_own_binding_needs_no_word_of_it(crew: Crew, ann: Party, bob: Party) -> None:
    unbind(crew.connection, crew.bind(ann, bob), by="ann", wall_us=crew.tick())

    assert crew.inbox(ann) == []


def test_what_nobody_answers_expires_and_fails_the_wait(crew: Crew, ann: Party, bob: Party) -> None:
    crew.bind(ann, bob)
    wait, asked_us = crew.only_wait(ann), crew.now_us

    assert expire_bindings(crew.connection, wall_us=asked_us + PENDING_US - 1) == []
    (expired,) = expire_bindings(crew.connection, wall_us=asked_us + PENDING_US)

    assert (expired.state, expired.pending) == ("expired", frozenset())
    assert crew.end(wait) == ("failed", "nobody answered in time")
    assert crew.inbox(ann) == ["bob: nobody answered in time whether terminal:read is yours."]
    assert expire_bindings(crew.connection, wall_us=asked_us + PENDING_US) == []


def test_more_scopes_are_waited_for_while_the_others_are_used(crew: Crew, ann: Party, bob: Party) -> None:
    active = accept_binding(crew.connection, crew.bind(ann, bob, READ), by="bob", wall_us=crew.tick())
    assert crew.waits(ann) == []

    more = crew.bind(ann, bob, WRITE)

    assert (more.id, more.granted, more.pending) == (active.id, READ, WRITE)
    wait = crew.only_wait(ann)
    reject_binding(crew.connection, more, by="bob", wall_us=crew.tick())
    assert crew.end(wait)[0] == "failed"
    (kept,) = bindings_of(crew.connection, ann)
    assert (kept.state, kept.granted) == ("active", READ)


def test_who_asks_again_changes_nothing_but_waits_again(crew: Crew, ann: Party, bob: Party) -> None:
    binding = crew.bind(ann, bob)
    before = crew.last
    assert crew.bind(ann, bob) == binding
    assert crew.last == before

    end_wait(crew.connection, crew.only_wait(ann), "cancelled", "ada cut it", wall_us=crew.tick())
    assert crew.bind(ann, bob) == binding

    assert crew.waits(ann) == [("binding", "binding", binding.id, bob)]
    assert len(crew.inbox(bob)) == 1


# Questions.


def test_who_asks_and_stops_is_taken_to_wait_for_the_answer(crew: Crew, ann: Party, bob: Party) -> None:
    channel = crew.channel("build", ann, bob)
    crew.work(ann)
    asked = crew.ask(channel, ann, bob)
    assert crew.waits(ann) == []

    crew.rest(ann)

    wait = crew.only_wait(ann)
    key = message_key(channel.id, asked.seq)
    assert (wait.kind, wait.source, wait.key, wait.on) == ("pod", "inferred", key, bob)
    assert (wait.reason, wait.evidence) == ("which port?", {"channel": channel.id, "seq": asked.seq})


@pytest.mark.parametrize("how", ["reply", "mention", "direct"])
def test_an_answer_meets_what_was_inferred(crew: Crew, ann: Party, bob: Party, how: str) -> None:
    channel = crew.channel("build", ann, bob)
    asked = crew.ask(channel, ann, bob)
    crew.rest(ann)
    wait = crew.only_wait(ann)

    match how:
        case "reply":
            crew.say(channel, bob, reply_to=asked.seq)
        case "mention":
            crew.say(channel, bob, ann)
        case _:
            crew.say(own_inbox(crew.connection, ann, wall_us=crew.tick()), bob, ann)

    assert crew.end(wait) == ("met", "it has answered")
    assert "Your wait" not in "".join(crew.inbox(ann))  # it has the answer, and never said that it waits
    crew.work(ann)
    crew.rest(ann)
    assert crew.waits(ann) == []


def test_what_was_asked_directly_is_answered_directly(crew: Crew, ann: Party, bob: Party) -> None:
    crew.ask(own_inbox(crew.connection, bob, wall_us=crew.tick()), ann, bob)
    crew.rest(ann)
    wait = crew.only_wait(ann)

    crew.say(own_inbox(crew.connection, ann, wall_us=crew.tick()), bob, ann)

    assert crew.end(wait) == ("met", "it has answered")


def test_who_goes_on_does_not_wait_and_is_taken_to_when_it_stops_again(crew: Crew, ann: Party, bob: Party) -> None:
    channel = crew.channel("build", ann, bob)
    crew.ask(channel, ann, bob)
    crew.rest(ann)
    first = crew.only_wait(ann)

    crew.work(ann)
    assert crew.end(first) == ("cancelled", "it went on")
    assert crew.waits(ann) == []

    crew.rest(ann)
    assert crew.only_wait(ann).id != first.id
    assert crew.inbox(ann) == []


def test_who_comes_to_ask_a_person_has_gone_on(crew: Crew, ann: Party, bob: Party) -> None:
    crew.ask(crew.channel("build", ann, bob), ann, bob)
    crew.rest(ann)
    first = crew.only_wait(ann)

    crew.status(ann, "waiting", waiting_for="person:permission")

    assert crew.end(first) == ("cancelled", "it went on")
    assert [wait[1] for wait in crew.waits(ann)] == ["prompt"]


def test_nothing_is_inferred_of_what_was_answered_or_asks_nothing(crew: Crew, ann: Party, bob: Party) -> None:
    channel = crew.channel("build", ann, bob)
    asked = crew.ask(channel, ann, bob)
    crew.say(channel, bob, reply_to=asked.seq)
    crew.say(channel, ann, bob)

    crew.rest(ann)

    assert crew.waits(ann) == []


def test_of_several_who_were_asked_those_are_waited_for_who_have_not_answered(crew: Crew, ann: Party) -> None:
    bob, cat, dan = crew.hire("bob"), crew.hire("cat"), crew.hire("dan")
    channel = crew.channel("build", ann, bob, cat, dan)
    crew.ask(channel, ann, bob, cat, dan)
    crew.say(channel, cat, ann)

    crew.rest(ann)

    assert {wait[3] for wait in crew.waits(ann)} == {bob, dan}


def test_a_reply_to_another_message_is_no_answer(crew: Crew, ann: Party, bob: Party) -> None:
    channel = crew.channel("build", ann, bob)
    first = crew.say(channel, ann, bob)
    crew.ask(channel, ann, bob)
    crew.say(channel, bob, ann, reply_to=first.seq)

    crew.rest(ann)

    assert crew.waits(ann) != []


def test_who_asks_back_has_answered(crew: Crew, ann: Party, bob: Party) -> None:
    channel = crew.channel("build", ann, bob)
    crew.ask(channel, ann, bob)
    crew.ask(channel, bob, ann)

    crew.rest(ann)
    crew.rest(bob)

    assert crew.waits(ann) == []  # it is for Ann to say something
    assert [wait[3] for wait in crew.waits(bob)] == [ann]


def test_what_was_said_before_the_question_is_no_answer(crew: Crew, ann: Party, bob: Party) -> None:
    channel = crew.channel("build", ann, bob)
    crew.say(channel, bob, ann)
    crew.say(own_inbox(crew.connection, ann, wall_us=crew.tick()), bob, ann)
    crew.ask(channel, ann, bob)

    crew.rest(ann)

    assert crew.waits(ann) != []


def test_an_agent_that_is_only_quiet_for_a_moment_waits_for_nobody(crew: Crew, ann: Party, bob: Party) -> None:
    crew.work(ann)
    crew.ask(crew.channel("build", ann, bob), ann, bob)

    crew.status(ann, "idle", confidence=0.5)
    assert crew.waits(ann) == []

    crew.status(ann, "idle", confidence=0.7)
    assert [wait[1] for wait in crew.waits(ann)] == ["inferred"]


def test_what_was_cut_is_not_inferred_again_while_it_still_rests(crew: Crew, ann: Party, bob: Party) -> None:
    crew.ask(crew.channel("build", ann, bob), ann, bob)
    crew.rest(ann)
    end_wait(crew.connection, crew.only_wait(ann), "cancelled", "ada cut it", wall_us=crew.tick())

    for confidence in (0.5, 0.9, 0.6, 0.8):
        crew.status(ann, "idle", confidence=confidence)

    assert crew.waits(ann) == []


def test_who_is_gone_is_not_waited_for(crew: Crew, ann: Party, bob: Party) -> None:
    crew.ask(crew.channel("build", ann, bob), ann, bob)
    crew.offer(ann, to=bob)
    crew.exit(bob)
    before = crew.last

    crew.rest(ann)

    assert crew.events(before) == ["pod.status"]


def test_what_was_asked_more_than_a_day_ago_is_not_waited_for(crew: Crew, ann: Party, bob: Party) -> None:
    crew.ask(crew.channel("build", ann, bob), ann, bob)
    crew.now_us += 24 * 3600 * 1_000_000

    crew.rest(ann)

    assert crew.waits(ann) == []


def test_who_says_that_it_waits_for_the_answer_waits_at_once_and_is_told(crew: Crew, ann: Party, bob: Party) -> None:
    channel = crew.channel("build", ann, bob)
    asked = crew.say(channel, ann, bob, text="which port?", asks=True, waits=True)
    wait = crew.only_wait(ann)
    assert (wait.source, wait.key) == ("message", message_key(channel.id, asked.seq))
    crew.work(ann)
    crew.rest(ann)
    assert [other.id for other in [crew.only_wait(ann)]] == [wait.id]

    crew.say(channel, bob, reply_to=asked.seq)

    assert crew.end(wait) == ("met", "it has answered")
    assert crew.inbox(ann) == ["Your wait for bob is met: it has answered. You waited: which port?"]


def test_what_was_waited_for_once_is_not_inferred_after_its_end(crew: Crew, ann: Party, bob: Party) -> None:
    crew.say(crew.channel("build", ann, bob), ann, bob, asks=True, waits=True)
    end_wait(crew.connection, crew.only_wait(ann), "cancelled", "ann cancelled it", wall_us=crew.tick())

    crew.rest(ann)

    assert crew.waits(ann) == []


def test_who_asks_nobody_in_particular_and_stops_waits_for_whoever_is_there(crew: Crew, ann: Party, bob: Party) -> None:
    channel = crew.channel("build", ann, bob)
    asked = crew.ask(channel, ann)
    crew.rest(ann)

    wait = crew.only_wait(ann)
    assert (wait.kind, wait.source, wait.key, wait.on) == ("channel", "inferred", channel.id, None)
    assert wait.evidence == {"channel": channel.id, "seq": asked.seq}

    crew.say(channel, bob)
    assert crew.end(wait) == ("met", "there is a new message")
    crew.work(ann)
    crew.rest(ann)
    assert (crew.waits(ann), crew.inbox(ann)) == ([], [])


def test_what_was_asked_of_nobody_is_not_answered_by_oneself_or_by_word_of_scrubjay(
    crew: Crew, ann: Party, bob: Party
) -> None:
    own = own_inbox(crew.connection, ann, wall_us=crew.tick())
    crew.ask(own, ann)
    crew.say(own, ann, text="or not")
    crew.bind(bob, ann)  # Ann is told in her inbox
    assert crew.inbox(ann) != []

    crew.rest(ann)

    assert crew.waits(ann) == [("channel", "inferred", own.id, None)]


@pytest.mark.parametrize("whom", ["nobody", "a person"])
def test_a_question_to_people_or_nobody_in_particular_may_end_a_turn(
    crew: Crew, ann: Party, bob: Party, whom: str
) -> None:
    wait, channel = crew.wait(ann, "pod", on=bob), crew.channel("build", bob)
    told = crew.say(channel, Party("person:ada"), bob)
    crew.work(bob)
    crew.say(channel, bob, text="done; anything else?", asks=True, reply_to=told.seq if whom == "a person" else None)

    crew.rest(bob)

    assert crew.end(wait) == ("met", "it has finished its turn")
    assert [wait[1] for wait in crew.waits(bob)] == ["inferred"]


def test_who_expects_an_answer_of_nobody_in_particular_waits_for_the_next_message(
    crew: Crew, ann: Party, bob: Party
) -> None:
    channel = crew.channel("build", ann, bob)
    crew.say(channel, ann, text="who has the schema?", asks=True, waits=True)
    wait = crew.only_wait(ann)
    assert (wait.kind, wait.source, wait.key) == ("channel", "message", channel.id)

    crew.say(channel, bob)

    assert crew.end(wait)[0] == "met"
    assert crew.inbox(ann) == [
        "Your wait for channel build is met: there is a new message. You waited: who has the schema?"
    ]


def test_what_nobody_in_particular_was_waited_for_once_is_not_inferred_after_its_end(crew: Crew, ann: Party) -> None:
    crew.say(crew.channel("build", ann), ann, asks=True, waits=True)
    end_wait(crew.connection, crew.only_wait(ann), "cancelled", "ann cancelled it", wall_us=crew.tick())

    crew.rest(ann)

    assert crew.waits(ann) == []


@pytest.mark.parametrize("how", ["reply", "mention", "direct"])
@pytest.mark.parametrize("who", ["person:ada", "person:eve"])
def test_who_answers_a_person_with_a_question_and_stops_waits_for_people(
    crew: Crew, ann: Party, who: str, how: str
) -> None:
    own = own_inbox(crew.connection, ann, wall_us=crew.tick())
    told = crew.say(own, Party("person:ada"), ann, text="how far are you?", asks=True)
    asked = crew.say(own, ann, text="done; shall I push?", asks=True, reply_to=told.seq)
    crew.rest(ann)

    wait = crew.only_wait(ann)
    key = message_key(own.id, asked.seq)
    assert (wait.kind, wait.source, wait.key, wait.on) == ("person", "inferred", key, Party("person:ada"))

    match how:
        case "reply":
            crew.say(own, Party(who), reply_to=asked.seq)
        case "mention":
            crew.say(own, Party(who), ann)
        case _:
            crew.say(own, Party(who))
    assert crew.end(wait) == ("met", "it has answered")
    crew.work(ann)
    crew.rest(ann)
    assert crew.waits(ann) == []


def test_a_person_can_be_waited_for_by_name(crew: Crew, ann: Party) -> None:
    ada, channel = Party("person:ada"), crew.channel("build", ann)
    asked = crew.say(channel, ann, ada, asks=True, waits=True)
    wait = crew.only_wait(ann)
    assert (wait.kind, wait.on) == ("person", ada)

    crew.say(channel, ada, reply_to=asked.seq)

    assert crew.end(wait)[0] == "met"


def test_a_person_who_asks_does_not_wait(crew: Crew, bob: Party) -> None:
    crew.say(crew.channel("build", bob), Party("person:ada"), bob, asks=True, waits=True)

    assert list_waits(crew.connection) == []


def test_who_asks_somebody_who_is_gone_hears_of_it_at_once(crew: Crew, ann: Party, bob: Party) -> None:
    channel = crew.channel("build", ann, bob)
    crew.exit(bob)

    crew.say(channel, ann, bob, text="which port?", asks=True, waits=True)

    assert crew.waits(ann) == []
    assert crew.inbox(ann) == [
        "Your wait for bob is failed: exited 1, and will not do it any more. You waited: which port?"
    ]


def test_a_channel_that_is_archived_lets_nobody_wait_for_it(crew: Crew, ann: Party, bob: Party) -> None:
    channel, other = crew.channel("build", ann, bob), crew.channel("other", ann, bob)
    crew.say(channel, bob, ann, asks=True, waits=True)
    crew.wait(ann, "channel", key=channel.id)
    left = crew.wait(ann, "channel", key=other.id)

    assert retire_channel(crew.connection, channel, by=ann, wall_us=crew.tick())
    assert not retire_channel(crew.connection, channel, by=ann, wall_us=crew.tick())

    assert [wait.id for wait in list_waits(crew.connection)] == [left.id]
    assert crew.inbox(ann)[-1:] == [
        "Your wait for channel build is failed: the channel was archived. You waited: need it"
    ]
    assert crew.inbox(bob) == ["Your wait for ann is failed: the channel was archived. You waited: so"]


def test_who_has_asked_in_a_channel_that_is_archived_waits_no_longer(crew: Crew, ann: Party, bob: Party) -> None:
    cat = crew.hire("cat")
    channel = crew.channel("build", ann, bob, cat)
    crew.ask(channel, ann, bob)
    crew.ask(channel, bob, cat)
    crew.rest(ann)
    wait = crew.only_wait(ann)

    retire_channel(crew.connection, channel, by=ann, wall_us=crew.tick())

    assert crew.end(wait) == ("failed", "the channel was archived")
    crew.work(ann)
    for party in (ann, bob):
        crew.rest(party)
        assert crew.waits(party) == []


# Handoffs.


def test_who_offers_something_and_stops_waits_for_it_to_be_accepted(crew: Crew, ann: Party, bob: Party) -> None:
    handoff, _ = crew.offer(ann, to=bob)
    assert len(crew.inbox(bob)) == 1

    crew.rest(ann)
    wait = crew.only_wait(ann)
    assert (wait.kind, wait.source, wait.key, wait.on) == ("pod", "inferred", handoff.id, bob)

    accept_handoff(crew.connection, handoff, bob, wall_us=crew.tick())
    assert crew.end(wait) == ("met", "it was accepted")
    assert crew.inbox(ann) == []
    crew.work(ann)
    crew.rest(ann)
    assert crew.waits(ann) == []


def test_who_is_declined_hears_of_it_if_it_waits(crew: Crew, ann: Party, bob: Party) -> None:
    handoff, _ = crew.offer(ann, to=bob)
    crew.rest(ann)
    wait = crew.only_wait(ann)

    decline_handoff(crew.connection, handoff, bob, wall_us=crew.tick())

    assert crew.end(wait) == ("failed", "it was declined")
    assert crew.inbox(ann)[0].startswith("Your wait for bob is failed: it was declined.")
    crew.work(ann)
    crew.rest(ann)
    assert crew.waits(ann) == []


def test_who_withdraws_its_offer_has_cancelled_its_wait(crew: Crew, ann: Party, bob: Party) -> None:
    handoff, _ = crew.offer(ann, to=bob)
    crew.rest(ann)
    wait = crew.only_wait(ann)

    withdraw_handoff(crew.connection, handoff, wall_us=crew.tick())

    assert crew.end(wait) == ("cancelled", "it was withdrawn")
    assert crew.inbox(ann) == []


def test_nobody_waits_for_everybody_to_take_what_it_offers(crew: Crew, ann: Party) -> None:
    crew.offer(ann, key="api.json")

    crew.rest(ann)

    assert crew.waits(ann) == []


def test_all_who_wait_for_an_artifact_take_it_when_it_is_offered(crew: Crew, ann: Party, bob: Party) -> None:
    cat, dan = crew.hire("cat"), crew.hire("dan")
    waits = [crew.wait(ann, "artifact", key="api.json"), crew.wait(cat, "artifact", key="api.json", on=bob)]
    other = crew.wait(dan, "artifact", key="db.json")

    handoff, met = crew.offer(bob, key="api.json")

    assert [wait.id for wait in met] == [wait.id for wait in waits]
    assert [crew.end(wait) for wait in waits] == [("met", "it was handed over")] * 2
    assert (handoff.state, handoff.takers) == ("accepted", (ann, cat))
    assert get_handoff(crew.connection, handoff.id) == handoff
    assert crew.end(other)[0] == "open"
    assert crew.inbox(ann) == ["Your wait for artifact api.json is met: it was handed over. You waited: need it"]
    assert crew.inbox(cat) == ["Your wait for artifact api.json of bob is met: it was handed over. You waited: need it"]


def test_an_artifact_of_somebody_else_or_for_somebody_else_is_not_the_one(crew: Crew, ann: Party, bob: Party) -> None:
    cat = crew.hire("cat")
    of_bob = crew.wait(ann, "artifact", key="api.json", on=bob)
    of_any = crew.wait(ann, "artifact", key="api.json")

    handoff, met = crew.offer(bob, key="api.json", to=cat)
    assert (handoff.state, met) == ("offered", [])

    _, met = crew.offer(cat, key="api.json")
    assert [wait.id for wait in met] == [of_any.id]
    assert crew.end(of_bob)[0] == "open"

    handoff, met = crew.offer(bob, key="api.json", to=ann)
    assert [wait.id for wait in met] == [of_bob.id]
    assert handoff.takers == (ann,)


def test_who_hands_something_over_has_done_what_was_waited_for(crew: Crew, ann: Party, bob: Party) -> None:
    wait = crew.wait(ann, "pod", on=bob)

    handoff, _ = crew.offer(bob, to=ann)

    assert crew.end(wait) == ("met", "it has handed something over")
    assert handoff.state == "offered"  # it was not what Ann asked for by name


def test_who_takes_an_artifact_waits_for_it_no_longer(crew: Crew, ann: Party, bob: Party) -> None:
    handoff, _ = crew.offer(bob, key="api.json")
    wait = crew.wait(ann, "artifact", key="api.json")
    cats = crew.wait(crew.hire("cat"), "artifact", key="api.json")

    accept_handoff(crew.connection, handoff, ann, wall_us=crew.tick())

    assert crew.end(wait)[0] == "met"
    assert crew.end(cats)[0] == "open"


# Ends.


@pytest.mark.parametrize("how", ["exited", "lost"])
def test_the_end_of_a_target_fails_all_waits_on_it_and_tells_who_waited(
    crew: Crew, ann: Party, bob: Party, how: str
) -> None:
    channel = crew.channel("build", ann, bob)
    crew.ask(channel, ann, bob)
    crew.offer(ann, to=bob)
    crew.rest(ann)
    crew.bind(ann, bob)
    crew.wait(ann, "pod", on=bob)
    crew.wait(ann, "artifact", key="api.json", on=bob)
    crew.wait(ann, "channel", key=channel.id, on=bob)
    left = crew.wait(ann, "artifact", key="api.json")
    waits = [wait for wait in list_waits(crew.connection) if wait.id != left.id]
    assert [(wait.kind, wait.source) for wait in waits] == [
        ("pod", "inferred"),
        ("pod", "inferred"),
        ("binding", "binding"),
        ("pod", "declared"),
        ("artifact", "declared"),
        ("channel", "declared"),
    ]

    if how == "exited":
        crew.exit(bob)
    else:
        crew.status(bob, process="lost", reason="keeper killed")

    why = {"exited": "exited 1", "lost": "lost: keeper killed"}[how]
    assert [crew.end(wait) for wait in waits] == [("failed", f"{why}, and will not do it any more")] * len(waits)
    assert [wait.id for wait in list_waits(crew.connection)] == [left.id]
    assert [text.partition(" is failed")[0] for text in crew.inbox(ann)] == [
        "Your wait for bob",
        "Your wait for bob",
        "Your wait for a binding to bob",
        "Your wait for bob",
        "Your wait for artifact api.json of bob",
        "Your wait for channel build of bob",
    ]
    crew.work(ann)
    crew.rest(ann)
    assert [wait.id for wait in list_waits(crew.connection)] == [left.id]


def test_a_wait_for_who_is_gone_has_failed_at_once(crew: Crew, ann: Party, bob: Party) -> None:
    crew.exit(bob)
    before = crew.last

    wait = crew.wait(ann, "pod", on=bob)

    assert (wait.outcome, wait.detail) == ("failed", "exited 1, and will not do it any more")
    assert get_wait(crew.connection, wait.id) == wait
    assert crew.events(before) == ["wait.began", "wait.ended"]


def test_who_stops_waits_on_in_its_session_and_only_its_prompt_is_gone(crew: Crew, ann: Party, bob: Party) -> None:
    wait = crew.wait(ann, "pod", on=bob)
    crew.status(ann, "waiting", waiting_for="person:question")
    prompt = next(other for other in list_waits(crew.connection) if other.source == "prompt")

    crew.exit(ann)

    assert crew.end(wait) == ("open", None)
    assert crew.end(prompt) == ("abandoned", "it exited 1")
    assert crew.inbox(ann) == []
    crew.delete(ann)
    assert crew.end(wait)[0] == "abandoned"


def test_what_goes_on_in_another_pod_of_the_session_has_not_ended(crew: Crew, ann: Party, bob: Party) -> None:
    wait, back = crew.wait(ann, "pod", on=bob), crew.wait(bob, "artifact", key="api.json")
    crew.hire("bob-2", again=bob)

    crew.exit(bob, index=0)
    assert (crew.end(wait)[0], crew.end(back)[0]) == ("open", "open")
    crew.delete(bob, index=0)
    assert (crew.end(wait)[0], crew.end(back)[0]) == ("open", "open")

    crew.exit(bob)
    assert (crew.end(wait)[0], crew.end(back)[0]) == ("failed", "open")


def test_the_prompt_of_a_pod_that_has_ended_is_gone_though_another_goes_on(crew: Crew, bob: Party) -> None:
    crew.status(bob, "waiting", waiting_for="person:permission")
    crew.hire("bob-2", again=bob)

    crew.exit(bob, index=0)

    assert crew.waits(bob) == []


def test_the_prompts_of_two_pods_of_a_session_are_answered_one_by_one(crew: Crew, bob: Party) -> None:
    crew.hire("bob-2", again=bob)
    for index in (0, 1):
        crew.status(bob, "waiting", waiting_for="person:permission", index=index)
    first, second = waits_of(crew.connection, bob)

    crew.status(bob, "executing", index=1)
    assert (crew.end(first)[0], crew.end(second)[0]) == ("open", "met")

    crew.delete(bob, index=0)
    assert crew.end(first)[0] == "met"


def test_an_end_that_is_told_twice_happens_once(crew: Crew, ann: Party, bob: Party) -> None:
    crew.wait(ann, "pod", on=bob)
    crew.exit(bob)
    again = crew.wait(ann, "artifact", key="api.json")

    crew.status(bob, process="exited", exit_status=1, evidence={"late": True})

    assert len(crew.inbox(ann)) == 1
    assert crew.end(again)[0] == "open"


# Prompts.


def test_a_prompt_is_a_wait_on_a_person_with_the_moment_it_was_shown(crew: Crew, ann: Party) -> None:
    evidence: Json = {"detail": "run rm?", "offset": 4096, "at": 77, "signals": ["screen"]}
    crew.work(ann)

    crew.status(ann, "waiting", waiting_for="person:permission", evidence=evidence)

    wait = crew.only_wait(ann)
    assert (wait.kind, wait.source, wait.key, wait.on) == ("person", "prompt", "person:permission", PERSON)
    assert wait.reason == "permission: run rm?"
    assert wait.evidence == {"pod": crew.pod(ann), "offset": 4096, "at": 77}


def test_a_prompt_that_was_answered_is_met(crew: Crew, ann: Party) -> None:
    crew.status(ann, "waiting", waiting_for="person:permission")
    wait = crew.only_wait(ann)

    crew.work(ann)

    assert crew.end(wait) == ("met", "it was answered")
    assert crew.inbox(ann) == []


def test_a_prompt_that_goes_on_is_one_wait_and_another_prompt_another(crew: Crew, ann: Party) -> None:
    crew.status(ann, "waiting", waiting_for="person:permission", evidence={"detail": "run rm?"})
    first = crew.only_wait(ann)
    crew.status(ann, "waiting", waiting_for="person:permission", evidence={"detail": "run rm?"}, confidence=0.5)
    assert crew.only_wait(ann).id == first.id

    crew.status(ann, "waiting", waiting_for="person:permission", evidence={"detail": "run mv?"})
    assert crew.end(first)[0] == "met"
    second = crew.only_wait(ann)
    assert second.reason == "permission: run mv?"

    crew.status(ann, "waiting", waiting_for="person:question", evidence={"detail": "which?"})
    assert crew.end(second)[0] == "met"
    assert crew.only_wait(ann).key == "person:question"


def test_a_prompt_whose_words_come_later_is_the_same(crew: Crew, ann: Party) -> None:
    crew.status(ann, "waiting", waiting_for="person:permission")
    first = crew.only_wait(ann)

    crew.status(ann, "waiting", waiting_for="person:permission", evidence={"detail": "run rm?"})

    assert crew.only_wait(ann).id == first.id


def test_who_waits_for_something_else_than_a_person_has_no_prompt(crew: Crew, ann: Party) -> None:
    crew.status(ann, "waiting", waiting_for="quota")

    assert crew.waits(ann) == []


# Turns.


def test_the_end_of_a_turn_meets_who_waits_for_it(crew: Crew, ann: Party, bob: Party) -> None:
    wait = crew.wait(ann, "pod", on=bob)
    crew.work(bob)
    assert crew.end(wait)[0] == "open"

    crew.rest(bob)

    assert crew.end(wait) == ("met", "it has finished its turn")
    assert crew.inbox(ann) == ["Your wait for bob is met: it has finished its turn. You waited: need it"]


def test_an_agent_that_comes_to_its_first_prompt_has_finished_nothing(crew: Crew, ann: Party, bob: Party) -> None:
    wait = crew.wait(ann, "pod", on=bob)

    crew.status(bob, "idle", confidence=0.5)
    crew.rest(bob)

    assert crew.end(wait)[0] == "open"


def test_a_turn_has_ended_when_it_is_sure_and_not_when_it_was_in_doubt(crew: Crew, ann: Party, bob: Party) -> None:
    crew.work(bob)
    wait = crew.wait(ann, "pod", on=bob)
    crew.status(bob, "idle", confidence=0.5)
    crew.status(bob, "idle", confidence=0.6)
    assert crew.end(wait)[0] == "open"

    crew.rest(bob)
    assert crew.end(wait)[0] == "met"

    again = crew.wait(ann, "pod", on=bob)
    crew.status(bob, "idle", confidence=0.5)
    crew.rest(bob)
    assert crew.end(again)[0] == "open"


def test_who_waits_itself_has_not_finished(crew: Crew, ann: Party, bob: Party) -> None:
    cat = crew.hire("cat")
    channel = crew.channel("build", bob, cat)
    wait = crew.wait(ann, "pod", on=bob)
    crew.work(bob)
    asked = crew.ask(channel, bob, cat)

    crew.rest(bob)
    assert crew.end(wait)[0] == "open"

    crew.say(channel, cat, reply_to=asked.seq)
    crew.work(bob)
    crew.rest(bob)
    assert crew.end(wait)[0] == "met"


def test_who_speaks_to_the_waiter_has_done_what_was_waited_for(crew: Crew, ann: Party, bob: Party) -> None:
    channel = crew.channel("build", ann, bob)
    wait = crew.wait(ann, "pod", on=bob)

    crew.say(channel, bob)
    assert crew.end(wait)[0] == "open"
    crew.say(channel, bob, ann)
    assert crew.end(wait) == ("met", "it has said something")


def test_who_waits_for_a_channel_hears_of_the_next_message(crew: Crew, ann: Party, bob: Party) -> None:
    channel = crew.channel("build", ann, bob)
    wait = crew.wait(ann, "channel", key=channel.id)

    crew.say(channel, bob)

    assert crew.end(wait) == ("met", "there is a new message")
    assert crew.inbox(ann) == ["Your wait for channel build is met: there is a new message. You waited: need it"]


# Deletion.


def test_a_deleted_pod_takes_its_bindings_waits_and_memberships_with_it(crew: Crew, ann: Party, bob: Party) -> None:
    cat = crew.hire("cat")
    channel = crew.channel("build", ann, bob)
    active = accept_binding(crew.connection, crew.bind(ann, bob), by="bob", wall_us=crew.tick())
    pending = crew.bind(bob, cat)
    other = crew.bind(ann, cat)
    wait = crew.wait(ann, "pod", on=bob)

    crew.delete(bob)

    assert crew.end(wait) == ("failed", "was deleted, and will not do it any more")
    states = {binding.id: binding.state for binding in list_bindings(crew.connection, ended=True)}
    assert states == {active.id: "inactive", pending.id: "inactive", other.id: "pending"}
    assert [wait.waiter for wait in list_waits(crew.connection)] == [ann]
    assert channels_of(crew.connection, bob) == [get_channel(crew.connection, inbox_id(bob))]
    assert [member.name for member in channels_of(crew.connection, ann)] == ["build", f"@{ann}"]
    assert channel.until_us is None
    assert crew.inbox(ann)[1:] == [
        "Your wait for bob is failed: was deleted, and will not do it any more. You waited: need it",
        "bob: scrubjay ended the binding: its pod was deleted",
    ]


def test_an_agent_outside_pods_whose_token_was_revoked_is_waited_for_no_more(crew: Crew, ann: Party) -> None:
    token = {"id": "tok", "digest": b"d", "role": "agent", "name": "ci", "pod": None, "expires_us": None}
    add_token(crew.connection, **token, wall_us=crew.tick())  # pyright: ignore[reportArgumentType]
    agent = agent_party("tok")
    crew.channel("build", ann, agent)
    wait, binding, own = crew.wait(ann, "pod", on=agent), crew.bind(agent, ann), crew.only_wait(agent)

    assert revoke_token(crew.connection, "tok", wall_us=crew.tick())
    retire_agent(crew.connection, "tok", wall_us=crew.tick())

    assert crew.end(wait) == ("failed", "was shut out, and will not do it any more")
    assert crew.end(own)[0] == "abandoned"
    assert [kept.state for kept in list_bindings(crew.connection, ended=True)] == ["inactive"]
    assert list_bindings(crew.connection, ended=True)[0].id == binding.id
    assert [channel.kind for channel in channels_of(crew.connection, agent)] in ([], ["inbox"])
    assert crew.end(crew.wait(ann, "pod", on=agent))[0] == "failed"


def test_what_is_left_of_a_session_keeps_its_bindings_and_waits(crew: Crew, ann: Party, bob: Party) -> None:
    binding = crew.bind(ann, bob)
    wait, own = crew.only_wait(ann), crew.wait(bob, "artifact", key="api.json")
    crew.hire("bob-2", again=bob)
    crew.exit(bob, index=0)

    crew.delete(bob)  # it was never told that it had ended

    assert crew.end(wait)[0] == "failed"
    assert [kept.id for kept in bindings_of(crew.connection, bob)] == [binding.id]
    assert crew.end(own)[0] == "open"


def test_nothing_is_left_of_half_of_what_happens(crew: Crew, ann: Party, bob: Party) -> None:
    crew.wait(ann, "artifact", key="api.json")
    before = crew.last

    crew.offer(bob, key="api.json")

    assert crew.events(before) == [
        "handoff.offered",
        "wait.ended",
        "channel.created",
        "channel.joined",
        "message.posted",
        "handoff.accepted",
    ]
    assert [event.number for event in read_events(crew.connection)] == list(range(1, crew.last + 1))
