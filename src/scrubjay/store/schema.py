"""The tables of the catalog.

A table of facts has ``since_us``/``since_event`` and ``until_us``/``until_event``: a fact holds from the first event up
to, not including, the second, and is open while it has none. At most one fact of a subject is open. ``migrations``
makes these tables; a test holds the two together.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)
from sqlalchemy.event import listen
from sqlalchemy.schema import SchemaItem

from scrubjay.store.columns import AnyJson, AnyText, Micros, Number, Words

# Constraints need names before a migration can change them.
metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _interval(*, in_key: bool = True) -> list[SchemaItem]:
    return [
        Column("since_us", Micros, nullable=False),
        Column("since_event", Number, primary_key=in_key, nullable=False, autoincrement=False),
        Column("until_us", Micros),
        Column("until_event", Number),
        CheckConstraint("until_us IS NULL OR until_us >= since_us", name="instants"),
        CheckConstraint("until_event IS NULL OR until_event > since_event", name="events"),
    ]


def _one_open(*subject: Column[Any]) -> None:
    table = subject[0].table
    still_open = table.c.until_event.is_(None)
    Index(f"uq_{table.name}_open", *subject, unique=True, sqlite_where=still_open, postgresql_where=still_open)


clock = Table(
    "clock",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("number", Number, nullable=False),
    Column("wall_us", Micros, nullable=False),
)
"""One row: the number of the last event and the latest instant. A counter, because a sequence would leave gaps."""

event = Table(
    "event",
    metadata,
    Column("number", Number, primary_key=True, autoincrement=False),
    Column("wall_us", Micros, nullable=False),
    Column("kind", Text, nullable=False),
    Column("pod", Text),
    Column("data", AnyJson, nullable=False),
)
Index(None, event.c.pod, event.c.number)
Index(None, event.c.wall_us, event.c.number)

pod = Table(
    "pod",
    metadata,
    Column("id", Text, primary_key=True),
    Column("session", Text, nullable=False),
    Column("runner", AnyText, nullable=False),
    Column("argv", Words, nullable=False),
    Column("cwd", AnyText, nullable=False),
    Column("cols", Integer, nullable=False),
    Column("rows", Integer, nullable=False),
    Column("agent", AnyText),
    Column("imported", Boolean, nullable=False),
    Column("created_us", Micros, nullable=False),
    *_interval(in_key=False),
)
"""What never changes of a pod; it is open until the pod is removed."""
Index(None, pod.c.until_event)
Index(None, pod.c.session)

pod_fact = Table(
    "pod_fact",
    metadata,
    Column("pod", Text, ForeignKey(pod.c.id), primary_key=True),
    Column("name", AnyText, nullable=False),
    Column("repository", AnyText),
    Column("branch", AnyText),
    Column("worktree", AnyText),
    Column("conversation", AnyText),
    *_interval(),
)
"""What may change of a pod while it lives."""
_one_open(pod_fact.c.pod)

status = Table(
    "status",
    metadata,
    Column("pod", Text, ForeignKey(pod.c.id), primary_key=True),
    Column("process", Text, nullable=False),
    Column("reason", AnyText),
    Column("exit_status", Integer),
    Column("activity", Text),
    Column("waiting_for", AnyText),
    Column("evidence", AnyJson, nullable=False),
    Column("confidence", Float),
    *_interval(),
)
_one_open(status.c.pod)

runner_link = Table(
    "runner_link",
    metadata,
    Column("runner", AnyText, primary_key=True),
    Column("name", AnyText, nullable=False),
    Column("host", AnyText, nullable=False),
    Column("version", AnyText, nullable=False),
    Column("connected", Boolean, nullable=False),
    Column("reason", AnyText),
    *_interval(),
)
_one_open(runner_link.c.runner)

worktree = Table(
    "worktree",
    metadata,
    Column("runner", AnyText, primary_key=True),
    Column("name", AnyText, primary_key=True),
    Column("path", AnyText, nullable=False),
    Column("repository", AnyText, nullable=False),
    Column("branch", AnyText),
    Column("base", AnyText),
    Column("pod", Text),
    *_interval(),
)
_one_open(worktree.c.runner, worktree.c.name)

mute = Table("mute", metadata, Column("pod", Text, primary_key=True), Column("ends_us", Micros), *_interval())
"""One that has an end is open after it, too, but says nothing any more."""
_one_open(mute.c.pod)

token = Table(
    "token",
    metadata,
    Column("id", AnyText, primary_key=True),
    Column("digest", LargeBinary, nullable=False),
    Column("role", Text, nullable=False),
    Column("name", AnyText, nullable=False),
    Column("pod", Text),
    Column("expires_us", Micros),
    Column("used_us", Micros),
    *_interval(in_key=False),
)
"""It is open until it is revoked. Only digests of secrets are ever kept."""
Index(None, token.c.pod)

runner_token = Table(
    "runner_token",
    metadata,
    Column("token", AnyText, ForeignKey(token.c.id), primary_key=True),
    Column("runner", AnyText, nullable=False),
)
"""The runner that has used a token first; nobody else can use it since."""
Index(None, runner_token.c.runner)

login = Table(
    "login",
    metadata,
    Column("digest", LargeBinary, primary_key=True),
    Column("role", Text, nullable=False),
    Column("name", AnyText, nullable=False),
    Column("expires_us", Micros, nullable=False),
    *_interval(in_key=False),
)
"""It is open until it is used."""

browser = Table(
    "browser",
    metadata,
    Column("id", AnyText, primary_key=True),
    Column("digest", LargeBinary, nullable=False),
    Column("role", Text, nullable=False),
    Column("name", AnyText, nullable=False),
    Column("expires_us", Micros, nullable=False),
    *_interval(in_key=False),
)
"""It is open until it logs out or is put out."""

request = Table(
    "request",
    metadata,
    Column("principal", AnyText, primary_key=True),
    Column("key", AnyText, primary_key=True),
    Column("answer", AnyJson, nullable=False),
    Column("wall_us", Micros, nullable=False),
)
"""Answers to requests that may come again."""
Index(None, request.c.wall_us)

notice = Table(
    "notice",
    metadata,
    Column("key", AnyText, primary_key=True),
    Column("wall_us", Micros, nullable=False),
)
"""When each notice was last given."""

binding = Table(
    "binding",
    metadata,
    Column("id", AnyText, primary_key=True),
    Column("initiator", AnyText, nullable=False),
    Column("target", AnyText, nullable=False),
    Column("state", Text, nullable=False),
    Column("granted", AnyJson, nullable=False),
    Column("pending", AnyJson, nullable=False),
    Column("reason", AnyText),
    Column("answer", AnyText),
    Column("decided_by", AnyText, nullable=False),
    Column("expires_us", Micros),
    *_interval(),
)
"""What one party may do to another's terminal. One that has ended stays open, and says so."""
_one_open(binding.c.id)
Index(None, binding.c.initiator)
Index(None, binding.c.target)

