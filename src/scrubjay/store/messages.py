"""Messages in order, and how far each has come with whom it is for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, cast

from sqlalchemy import ColumnElement, Connection, Row, Text, and_, bindparam, func, insert, or_, select, update

from scrubjay.errors import NoSuchChannel
from scrubjay.fleet.messages import Channel, Delivery, DeliveryState, How, Message, next_state
from scrubjay.fleet.parties import SCRUBJAY, Party
from scrubjay.ids import PodId
from scrubjay.store import schema
from scrubjay.store.channels import inbox_id, is_archived
from scrubjay.store.columns import decode_json
from scrubjay.store.events import append_event
from scrubjay.store.parties import name_of, pod_of
from scrubjay.tape.record import Json

_ABOUT_MAX = 1000  # of the oldest messages that are not acknowledged

_MESSAGE, _DELIVERY = schema.message.c, schema.delivery.c
_COLUMNS: tuple[ColumnElement[object], ...] = (
    *(_MESSAGE.channel, _MESSAGE.seq, _MESSAGE.author, _MESSAGE.author_name, _MESSAGE.text, _MESSAGE.reply_to),
    *(_MESSAGE.asks, _MESSAGE.mentions, _MESSAGE.wall_us, _MESSAGE.about),
)
_PROGRESS: tuple[ColumnElement[object], ...] = (
    *(_DELIVERY.party, _DELIVERY.state, _DELIVERY.how, _DELIVERY.queued_us, _DELIVERY.delivered_us),
    *(_DELIVERY.acknowledged_us, _DELIVERY.attempts),
)
_DELIVERED = schema.delivery.join(
    schema.message, and_(_MESSAGE.channel == _DELIVERY.channel, _MESSAGE.seq == _DELIVERY.seq)
)
_THIS = and_(
    _DELIVERY.channel == bindparam("in_channel"),
    _DELIVERY.seq == bindparam("number"),
    _DELIVERY.party == bindparam("of"),
)
_LAST_SEQ = select(func.max(_MESSAGE.seq)).where(_MESSAGE.channel == bindparam("of"))
_ADD = insert(schema.message)
_QUEUE = insert(schema.delivery)
_ONE = select(*_COLUMNS).where(_MESSAGE.channel == bindparam("in_channel"), _MESSAGE.seq == bindparam("number"))
_AFTER = (
    select(*_COLUMNS)
    .where(_MESSAGE.channel == bindparam("of"), _MESSAGE.seq > bindparam("after"))
    .order_by(_MESSAGE.seq)
    .limit(bindparam("most"))
)
_NEWEST = (
    select(*_COLUMNS)
    .where(_MESSAGE.channel == bindparam("of"), _MESSAGE.wall_us <= bindparam("at_us"))
    .order_by(_MESSAGE.seq.desc())
    .limit(bindparam("most"))
)
_INBOX = (
    select(*_COLUMNS, *_PROGRESS)
    .select_from(_DELIVERED)
    .where(_DELIVERY.party == bindparam("of"), _DELIVERY.state != "acknowledged")
    .order_by(_DELIVERY.queued_event)
    .limit(bindparam("most"))
)
_INBOX_ALL = (
    select(*_COLUMNS, *_PROGRESS)
    .select_from(_DELIVERED)
    .where(_DELIVERY.party == bindparam("of"))
    .order_by(_DELIVERY.queued_event.desc())
    .limit(bindparam("most"))
)
_OF_MESSAGE = select(*_COLUMNS, *_PROGRESS).select_from(_DELIVERED).where(_THIS)
_QUEUED = (
    select(*_COLUMNS, *_PROGRESS, _DELIVERY.typing_pod, _DELIVERY.typing_offset)
    .select_from(_DELIVERED)
    .where(_DELIVERY.state == "queued")
    .order_by(_DELIVERY.queued_event)
)
_QUEUED_ONE = _QUEUED.where(_THIS)
_MOVE = update(schema.delivery).where(_THIS)
_DELIVER = _MOVE.values(
    state="delivered",
    how=bindparam("by_way"),
    delivered_us=bindparam("now_us"),
    delivered_event=bindparam("now_event"),
    typing_pod=None,
    typing_offset=None,
)
_ACKNOWLEDGE = _MOVE.values(
    state="acknowledged",
    acknowledged_us=bindparam("now_us"),
    acknowledged_event=bindparam("now_event"),
    typing_pod=None,
    typing_offset=None,
)
_TYPING = _MOVE.values(
    typing_pod=bindparam("into"), typing_offset=bindparam("from_offset"), attempts=_DELIVERY.attempts + 1
)
_NOT_TYPING = _MOVE.values(typing_pod=None, typing_offset=None)
_NEVER_TYPED = _NOT_TYPING.values(attempts=_DELIVERY.attempts - 1)
_ASKED = (
    select(*_COLUMNS, _MESSAGE.event)
    .join_from(schema.message, schema.channel, schema.channel.c.id == _MESSAGE.channel)
    .where(_MESSAGE.author == bindparam("of"), _MESSAGE.asks.is_(True), _MESSAGE.wall_us > bindparam("after_us"))
    .where(schema.channel.c.until_event.is_(None))
    .order_by(_MESSAGE.event.desc())
    .limit(bindparam("most"))
)
_SINCE = select(_MESSAGE.channel, _MESSAGE.author, _MESSAGE.reply_to, _MESSAGE.mentions).where(
    or_(_MESSAGE.channel == bindparam("of"), _MESSAGE.channel == bindparam("own")),
    _MESSAGE.event > bindparam("after"),
    _MESSAGE.author.not_in([bindparam("whose"), SCRUBJAY]),
)
_MENTIONS = _MESSAGE.mentions.cast(Text)  # as it is kept: reading ten thousand lists takes ten times as long
_FLOW = (
    select(_MESSAGE.author, _MENTIONS, func.count(), func.max(_MESSAGE.wall_us))
    .where(_MESSAGE.wall_us > bindparam("after_us"), _MESSAGE.wall_us <= bindparam("at_us"))
    .where(_MESSAGE.author != SCRUBJAY)
    .group_by(_MESSAGE.author, _MENTIONS)
)


@dataclass(frozen=True, slots=True)
class Queued:
    """A message that has not come to somebody it is for."""

    delivery: Delivery
    typing_pod: PodId | None  #: it was begun to be typed into that pod,
    typing_offset: int | None  #: which is on its tape from there on, if it was


def add_message(
    connection: Connection,
    channel: Channel,
    *,
    author: Party,
    author_name: str,
    text: str,
    mentions: Iterable[Party] = (),
    reply_to: int | None = None,
    asks: bool = False,
    about: Mapping[str, object] | None = None,
    wall_us: int,
) -> Message:
    """Say something in a channel, and queue it for whom it mentions. NoSuchChannel if it is archived.

    The event is ``message.posted``.
    """
    if is_archived(connection, channel):
        raise NoSuchChannel(channel.name)
    seq = last_seq(connection, channel.id) + 1
    named = tuple(dict.fromkeys(party for party in mentions if party != author))
    data: Json = {
        "channel": channel.id,
        "channel_name": channel.name,
        "seq": seq,
        "author": author,
        "author_name": author_name,
        "mentions": list(named),
        "mention_names": [name_of(connection, party) for party in named],
        "reply_to": reply_to,
        "asks": asks,
    }
    event = append_event(connection, "message.posted", wall_us=wall_us, pod=pod_of(connection, author), data=data)
    row: Json = {
        "channel": channel.id,
        "seq": seq,
        "author": author,
        "author_name": author_name,
        "text": text,
        "reply_to": reply_to,
        "asks": asks,
        "mentions": list(named),
        "about": dict(about or {}),
        "wall_us": event.wall_us,
        "event": event.number,
    }
    connection.execute(_ADD, row)
    for party in named:
        queued: Json = {"state": "queued", "queued_us": event.wall_us, "queued_event": event.number, "attempts": 0}
        connection.execute(_QUEUE, {"channel": channel.id, "seq": seq, "party": party, **queued})
    return Message(channel.id, seq, author, author_name, text, reply_to, asks, named, event.wall_us, dict(about or {}))


def last_seq(connection: Connection, channel: str) -> int:
    """The number of a channel's last message; 0 if there is none."""
    return connection.execute(_LAST_SEQ, {"of": channel}).scalar_one() or 0


