"""The tables of the catalog.

A table of facts has ``since_us``/``since_event`` and ``until_us``/``until_event``: a fact holds from the first event up
to, not including, the second, and is open while it has none. At most one fact of a subject is open. ``migrations``
makes these tables; a test holds the two together.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)
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
