"""Channels and who is in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, bindparam, func, select

from scrubjay.errors import ChannelTaken, NoSuchChannel
from scrubjay.fleet.messages import Channel, ChannelKind
from scrubjay.fleet.parties import SCRUBJAY, Party
from scrubjay.store import schema
from scrubjay.store.events import append_event
from scrubjay.store.facts import Facts, TimedQuery, holds
from scrubjay.store.parties import name_of, pod_of
from scrubjay.tape.record import Json

_IDS_MAX = 10_000  # in one statement; SQLite takes 32,766

_CHANNEL, _MEMBER, _MESSAGE = schema.channel.c, schema.channel_member.c, schema.message.c
_CHANNELS = Facts(schema.channel, "id")
_MEMBERS = Facts(schema.channel_member, "channel", "party")
_COLUMNS: tuple[ColumnElement[object], ...] = (
    *(_CHANNEL.id, _CHANNEL.name, _CHANNEL.kind, _CHANNEL.purpose, _CHANNEL.made_by),
    *(_CHANNEL.since_us, _CHANNEL.until_us),
)
_OPEN_CHANNEL = _CHANNEL.until_event.is_(None)
_BY_NAME = select(*_COLUMNS).where(_CHANNEL.name == bindparam("of"), _OPEN_CHANNEL)
_BY_ID = select(*_COLUMNS).where(_CHANNEL.id == bindparam("of"))
_BY_IDS = select(*_COLUMNS).where(_CHANNEL.id.in_(bindparam("of", expanding=True)))
_ALL = TimedQuery(lambda moment: select(*_COLUMNS).where(holds(schema.channel, moment)).order_by(_CHANNEL.name))
_IN = TimedQuery(
    lambda moment: (
        select(_MEMBER.channel, _MEMBER.party)
        .where(holds(schema.channel_member, moment))
        .order_by(_MEMBER.channel, _MEMBER.since_event)
    )
)
_MEMBERS_OF = (
    select(_MEMBER.party)
    .where(_MEMBER.channel == bindparam("of"), _MEMBER.until_event.is_(None))
    .order_by(_MEMBER.since_event)
)
_IS_IN = select(_MEMBER.party).where(
    _MEMBER.channel == bindparam("of"), _MEMBER.party == bindparam("whose"), _MEMBER.until_event.is_(None)
)
_CHANNELS_OF = (
    select(*_COLUMNS)
    .join_from(schema.channel_member, schema.channel, _CHANNEL.id == _MEMBER.channel)
    .where(_MEMBER.party == bindparam("of"), _MEMBER.until_event.is_(None))
    .order_by(_MEMBER.since_event)
)
_COUNTS = select(_MESSAGE.channel, func.max(_MESSAGE.seq), func.max(_MESSAGE.wall_us)).group_by(_MESSAGE.channel)


def inbox_id(party: Party) -> str:
    """The id of the channel that is one party's own."""
    return f"inbox:{party}"


def owner_of(channel: Channel) -> Party | None:
    """Whose own a channel is; None if it is no inbox."""
    return Party(channel.id.removeprefix(inbox_id(Party("")))) if channel.kind == "inbox" else None


def create_channel(
    connection: Connection,
    channel_id: str,
    name: str,
    *,
    kind: ChannelKind,
    purpose: str | None,
    by: Party,
    wall_us: int,
) -> Channel:
    """Make a channel, with nobody in it yet. ChannelTaken if there is one of that name.

    The event is ``channel.created``.
    """
    if find_channel(connection, name) is not None:
        raise ChannelTaken(name)
    data: Json = {"channel": channel_id, "name": name, "kind": kind, "purpose": purpose, "by": by}
    event = append_event(connection, "channel.created", wall_us=wall_us, pod=pod_of(connection, by), data=data)
    values: Json = {"id": channel_id, "name": name, "kind": kind, "purpose": purpose, "made_by": by}
    _CHANNELS.open(connection, event, values)
    return Channel(channel_id, name, kind, purpose, by, event.wall_us)


def own_inbox(connection: Connection, party: Party, *, wall_us: int) -> Channel:
    """The channel that is one party's own, made when it is first needed."""
    channel_id = inbox_id(party)
    found = get_channel(connection, channel_id)
    if found is not None:
        return found
    made = create_channel(connection, channel_id, f"@{party}", kind="inbox", purpose=None, by=SCRUBJAY, wall_us=wall_us)
    join_channel(connection, made, party, wall_us=wall_us)
    return made