def get_message(connection: Connection, channel: str, seq: int) -> Message | None:
    """One message."""
    row = connection.execute(_ONE, {"in_channel": channel, "number": seq}).first()
    return None if row is None else _read(row)


def messages_after(connection: Connection, channel: str, *, after: int, limit: int) -> list[Message]:
    """Messages with higher numbers, in order."""
    return [_read(row) for row in connection.execute(_AFTER, {"of": channel, "after": after, "most": limit})]


def newest_messages(connection: Connection, channel: str, *, at_us: int, limit: int) -> list[Message]:
    """The last messages up to an instant, in order."""
    rows = connection.execute(_NEWEST, {"of": channel, "at_us": at_us, "most": limit})
    return [_read(row) for row in rows][::-1]


def inbox_of(connection: Connection, party: Party, *, limit: int, everything: bool = False) -> list[Delivery]:
    """What is for a party and not acknowledged, in order; or the newest of everything that ever was."""
    rows = connection.execute(_INBOX_ALL if everything else _INBOX, {"of": party, "most": limit})
    found = [_read_delivery(row) for row in rows]
    return found[::-1] if everything else found


def get_delivery(connection: Connection, channel: str, seq: int, party: Party) -> Delivery | None:
    """How far a message has come with a party; None if it is not for it."""
    row = connection.execute(_OF_MESSAGE, {"in_channel": channel, "number": seq, "of": party}).first()
    return None if row is None else _read_delivery(row)


