"""Channels and messages in the catalog: in order without a gap, for whom they are, and delivered once."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection

from scrubjay.errors import ChannelTaken, NoSuchChannel
from scrubjay.fleet.messages import Channel, Delivery, DeliveryAction, Message
from scrubjay.fleet.parties import SCRUBJAY, Party, session_party
from scrubjay.store.channels import (
    archive_channel,
    channels_of,
    create_channel,
    find_channel,
    get_channel,
    inbox_id,
    is_member,
    join_channel,
    last_messages,
    leave_channel,
    list_channels,
    members_of,
    memberships,
    own_inbox,
    owner_of,
)
from scrubjay.store.events import read_events
from scrubjay.store.happenings import notify, say
from scrubjay.store.messages import (
    Flow,
    acknowledge,
    add_message,
    begin_typing,
    deliver,
    get_delivery,
    get_message,
    give_up_typing,
    inbox_of,
    message_flow,
    messages_after,
    newest_messages,
    queued_messages,
)
from scrubjay.store.pods import add_pod
from scrubjay.store.status import Status
from tests.store.catalogs import Catalog, pod_facts, session_id
from tests.store.crew import Crew
from tests.support.tiers import sized

# Channels.


def test_a_channel_has_nobody_in_it_until_they_join(crew: Crew, ann: Party, bob: Party) -> None:
    start = crew.last
    channel = crew.channel("build")
    assert members_of(crew.connection, channel.id) == []

    assert join_channel(crew.connection, channel, bob, wall_us=crew.tick())
    assert join_channel(crew.connection, channel, ann, wall_us=crew.tick())
    assert not join_channel(crew.connection, channel, ann, wall_us=crew.tick())
    assert members_of(crew.connection, channel.id) == [bob, ann]
    assert channels_of(crew.connection, ann) == [channel]

    assert leave_channel(crew.connection, channel, bob, wall_us=crew.tick())
    assert not leave_channel(crew.connection, channel, bob, wall_us=crew.tick())
    assert not is_member(crew.connection, channel.id, bob)
    assert members_of(crew.connection, channel.id) == [ann]
    assert crew.events(start) == ["channel.created", "channel.joined", "channel.joined", "channel.left"]
    joined = read_events(crew.connection, after=start)[1]
    assert joined.data == {"channel": channel.id, "channel_name": "build", "party": bob, "name": "bob"}
    assert joined.pod == crew.pod(bob)


def test_a_name_is_taken_until_its_channel_is_archived(crew: Crew) -> None:
    first = crew.channel("build")
    with pytest.raises(ChannelTaken):
        crew.channel("build")

    archive_channel(crew.connection, first, by=SCRUBJAY, wall_us=crew.tick())
    second = crew.channel("build")

    assert find_channel(crew.connection, "build") == second
    archived = get_channel(crew.connection, first.id)
    assert archived is not None
    assert archived.until_us is not None


def test_in_an_archived_channel_nobody_is_and_nothing_is_said_any_more(crew: Crew, ann: Party, bob: Party) -> None:
    channel = crew.channel("build", ann, bob)
    said = crew.say(channel, ann, bob)
    start = crew.last

    assert archive_channel(crew.connection, channel, by=ann, wall_us=crew.tick())
    assert not archive_channel(crew.connection, channel, by=ann, wall_us=crew.tick())
    with pytest.raises(NoSuchChannel):
        crew.say(channel, ann, bob)
    with pytest.raises(NoSuchChannel):
        join_channel(crew.connection, channel, ann, wall_us=crew.tick())

    assert crew.events(start) == ["channel.archived"]
    assert list_channels(crew.connection) == []
    assert memberships(crew.connection) == {}
    assert get_message(crew.connection, channel.id, 1) == said
    assert crew.inbox(bob) == ["so"]


def test_channels_and_members_read_at_every_instant_as_they_were(crew: Crew, ann: Party, bob: Party) -> None:
    channel = crew.channel("build")
    made_us = crew.now_us
    join_channel(crew.connection, channel, ann, wall_us=crew.tick())
    join_channel(crew.connection, channel, bob, wall_us=crew.tick())
    leave_channel(crew.connection, channel, ann, wall_us=crew.tick())
    archive_channel(crew.connection, channel, by=bob, wall_us=crew.tick())

    assert [list_channels(crew.connection, at_us=made_us + after) for after in (-1, 0, 3, 4)] == [
        [],
        [channel],
        [channel],
        [],
    ]
    assert [memberships(crew.connection, at_us=made_us + after).get(channel.id) for after in range(5)] == [
        None,
        [ann],
        [ann, bob],
        [bob],
        None,
    ]


def test_an_inbox_is_made_when_it_is_needed_and_is_one_party_s_own(crew: Crew, ann: Party) -> None:
    start = crew.last
    inbox = own_inbox(crew.connection, ann, wall_us=crew.tick())

    assert own_inbox(crew.connection, ann, wall_us=crew.tick()) == inbox
    assert (inbox.id, inbox.kind, inbox.made_by) == (inbox_id(ann), "inbox", SCRUBJAY)
    assert members_of(crew.connection, inbox.id) == [ann]
    assert owner_of(inbox) == ann
    assert owner_of(crew.channel("build")) is None
    assert crew.events(start)[:2] == ["channel.created", "channel.joined"]


# Messages.


def test_a_message_is_kept_with_all_that_is_in_it_and_told_without_its_text(crew: Crew, ann: Party, bob: Party) -> None:
    channel = crew.channel("build", ann, bob)
    crew.say(channel, bob)
    start = crew.last

    said = crew.say(channel, ann, bob, ann, bob, text="which?\0\ud800", asks=True, reply_to=1)

    assert said == Message(channel.id, 2, ann, "ann", "which?\0\ud800", 1, True, (bob,), crew.now_us)
    assert get_message(crew.connection, channel.id, 2) == said
    (event,) = read_events(crew.connection, after=start)
    assert (event.kind, event.pod) == ("message.posted", crew.pod(ann))
    assert event.data == {
        "channel": channel.id,
        "channel_name": "build",
        "seq": 2,
        "author": ann,
        "author_name": "ann",
        "mentions": [bob],
        "mention_names": ["bob"],
        "reply_to": 1,
        "asks": True,
    }


def test_messages_are_read_after_a_number_or_up_to_an_instant(crew: Crew, ann: Party) -> None:
    channel = crew.channel("build", ann)
    said = [crew.say(channel, ann, text=str(number)) for number in range(5)]

    assert messages_after(crew.connection, channel.id, after=0, limit=9) == said
    assert messages_after(crew.connection, channel.id, after=2, limit=2) == said[2:4]
    assert messages_after(crew.connection, channel.id, after=5, limit=2) == []
    assert newest_messages(crew.connection, channel.id, at_us=crew.now_us, limit=2) == said[3:]
    assert newest_messages(crew.connection, channel.id, at_us=said[2].wall_us, limit=9) == said[:3]
    assert last_messages(crew.connection) == {channel.id: (5, said[4].wall_us)}
    assert get_message(crew.connection, channel.id, 6) is None


@pytest.mark.anyio
async def test_numbers_have_no_gap_however_many_speak_at_once(catalog: Catalog) -> None:
    writers, each = 12, sized(4, 15, 200)
    parties = [session_party(session_id(number)) for number in range(writers)]
    database = catalog.database

    def set_up(connection: Connection) -> list[Channel]:
        for number in range(writers):
            add_pod(connection, pod_facts(number, session=session_id(number)), Status("running"), wall_us=1)
        made: list[Channel] = []
        for name in ("build", "other"):
            channel = create_channel(connection, name, name, kind="open", purpose=None, by=parties[0], wall_us=1)
            for party in parties:
                join_channel(connection, channel, party, wall_us=1)
            made.append(channel)
        return made

    channels = await database.write(set_up)

    async def speak(number: int) -> list[Message]:
        said: list[Message] = []
        for turn in range(each):
            body = partial(
                say,
                channel=channels[(turn + number) % 2],
                author=parties[number],
                text=f"{number}.{turn}",
                mentions=parties,
                wall_us=turn + 2,
            )
            said.append(await database.write(body))
        return said

    said = [message for messages in await asyncio.gather(*map(speak, range(writers))) for message in messages]

    last = dict[str, int]()
    for channel in channels:
        kept = await database.read(partial(messages_after, channel=channel.id, after=0, limit=10_000))
        last[channel.id] = len(kept)
        assert [message.seq for message in kept] == list(range(1, len(kept) + 1))
        assert sorted((message for message in said if message.channel == channel.id), key=lambda m: m.seq) == kept
        assert sorted(message.wall_us for message in kept) == [message.wall_us for message in kept]
        for number in range(writers):  # everybody's own stand in the order they were said
            own = [message.text for message in kept if message.author == parties[number]]
            assert own == sorted(own, key=lambda text: int(text.partition(".")[2]))
    for number, party in enumerate(parties):
        inbox = await database.read(partial(inbox_of, party=party, limit=10_000))
        assert len(inbox) == (writers - 1) * each
        assert all(delivery.message.author != parties[number] for delivery in inbox)
    posted = [event.data for event in catalog.told if event.kind == "message.posted"]
    for channel in channels:
        numbers = [data["seq"] for data in posted if data["channel"] == channel.id]
        assert numbers == list(range(1, last[channel.id] + 1))


# Deliveries.


def test_a_message_is_queued_for_whom_it_mentions_and_for_nobody_else(crew: Crew, ann: Party, bob: Party) -> None:
    cat = crew.hire("cat")
    channel = crew.channel("build", ann, bob, cat)
    said = crew.say(channel, ann, bob)

    assert inbox_of(crew.connection, bob, limit=9) == [Delivery(said, bob, "queued", None, crew.now_us)]
    assert inbox_of(crew.connection, cat, limit=9) == []
    assert get_delivery(crew.connection, channel.id, said.seq, cat) is None
    assert [queued.delivery.party for queued in queued_messages(crew.connection)] == [bob]


@settings(max_examples=sized(20, 40, 500), deadline=None)
@given(actions=st.lists(st.sampled_from(["deliver", "acknowledge"]), max_size=6))
def test_a_message_comes_once_and_is_noted_once_whatever_is_repeated(
    emptied: Connection, actions: list[DeliveryAction]
) -> None:
    with emptied.begin() as transaction:
        crew = Crew(emptied)
        ann, bob = crew.hire("ann"), crew.hire("bob")
        crew.say(crew.channel("build", ann, bob), ann, bob)
        (stale,) = crew.deliveries(bob)
        start, changed = crew.last, list[bool]()
        for action in actions:
            if action == "deliver":
                changed.append(deliver(emptied, stale, how="inbox", wall_us=crew.tick()))
            else:
                changed.append(acknowledge(emptied, stale, wall_us=crew.tick()))

        now = get_delivery(emptied, stale.message.channel, 1, bob)
        assert now is not None
        first_note = actions.index("acknowledge") if "acknowledge" in actions else len(actions)
        delivered = "deliver" in actions[:first_note]
        expected = (["message.delivered"] if delivered else []) + (
            ["message.acknowledged"] if first_note < len(actions) else []
        )
        assert crew.events(start) == expected
        assert sum(changed) == len(expected)
        assert now.state == (expected[-1].removeprefix("message.") if expected else "queued")
        assert (now.delivered_us is not None) == (now.how is not None) == delivered
        assert (now.acknowledged_us is not None) == (first_note < len(actions))
        assert [each.state for each in crew.deliveries(bob)] == ([now.state] if now.state != "acknowledged" else [])
        assert [each.state for each in inbox_of(emptied, bob, limit=9, everything=True)] == [now.state]
        transaction.rollback()


def test_what_is_being_typed_is_known_before_and_forgotten_after(crew: Crew, ann: Party, bob: Party) -> None:
    crew.say(crew.channel("build", ann, bob), ann, bob)
    (delivery,) = crew.deliveries(bob)
    pod, start = crew.pod(bob), crew.last

    def typing() -> list[tuple[object, object, int]]:
        found = queued_messages(crew.connection)
        return [(queued.typing_pod, queued.typing_offset, queued.delivery.attempts) for queued in found]

    assert begin_typing(crew.connection, delivery, pod, 100)
    assert typing() == [(pod, 100, 1)]
    give_up_typing(crew.connection, delivery)
    assert typing() == [(None, None, 1)]
    assert begin_typing(crew.connection, delivery, pod, 200)
    assert typing() == [(pod, 200, 2)]

    assert deliver(crew.connection, delivery, how="typed", wall_us=crew.tick())
    assert typing() == []
    assert not begin_typing(crew.connection, delivery, pod, 300)
    now = get_delivery(crew.connection, delivery.message.channel, 1, bob)
    assert now is not None
    assert (now.how, now.attempts, now.delivered_us) == ("typed", 2, crew.now_us)
    assert crew.events(start) == ["message.delivered"]


def test_an_inbox_is_in_the_order_things_were_said_wherever_that_was(crew: Crew, ann: Party, bob: Party) -> None:
    build, other = crew.channel("build", ann, bob), crew.channel("other", ann, bob)
    for channel, text in ((other, "1"), (build, "2"), (other, "3"), (build, "4")):
        crew.say(channel, ann, bob, text=text)
    assert notify(crew.connection, bob, "5", about={}, wall_us=crew.tick()) is not None

    def texts(**asked: object) -> list[str]:
        found = inbox_of(crew.connection, bob, **asked)  # pyright: ignore[reportArgumentType]
        return [delivery.message.text for delivery in found]

    assert texts(limit=9) == ["1", "2", "3", "4", "5"]
    assert texts(limit=2) == ["1", "2"]
    acknowledge(crew.connection, crew.deliveries(bob)[0], wall_us=crew.tick())
    assert texts(limit=2) == ["2", "3"]
    assert texts(limit=2, everything=True) == ["4", "5"]
    assert texts(limit=9, everything=True) == ["1", "2", "3", "4", "5"]


def test_word_is_put_into_the_inboxes_of_agents_only(crew: Crew, ann: Party) -> None:
    told = notify(crew.connection, ann, "so it is", about={"wait": "w"}, wall_us=crew.tick())

    assert told is not None
    assert (told.author, told.author_name, told.about) == (SCRUBJAY, "scrubjay", {"wait": "w"})
    assert [delivery.message for delivery in crew.deliveries(ann)] == [told]
    assert notify(crew.connection, Party("agent:t1"), "so", about={}, wall_us=crew.tick()) is not None
    start = crew.last
    crew.delete(ann)
    for nobody in (Party("person:ada"), Party("person"), SCRUBJAY, ann):
        assert notify(crew.connection, nobody, "so", about={}, wall_us=crew.tick()) is None
    assert "message.posted" not in crew.events(start)


def test_how_much_was_said_to_whom_within_some_time(crew: Crew, ann: Party, bob: Party) -> None:
    cat = crew.hire("cat")
    channel = crew.channel("build", ann, bob, cat)
    before_us = crew.now_us
    crew.say(channel, ann, bob)
    crew.say(channel, ann, bob, cat)
    crew.say(channel, bob, ann)
    at_us = crew.now_us
    crew.say(channel, cat, ann)

    flows = message_flow(crew.connection, after_us=before_us, at_us=at_us)

    assert sorted(flows, key=lambda flow: (flow.author, flow.to)) == [
        Flow(ann, bob, 2, before_us + 2),
        Flow(ann, cat, 1, before_us + 2),
        Flow(bob, ann, 1, before_us + 3),
    ]
    assert message_flow(crew.connection, after_us=at_us, at_us=at_us) == []


def test_a_message_may_be_about_something(crew: Crew, ann: Party, bob: Party) -> None:
    channel = crew.channel("build", ann, bob)
    about = {"handoff": "h1", "more": ["\ud800"]}

    said = add_message(
        crew.connection, channel, author=ann, author_name="ann", text="x", about=about, wall_us=crew.tick()
    )

    assert said.about == about
    assert get_message(crew.connection, channel.id, 1) == said
