"""Channels: what agents and people say to each other, kept, and who has read it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from scrubjay.errors import BadInput, NoSuchChannel, NoSuchMessage, NotForRole
from scrubjay.fleet.messages import (
    EVERYBODY,
    PURPOSE_MAX,
    TEXT_MAX,
    Channel,
    Delivery,
    asks,
    check_text,
    mentioned,
    parse_channel_name,
)
from scrubjay.fleet.parties import Party, kind_of
from scrubjay.fleet.typed_message import OWN_INBOX
from scrubjay.ids import new_record_id
from scrubjay.server.coordination.actors import Actor, View
from scrubjay.server.coordination.descriptions import (
    describe_channel,
    describe_delivery,
    describe_message,
    shown_channel,
)
from scrubjay.server.coordination.reception import Reception
from scrubjay.store import channels as store
from scrubjay.store import messages
from scrubjay.store.happenings import say
from scrubjay.store.retiring import retire_channel
from scrubjay.tape.record import Json

MESSAGES_MAX = 200  # in one answer
_EVER_US = 1 << 62
_INBOX_MAX = 1000  # messages among which one is looked for by its name


@dataclass(frozen=True, slots=True)
class Post:
    """Something to be said."""

    text: str
    channel: str | None = None
    to: str | None = None  #: one party, into its inbox
    mentions: Sequence[str] = ()
    reply_to: int | None = None
    expects_reply: bool = False


class Channels:
    """Everything that is said."""

    def __init__(self, reception: Reception) -> None:
        self._reception = reception

    # Channels.

    async def create(
        self,
        actor: Actor,
        name: str,
        *,
        purpose: str | None = None,
        private: bool = False,
        members: Sequence[str] = (),
        key: str | None = None,
    ) -> Json:
        """Make a channel, with its maker and others in it."""
        reception, view = self._reception, self._reception.view(actor)
        parsed = parse_channel_name(name)
        purpose = check_text(purpose, PURPOSE_MAX, "purpose") if purpose else None
        asked = [reception.party(actor, raw) for raw in members]

        def body(connection: Connection) -> Json:
            channel = store.create_channel(
                connection,
                new_record_id(),
                parsed,
                kind="private" if private else "open",
                purpose=purpose,
                by=actor.party,
                wall_us=reception.wall_us,
            )
            for party in asked if actor.is_person else [actor.party, *asked]:
                store.join_channel(connection, channel, party, wall_us=reception.wall_us)
            return self._describe(connection, channel, actor, view)

        return await reception.change(actor, "create channel", key, body)

    async def list(self, actor: Actor, *, at_us: int | None = None) -> list[Json]:
        """The channels somebody may see: open ones, and those they are in. Inboxes are for people to see."""
        view = self._reception.view(actor, await self._reception.directory_at(at_us))

        def body(connection: Connection) -> list[Json]:
            members, last = store.memberships(connection, at_us=at_us), _last_messages(connection, at_us)
            found: list[Json] = []
            for channel in store.list_channels(connection, at_us=at_us):
                inside = members.get(channel.id, [])
                if channel.kind == "inbox" or not _may_see(channel, actor, inside):
                    continue
                count, last_us = last.get(channel.id, (0, None))
                found.append(_summary(channel, actor, inside, view) | {"messages": count, "last_us": last_us})
            return found

        return await self._reception.tower.database.read(body)

    async def join(self, actor: Actor, name: str, *, members: Sequence[str] = ()) -> Json:
        """Be in a channel, or, from inside, ask others in."""
        reception = self._reception
        asked = [reception.party(actor, raw) for raw in members]

        def body(connection: Connection) -> Json:
            channel = self._find_shared(connection, actor, name)
            for party in asked or [actor.party]:
                store.join_channel(connection, channel, party, wall_us=reception.wall_us)
            return {}

        await reception.change(actor, "join", None, body)
        view = reception.view(actor)  # whom they know has changed
        return await reception.tower.database.read(
            lambda connection: self._describe(connection, self.find(connection, actor, name), actor, view)
        )

    async def leave(self, actor: Actor, name: str, *, member: str | None = None) -> Json:
        """Be in a channel no longer; a person says who."""
        reception, view = self._reception, self._reception.view(actor)
        if member is not None and not actor.is_person:
            raise NotForRole("an agent leaves for itself only", hint="leave the member out")
        party = actor.party if member is None else reception.party(actor, member)

        def body(connection: Connection) -> Json:
            channel = self._find_shared(connection, actor, name)
            store.leave_channel(connection, channel, party, wall_us=reception.wall_us)
            return describe_channel(channel, view)

        return await reception.change(actor, "leave", None, body)

    async def archive(self, actor: Actor, name: str) -> Json:
        """Let nobody say anything there any more: whoever made it, or a person."""
        reception, view = self._reception, self._reception.view(actor)

        def body(connection: Connection) -> Json:
            channel = self._find_shared(connection, actor, name)
            if not actor.is_person and channel.made_by != actor.party:
                raise NotForRole("only who made a channel archives it", hint="leave it instead")
            retire_channel(connection, channel, by=actor.party, wall_us=reception.wall_us)
            return describe_channel(channel, view)

        return await reception.change(actor, "archive", None, body)

    # Messages.

    async def post(self, actor: Actor, post: Post, *, key: str | None = None) -> Json:
        """Say something in a channel, or to one party."""
        reception, view = self._reception, self._reception.view(actor)
        check_text(post.text, TEXT_MAX, "message")
        if (post.channel is None) == (post.to is None):
            raise BadInput("say where: a channel, or one pod", hint="give channel or to, one of them")
        raw_to = post.channel[1:] if post.channel is not None and post.channel.startswith("@") else post.to
        to = reception.party(actor, raw_to) if raw_to is not None else None
        named = [reception.party(actor, raw) for raw in post.mentions if raw != EVERYBODY]

        def body(connection: Connection) -> Json:
            if to is not None:
                channel = store.own_inbox(connection, to, wall_us=reception.wall_us)
                mentions = [to]
            else:
                assert post.channel is not None
                channel = self.find(connection, actor, post.channel)
                self._enter(connection, channel, actor)
                mentions = [*named, *self._called(connection, channel, post, view)]
                for party in mentions:
                    store.join_channel(connection, channel, party, wall_us=reception.wall_us)
            if post.reply_to is not None and messages.get_message(connection, channel.id, post.reply_to) is None:
                raise NoSuchMessage(f"{channel.name}#{post.reply_to}")
            message = say(
                connection,
                channel,
                author=actor.party,
                text=post.text,
                mentions=self._with_asker(connection, channel, post, mentions),
                reply_to=post.reply_to,
                asks=post.expects_reply or asks(post.text),
                wait_for_answer=post.expects_reply,
                wall_us=reception.wall_us,
            )
            return describe_message(message, shown_channel(channel, view), view)

        return await reception.change(actor, "post", key, body)

    async def read(
        self, actor: Actor, name: str, *, after: int | None = None, limit: int = 50, at_us: int | None = None
    ) -> Json:
        """What was said in a channel: after a message, or the newest; at an instant, what had been said by then.

        A person reads one that is archived by its id, or at an instant before that.
        """
        reception = self._reception
        view = reception.view(actor, await reception.directory_at(at_us))
        most = max(1, min(limit, MESSAGES_MAX))
        until_us = _EVER_US if at_us is None else at_us

        def body(connection: Connection) -> Json:
            channel = self._find_then(connection, actor, name, at_us)
            newest = messages.newest_messages(connection, channel.id, at_us=until_us, limit=1)
            if after is not None:
                found = messages.messages_after(connection, channel.id, after=after, limit=most)
            else:
                found = messages.newest_messages(connection, channel.id, at_us=until_us, limit=most)
            shown = shown_channel(channel, view)
            told = [describe_message(message, shown, view) for message in found if message.wall_us <= until_us]
            return {
                "channel": shown,
                "channel_id": channel.id,
                "messages": told,
                "last": newest[-1].seq if newest else 0,
            }

        return await reception.tower.database.read(body)

    # Inboxes.

    async def inbox(self, actor: Actor, *, limit: int = 50) -> Json:
        """What is for an agent and not acknowledged; it counts as delivered from now on."""
        actor.require_agent("have an inbox")
        reception, view = self._reception, self._reception.view(actor)

        def body(connection: Connection) -> Json:
            found = messages.inbox_of(connection, actor.party, limit=max(1, min(limit, MESSAGES_MAX)))
            for delivery in found:
                messages.deliver(connection, delivery, how="inbox", wall_us=reception.wall_us)
            return {"messages": self._describe_all(connection, found, actor, view)}

        return await reception.tower.database.write(body)

    async def look_into(self, actor: Actor, pod: str, *, limit: int = 50, everything: bool = False) -> Json:
        """The inbox of a pod, for a person or itself to look at, which changes nothing."""
        reception, view = self._reception, self._reception.view(actor)
        party = reception.party(actor, pod)
        if not actor.is_person and party != actor.party:
            raise NotForRole("an inbox is read by whose it is", hint="read your own")

        def body(connection: Connection) -> Json:
            found = messages.inbox_of(connection, party, limit=max(1, min(limit, MESSAGES_MAX)), everything=everything)
            return {"pod": view.name(party), "messages": self._describe_all(connection, found, None, view)}

        return await reception.tower.database.read(body)

    async def acknowledge(self, actor: Actor, named: Sequence[str]) -> Json:
        """Take note of messages, named as ``build#12``; of those that are noted already, nothing more comes."""
        actor.require_agent("have an inbox")
        reception = self._reception

        def body(connection: Connection) -> Json:
            noted = 0
            for raw in named:
                channel, seq = self._locate(connection, actor, raw)
                delivery = messages.get_delivery(connection, channel, seq, actor.party)
                if delivery is None:
                    raise NoSuchMessage(raw)
                noted += messages.acknowledge(connection, delivery, wall_us=reception.wall_us)
            return {"acknowledged": noted}

        return await reception.tower.database.write(body)

    def _describe_all(
        self, connection: Connection, found: Sequence[Delivery], reader: Actor | None, view: View
    ) -> list[Json]:
        described: list[Json] = []
        for delivery in found:
            channel = store.get_channel(connection, delivery.message.channel)
            assert channel is not None
            own = reader is not None and channel.id == store.inbox_id(reader.party)
            described.append(describe_delivery(delivery, OWN_INBOX if own else shown_channel(channel, view), view))
        return described

    def _locate(self, connection: Connection, actor: Actor, raw: str) -> tuple[str, int]:
        name, _, number = raw.rpartition("#")
        if not name or not number.isdecimal() or len(number) > 9:
            raise NoSuchMessage(raw)
        name, seq = name.removeprefix("#"), int(number)
        if name in (OWN_INBOX, f"@{actor.name}"):
            return store.inbox_id(actor.party), seq
        # By the name it was told; from a channel that was archived or left since, too.
        view = self._reception.view(actor)
        for everything in (False, True):
            for delivery in messages.inbox_of(connection, actor.party, limit=_INBOX_MAX, everything=everything):
                if delivery.message.seq != seq:
                    continue
                channel = store.get_channel(connection, delivery.message.channel)
                if channel is not None and name in (channel.name, shown_channel(channel, view)):
                    return channel.id, seq
        raise NoSuchMessage(raw)

    # Finding channels.

    def find(self, connection: Connection, actor: Actor, raw: str) -> Channel:
        """A channel somebody may see; NoSuchChannel for another, as for one that does not exist."""
        if actor.is_person and raw.startswith("@"):
            found = store.get_channel(connection, store.inbox_id(self._reception.party(actor, raw[1:])))
        elif not actor.is_person and raw == OWN_INBOX:
            found = store.get_channel(connection, store.inbox_id(actor.party))
        else:
            found = store.find_channel(connection, raw.removeprefix("#"))
        if found is None:
            raise NoSuchChannel(raw)
        if not _may_see(found, actor, store.members_of(connection, found.id)):
            raise NoSuchChannel(raw)
        return found

    def names(self, connection: Connection, actor: Actor, ids: Iterable[str], view: View) -> dict[str, str]:
        """What channels are called, by their ids, as far as somebody may see them."""
        channels = store.get_channels(connection, list(set(ids)))
        own = [] if actor.is_person else store.channels_of(connection, actor.party)
        seen = {channel.id for channel in own}
        return {
            channel.id: shown_channel(channel, view)
            for channel in channels
            if channel.id in seen or actor.may_see(channel.kind, ())
        }

    def _find_shared(self, connection: Connection, actor: Actor, raw: str) -> Channel:
        """The same, unless it is one party's own: nobody else comes into an inbox, and its owner does not leave it."""
        found = self.find(connection, actor, raw)
        if found.kind == "inbox":
            raise BadInput("an inbox is one pod's own", hint="name a channel that was made")
        return found

    def _find_then(self, connection: Connection, actor: Actor, raw: str, at_us: int | None) -> Channel:
        """A channel somebody may see, or could at an instant; of a person also by its id, archived or not."""
        if actor.is_person and (found := store.get_channel(connection, raw)) is not None:
            return found
        if at_us is None or raw.startswith("@"):
            return self.find(connection, actor, raw)
        members, name = store.memberships(connection, at_us=at_us), raw.removeprefix("#")
        for channel in store.list_channels(connection, at_us=at_us):
            if channel.name == name and _may_see(channel, actor, members.get(channel.id, [])):
                return channel
        raise NoSuchChannel(raw)

    def _enter(self, connection: Connection, channel: Channel, actor: Actor) -> None:
        if not actor.is_person and channel.kind != "inbox":
            store.join_channel(connection, channel, actor.party, wall_us=self._reception.wall_us)

    def _called(self, connection: Connection, channel: Channel, post: Post, view: View) -> list[Party]:
        """Members that a text calls by their names."""
        members = store.members_of(connection, channel.id)
        if EVERYBODY in post.mentions or EVERYBODY in mentioned(post.text, [EVERYBODY]):
            return members
        by_name = {view.directory.name(party): party for party in members}
        return [by_name[name] for name in mentioned(post.text, by_name)]

    def _with_asker(
        self, connection: Connection, channel: Channel, post: Post, mentions: Sequence[Party]
    ) -> Sequence[Party]:
        """Whom a message is for: an answer also for whoever asked."""
        if post.reply_to is None:
            return mentions
        answered = messages.get_message(connection, channel.id, post.reply_to)
        if answered is None or kind_of(answered.author) not in ("pod", "agent"):  # who have an inbox
            return mentions
        return [*mentions, answered.author]

    def _describe(self, connection: Connection, channel: Channel, actor: Actor, view: View) -> Json:
        return _summary(channel, actor, store.members_of(connection, channel.id), view)


def _last_messages(connection: Connection, at_us: int | None) -> dict[str, tuple[int, int]]:
    """How many messages each channel has, and when the last was said; at an instant, by then."""
    last = store.last_messages(connection)
    if at_us is None:
        return last
    newest = {id_: messages.newest_messages(connection, id_, at_us=at_us, limit=1) for id_ in last}
    return {id_: (found[-1].seq, found[-1].wall_us) for id_, found in newest.items() if found}


def _may_see(channel: Channel, actor: Actor, members: Sequence[Party]) -> bool:
    return actor.may_see(channel.kind, members)


def _summary(channel: Channel, actor: Actor, members: Sequence[Party], view: View) -> Json:
    inside = actor.is_person or actor.party in members
    described = describe_channel(channel, view) | {"member_count": len(members)}
    return described | ({"members": [view.directory.name(party) for party in members]} if inside else {})