def archive_channel(connection: Connection, channel: Channel, *, by: Party, wall_us: int) -> bool:
    """Let nobody say anything there any more; what was said stays. False if that was done.

    The event is ``channel.archived``; whoever is in it is so no longer.
    """
    if is_archived(connection, channel):
        return False
    data: Json = {"channel": channel.id, "name": channel.name, "by": by}
    event = append_event(connection, "channel.archived", wall_us=wall_us, pod=pod_of(connection, by), data=data)
    for party in members_of(connection, channel.id):
        _MEMBERS.close(connection, event, channel.id, party)
    _CHANNELS.close(connection, event, channel.id)
    return True


def join_channel(connection: Connection, channel: Channel, party: Party, *, wall_us: int) -> bool:
    """Let a party be in a channel; False if it is. NoSuchChannel if it is archived.

    The event is ``channel.joined``.
    """
    if is_archived(connection, channel):
        raise NoSuchChannel(channel.name)
    if is_member(connection, channel.id, party):
        return False
    name = name_of(connection, party)
    data: Json = {"channel": channel.id, "channel_name": channel.name, "party": party, "name": name}
    event = append_event(connection, "channel.joined", wall_us=wall_us, pod=pod_of(connection, party), data=data)
    _MEMBERS.open(connection, event, {"channel": channel.id, "party": party, "name": name})
    return True


def leave_channel(connection: Connection, channel: Channel, party: Party, *, wall_us: int) -> bool:
    """Let a party be in a channel no longer; False if it is not. The event is ``channel.left``."""
    if not is_member(connection, channel.id, party):
        return False
    data: Json = {"channel": channel.id, "channel_name": channel.name, "party": party}
    event = append_event(connection, "channel.left", wall_us=wall_us, pod=pod_of(connection, party), data=data)
    _MEMBERS.close(connection, event, channel.id, party)
    return True


def find_channel(connection: Connection, name: str) -> Channel | None:
    """The channel of that name, unless it is archived."""
    row = connection.execute(_BY_NAME, {"of": name}).first()
    return None if row is None else _read(row)


def get_channel(connection: Connection, channel_id: str) -> Channel | None:
    """A channel, archived ones included."""
    row = connection.execute(_BY_ID, {"of": channel_id}).first()
    return None if row is None else _read(row)


def get_channels(connection: Connection, channel_ids: Sequence[str]) -> list[Channel]:
    """Those of several channels that there are, archived ones included."""
    found: list[Channel] = []
    for first in range(0, len(channel_ids), _IDS_MAX):
        some = channel_ids[first : first + _IDS_MAX]
        found += [_read(row) for row in connection.execute(_BY_IDS, {"of": some})]
    return found


def is_archived(connection: Connection, channel: Channel) -> bool:
    """Whether nobody says anything in a channel any more."""
    found = get_channel(connection, channel.id)
    return found is None or found.until_us is not None


def list_channels(connection: Connection, *, at_us: int | None = None) -> list[Channel]:
    """All channels that are, or at an instant were, not archived, inboxes included, by name."""
    return [replace(_read(row), until_us=None) for row in _ALL.run(connection, at_us)]


def memberships(connection: Connection, *, at_us: int | None = None) -> dict[str, list[Party]]:
    """Who is, or at an instant was, in which channel, by its id."""
    found: dict[str, list[Party]] = {}
    for row in _IN.run(connection, at_us):
        found.setdefault(str(row.channel), []).append(Party(row.party))
    return found


def members_of(connection: Connection, channel_id: str) -> list[Party]:
    """Who is in a channel, in the order they joined."""
    return [Party(party) for party in connection.scalars(_MEMBERS_OF, {"of": channel_id})]


def channels_of(connection: Connection, party: Party) -> list[Channel]:
    """The channels a party is in, in the order it joined them."""
    return [_read(row) for row in connection.execute(_CHANNELS_OF, {"of": party})]


def is_member(connection: Connection, channel_id: str, party: Party) -> bool:
    """Whether a party is in a channel."""
    return connection.execute(_IS_IN, {"of": channel_id, "whose": party}).first() is not None


def last_messages(connection: Connection) -> dict[str, tuple[int, int]]:
    """The number of messages of each channel, and when the last was said."""
    return {str(channel): (int(seq), int(wall_us)) for channel, seq, wall_us in connection.execute(_COUNTS)}


def _read(row: Row[*tuple[Any, ...]]) -> Channel:
    return Channel(*row)