def queued_messages(connection: Connection) -> list[Queued]:
    """All that has not come to whom it is for, in order."""
    return [_read_queued(row) for row in connection.execute(_QUEUED)]


def queued_message(connection: Connection, channel: str, seq: int, party: Party) -> Queued | None:
    """One of them; None if it has come, or is not for the party."""
    row = connection.execute(_QUEUED_ONE, {"in_channel": channel, "number": seq, "of": party}).first()
    return None if row is None else _read_queued(row)


def deliver(connection: Connection, delivery: Delivery, *, how: How, wall_us: int) -> bool:
    """Note that a message has come to a party; False if that is known. The event is ``message.delivered``."""
    return _move(connection, delivery, "delivered", how, wall_us)


def acknowledge(connection: Connection, delivery: Delivery, *, wall_us: int) -> bool:
    """Note that a party has taken note; False if that is known. The event is ``message.acknowledged``."""
    return _move(connection, delivery, "acknowledged", None, wall_us)


def acknowledge_about(connection: Connection, party: Party, what: str, id_: str, *, wall_us: int) -> None:
    """Take it that a party knows of something it was sent word of: it has dealt with it."""
    for delivery in inbox_of(connection, party, limit=_ABOUT_MAX):
        if delivery.message.about.get(what) == id_:
            acknowledge(connection, delivery, wall_us=wall_us)


def begin_typing(connection: Connection, delivery: Delivery, pod: PodId, offset: int) -> bool:
    """Note, before it happens, that a message is typed into a pod; False if it has come there otherwise."""
    message = delivery.message
    current = get_delivery(connection, message.channel, message.seq, delivery.party)
    if current is None or current.state != "queued":
        return False
    connection.execute(_TYPING, {**_which(delivery), "into": pod, "from_offset": offset})
    return True