channel = Table(
    "channel",
    metadata,
    Column("id", AnyText, primary_key=True),
    Column("name", AnyText, nullable=False),
    Column("kind", Text, nullable=False),
    Column("purpose", AnyText),
    Column("made_by", AnyText, nullable=False),
    *_interval(in_key=False),
)
"""It is open until it is archived."""
_one_open(channel.c.name)

channel_member = Table(
    "channel_member",
    metadata,
    Column("channel", AnyText, ForeignKey(channel.c.id), primary_key=True),
    Column("party", AnyText, primary_key=True),
    Column("name", AnyText, nullable=False),
    *_interval(),
)
_one_open(channel_member.c.channel, channel_member.c.party)
Index(None, channel_member.c.party)

message = Table(
    "message",
    metadata,
    Column("channel", AnyText, ForeignKey(channel.c.id), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("author", AnyText, nullable=False),
    Column("author_name", AnyText, nullable=False),
    Column("text", AnyText, nullable=False),
    Column("reply_to", Integer),
    Column("asks", Boolean, nullable=False),
    Column("mentions", AnyJson, nullable=False),
    Column("about", AnyJson, nullable=False),
    Column("wall_us", Micros, nullable=False),
    Column("event", Number, nullable=False),
)
"""What was said. ``seq`` counts up from 1 in each channel, without a gap."""
Index(None, message.c.wall_us)
Index(None, message.c.author, message.c.event)
Index(None, message.c.channel, message.c.event)

delivery = Table(
    "delivery",
    metadata,
    Column("channel", AnyText, primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("party", AnyText, primary_key=True),
    Column("state", Text, nullable=False),
    Column("how", Text),
    Column("queued_us", Micros, nullable=False),
    Column("queued_event", Number, nullable=False),
    Column("delivered_us", Micros),
    Column("delivered_event", Number),
    Column("acknowledged_us", Micros),
    Column("acknowledged_event", Number),
    Column("attempts", Integer, nullable=False),
    Column("typing_pod", Text),
    Column("typing_offset", BigInteger),
    ForeignKeyConstraint(["channel", "seq"], [message.c.channel, message.c.seq]),
)
"""How far a message has come with each party it is for. ``typing_…``: it is being typed, from there on on the tape."""
Index(None, delivery.c.party, delivery.c.queued_event)
Index(None, delivery.c.state)

wait = Table(
    "wait",
    metadata,
    Column("id", AnyText, primary_key=True),
    Column("waiter", AnyText, nullable=False),
    Column("kind", Text, nullable=False),
    Column("key", AnyText),
    Column("on_party", AnyText),
    Column("source", Text, nullable=False),
    Column("reason", AnyText),
    Column("deadline_us", Micros),
    Column("evidence", AnyJson, nullable=False),
    Column("outcome", Text),
    Column("detail", AnyText),
    *_interval(in_key=False),
)
"""It is open until something has become of it."""
Index(None, wait.c.waiter, wait.c.until_event)
Index(None, wait.c.on_party, wait.c.until_event)
Index(None, wait.c.kind, wait.c.key, wait.c.until_event)
Index(None, wait.c.until_event)

handoff = Table(
    "handoff",
    metadata,
    Column("id", AnyText, primary_key=True),
    Column("offered_by", AnyText, nullable=False),
    Column("recipient", AnyText),
    Column("key", AnyText),
    Column("note", AnyText, nullable=False),
    Column("files", AnyJson, nullable=False),
    Column("revision", AnyText),
    Column("state", Text, nullable=False),
    Column("takers", AnyJson, nullable=False),
    Column("offered_us", Micros, nullable=False),
    Column("session", Text),
    *_interval(),
)
"""An output that is offered. One that is over stays open, and says so."""
_one_open(handoff.c.id)
Index(None, handoff.c.key)
Index(None, handoff.c.recipient)
Index(None, handoff.c.offered_by)

deadlock = Table(
    "deadlock",
    metadata,
    Column("id", Text, primary_key=True),
    Column("key", AnyText, nullable=False),
    Column("parties", AnyJson, nullable=False),
    Column("waits", AnyJson, nullable=False),
    Column("cut", Text, nullable=False),
    Column("outcome", AnyText),
    *_interval(in_key=False),
)
"""Parties that waited for one another in a circle, until one of their waits ended."""
_one_open(deadlock.c.key)
Index(None, deadlock.c.until_event)

typed_request = Table(
    "typed_request",
    metadata,
    Column("principal", AnyText, primary_key=True),
    Column("key", AnyText, primary_key=True),
    Column("pod", Text, nullable=False),
    Column("author", AnyText, nullable=False),
    Column("offset", BigInteger, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("wall_us", Micros, nullable=False),
)
"""That something was about to be typed: whether it was is on the tape, from there on, with that epoch."""
Index(None, typed_request.c.wall_us)

wire_session = Table(
    "wire_session",
    metadata,
    Column("id", Text, primary_key=True),
    Column("principal", AnyText, nullable=False),
    Column("client", AnyJson, nullable=False),
    Column("protocol", AnyText, nullable=False),
    Column("created_us", Micros, nullable=False),
    Column("seen_us", Micros, nullable=False),
)
"""The protocol sessions of older MCP clients, which do not notice that the server was started again."""
Index(None, wire_session.c.seen_us)

session = Table(
    "session",
    metadata,
    Column("id", Text, primary_key=True),
    Column("owner", AnyText, nullable=False),
    Column("handed_over", Boolean, nullable=False),
    Column("name", AnyText),
    Column("agent", AnyText),
    Column("origin", AnyJson, nullable=False),
    Column("created_us", Micros, nullable=False),
    Column("used_us", Micros, nullable=False),
    Column("last_seq", Integer, nullable=False),
    Column("covered_to_seq", Integer, nullable=False),
)
"""A thread of work. ``last_seq`` is the number of its last memory, ``covered_to_seq`` of the last in a summary;
``handed_over`` whether it ever had another owner."""
Index(None, session.c.owner, session.c.used_us)
Index(None, session.c.used_us)
_uncovered = session.c.last_seq > session.c.covered_to_seq
Index("ix_session_uncovered", session.c.id, sqlite_where=_uncovered, postgresql_where=_uncovered)

lease = Table(
    "lease",
    metadata,
    Column("session", Text, ForeignKey(session.c.id), primary_key=True),
    Column("state", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("holder", AnyText),
    Column("held_by", AnyText),
    Column("why", AnyText),
    *_interval(),
)
"""Who has a session, or that nobody has. Each grant raises the epoch."""
_one_open(lease.c.session)
Index(None, lease.c.holder)
Index(None, lease.c.state, lease.c.until_event)

attachment = Table(
    "attachment",
    metadata,
    Column("holder", AnyText, primary_key=True),
    Column("session", Text, ForeignKey(session.c.id), nullable=False),
    Column("parameter", AnyText),
    Column("requested", AnyText),
    Column("reason", Text),
    Column("warning", AnyText),
    Column("wall_us", Micros, nullable=False),
)
"""Which session a connection is in, whatever it is made with: that ``parameter`` is settled. With what it had asked for
instead and was refused."""
Index(None, attachment.c.wall_us)
Index(None, attachment.c.session)

memory = Table(
    "memory",
    metadata,
    Column("number", Number, primary_key=True, autoincrement=False),
    Column("session", Text, ForeignKey(session.c.id), nullable=False),
    Column("seq", Integer, nullable=False),
    Column("source", Text, nullable=False),
    Column("key", AnyText),
    Column("prompt", AnyText, nullable=False),
    Column("thought", AnyText, nullable=False),
    Column("response", AnyText, nullable=False),
    Column("model", AnyText),
    Column("tools", AnyJson, nullable=False),
    Column("tokens", BigInteger),
    Column("agent", AnyText),
    Column("epoch", BigInteger, nullable=False),
    Column("pod", Text),
    Column("tape_at", BigInteger),
    Column("tape_offset", BigInteger),
    Column("wall_us", Micros, nullable=False),
)
"""A turn of a session. ``number`` is that of the event it was written down with; ``seq`` counts up from 1, without a
gap. ``memory_text`` beside it is the full-text index, which each engine has in its own way."""
Index("uq_memory_session_seq", memory.c.session, memory.c.seq, unique=True)
Index("uq_memory_session_key", memory.c.session, memory.c.key, unique=True)
Index(None, memory.c.wall_us)
listen(
    memory,
    "after_create",
    DDL(
        "CREATE VIRTUAL TABLE memory_text USING fts5("
        "tags, text, content='', columnsize=0, tokenize=\"unicode61 remove_diacritics 2\")"
    ).execute_if(dialect="sqlite"),
)

summary = Table(
    "summary",
    metadata,
    Column("session", Text, ForeignKey(session.c.id), primary_key=True),
    Column("to_seq", Integer, primary_key=True, autoincrement=False),
    Column("from_seq", Integer, nullable=False),
    Column("input_hash", Text, nullable=False),
    Column("text", AnyText, nullable=False),
    Column("made_by", AnyText, nullable=False),
    Column("model", AnyText),
    Column("wall_us", Micros, nullable=False),
)
"""What a range of memories comes to. Ranges of a session follow one another and do not overlap."""

summary_job = Table(
    "summary_job",
    metadata,
    Column("session", Text, ForeignKey(session.c.id), primary_key=True),
    Column("state", Text, nullable=False),
    Column("from_seq", Integer, nullable=False),
    Column("to_seq", Integer, nullable=False),
    Column("asked", Boolean, nullable=False),
    Column("not_before_us", Micros, nullable=False),
    Column("token", AnyText),
    Column("claimed_until_us", Micros),
    Column("part_to_seq", Integer),
    Column("input_hash", Text),
    Column("attempts", Integer, nullable=False),
    Column("error", AnyText),
    Column("wall_us", Micros, nullable=False),
)
"""At most one of a session: pending, running with a token, or failed for good. While it runs, the part of its range up
to ``part_to_seq`` is summarised."""
Index(None, summary_job.c.state, summary_job.c.not_before_us)

capture = Table(
    "capture",
    metadata,
    Column("pod", Text, primary_key=True),
    Column("offset", BigInteger, nullable=False),
    Column("underway", AnyJson, nullable=False),
    Column("done", Boolean, nullable=False),
)
"""How far a tape was looked through for turns that its agent's hooks have told of, and what had not ended there."""