def give_up_typing(connection: Connection, delivery: Delivery, *, counts: bool = True) -> None:
    """Note that it was not typed after all; unless it ``counts``, as if it had never been tried."""
    connection.execute(_NOT_TYPING if counts else _NEVER_TYPED, _which(delivery))


@dataclass(frozen=True, slots=True)
class Question:
    """A message that asks, and who has said something since."""

    message: Message
    answered: frozenset[Party]  #: with regard to it
    overheard: bool  #: whether somebody has said anything in its channel


def questions_of(connection: Connection, author: Party, *, after_us: int, limit: int) -> list[Question]:
    """What somebody has asked, the latest first."""
    found: list[Question] = []
    for row in connection.execute(_ASKED, {"of": author, "after_us": after_us, "most": limit}).all():
        message = _read(row)
        where = {"of": message.channel, "own": inbox_id(author), "after": row.event, "whose": author}
        since = connection.execute(_SINCE, where).all()
        answered = frozenset(Party(answer.author) for answer in since if _answers(answer, message))
        found.append(Question(message, answered, any(answer.channel == message.channel for answer in since)))
    return found


def _answers(answer: Row[*tuple[Any, ...]], question: Message) -> bool:
    """As ``ending_of`` has it: a reply, what mentions the asker in the same place, or is said to it alone."""
    if answer.reply_to is not None:
        return answer.channel == question.channel and answer.reply_to == question.seq
    return answer.channel == inbox_id(question.author) or question.author in answer.mentions


class Flow(NamedTuple):
    """Messages of one party to another within some time; a tuple, because there may be thousands."""

    author: Party
    to: Party
    messages: int
    last_us: int


def message_flow(connection: Connection, *, after_us: int, at_us: int) -> list[Flow]:
    """How much was said to whom from one instant up to another, including it; without what Scrubjay itself tells."""
    counts: dict[tuple[Party, Party], tuple[int, int]] = {}
    read = cache(decode_json)
    for author, mentions, count, last_us in connection.execute(_FLOW, {"after_us": after_us, "at_us": at_us}).all():
        for to in cast("list[Party]", read(mentions)):
            before, before_us = counts.get((author, to), (0, 0))
            counts[author, to] = before + count, max(before_us, last_us)
    return [Flow(author, to, count, last_us) for (author, to), (count, last_us) in counts.items()]


def _move(connection: Connection, delivery: Delivery, state: DeliveryState, how: How | None, wall_us: int) -> bool:
    message = delivery.message
    current = get_delivery(connection, message.channel, message.seq, delivery.party)
    if current is None or next_state(current.state, "deliver" if state == "delivered" else "acknowledge") is None:
        return False
    data: Json = {"channel": message.channel, "seq": message.seq, "party": delivery.party}
    if how is not None:
        data["how"] = how
    event = append_event(
        connection, f"message.{state}", wall_us=wall_us, pod=pod_of(connection, delivery.party), data=data
    )
    moved: Json = {**_which(delivery), "now_us": event.wall_us, "now_event": event.number}
    if state == "delivered":
        connection.execute(_DELIVER, {**moved, "by_way": how})
    else:
        connection.execute(_ACKNOWLEDGE, moved)
    return True


def _which(delivery: Delivery) -> Json:
    return {"in_channel": delivery.message.channel, "number": delivery.message.seq, "of": delivery.party}


def _read(row: Row[*tuple[Any, ...]]) -> Message:
    channel, seq, author, author_name, text, reply_to, asks, mentions, wall_us, about = row[: len(_COLUMNS)]
    return Message(channel, seq, author, author_name, text, reply_to, asks, tuple(mentions), wall_us, about)


def _read_delivery(row: Row[*tuple[Any, ...]]) -> Delivery:
    return Delivery(_read(row), *row[len(_COLUMNS) : len(_COLUMNS) + len(_PROGRESS)])


def _read_queued(row: Row[*tuple[Any, ...]]) -> Queued:
    into = None if row.typing_pod is None else PodId(row.typing_pod)
    return Queued(_read_delivery(row), into, row.typing_offset)
