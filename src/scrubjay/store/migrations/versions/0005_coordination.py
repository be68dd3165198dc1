"""Bindings, channels, messages, waits, handoffs, deadlocks, and what the MCP endpoint keeps."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0005"
down_revision = "0004"

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_JSON = sa.JSON().with_variant(JSONB(), "postgresql")


def _text(name: str, *, optional: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=optional)


def _json(name: str) -> sa.Column[object]:
    return sa.Column(name, _JSON, nullable=False)


def _micros(name: str, *, optional: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=optional)


def _number(name: str, *, optional: bool = False) -> sa.Column[int]:
    return sa.Column(name, _NUMBER, nullable=optional, autoincrement=False)


def _count(name: str, *, optional: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.Integer(), nullable=optional, autoincrement=False)


def _interval(table: str) -> list[sa.schema.SchemaItem]:
    return [
        _micros("since_us"),
        _number("since_event"),
        _micros("until_us", optional=True),
        _number("until_event", optional=True),
        sa.CheckConstraint("until_us IS NULL OR until_us >= since_us", name=op.f(f"ck_{table}_instants")),
        sa.CheckConstraint("until_event IS NULL OR until_event > since_event", name=op.f(f"ck_{table}_events")),
    ]


def _make(table: str, key: tuple[str, ...], *columns: sa.schema.SchemaItem) -> None:
    op.create_table(table, *columns, sa.PrimaryKeyConstraint(*key, name=op.f(f"pk_{table}")))


def _refers(table: str, columns: tuple[str, ...], other: str, others: tuple[str, ...]) -> sa.ForeignKeyConstraint:
    name = op.f(f"fk_{table}_{'_'.join(columns)}_{other}")
    return sa.ForeignKeyConstraint(columns, [f"{other}.{column}" for column in others], name=name)


def _index(table: str, *columns: str) -> None:
    op.create_index(op.f(f"ix_{table}_{'_'.join(columns)}"), table, list(columns))


def _one_open(table: str, *subject: str) -> None:
    still_open = sa.text("until_event IS NULL")
    name = f"uq_{table}_open"
    op.create_index(name, table, list(subject), unique=True, sqlite_where=still_open, postgresql_where=still_open)


def upgrade() -> None:
    """Make all tables."""
    _index("pod", "session")  # who coordinates is known by it
    _make_bindings()
    _make_channels()
    _make_messages()
    _make_waits()
    _make_handoffs()
    _make_endpoint()


def _make_bindings() -> None:
    _make(
        "binding",
        ("id", "since_event"),
        _text("id"),
        _text("initiator"),
        _text("target"),
        _text("state"),
        _json("granted"),
        _json("pending"),
        _text("reason", optional=True),
        _text("answer", optional=True),
        _text("decided_by"),
        _micros("expires_us", optional=True),
        *_interval("binding"),
    )
    _one_open("binding", "id")
    _index("binding", "initiator")
    _index("binding", "target")


def _make_channels() -> None:
    _make(
        "channel",
        ("id",),
        _text("id"),
        _text("name"),
        _text("kind"),
        _text("purpose", optional=True),
        _text("made_by"),
        *_interval("channel"),
    )
    _one_open("channel", "name")
    _make(
        "channel_member",
        ("channel", "party", "since_event"),
        _text("channel"),
        _text("party"),
        _text("name"),
        *_interval("channel_member"),
        _refers("channel_member", ("channel",), "channel", ("id",)),
    )
    _one_open("channel_member", "channel", "party")
    _index("channel_member", "party")


def _make_messages() -> None:
    _make(
        "message",
        ("channel", "seq"),
        _text("channel"),
        _count("seq"),
        _text("author"),
        _text("author_name"),
        _text("text"),
        _count("reply_to", optional=True),
        sa.Column("asks", sa.Boolean(), nullable=False),
        _json("mentions"),
        _json("about"),
        _micros("wall_us"),
        _number("event"),
        _refers("message", ("channel",), "channel", ("id",)),
    )
    _index("message", "wall_us")
    _index("message", "author", "event")
    _index("message", "channel", "event")
    _make(
        "delivery",
        ("channel", "seq", "party"),
        _text("channel"),
        _count("seq"),
        _text("party"),
        _text("state"),
        _text("how", optional=True),
        _micros("queued_us"),
        _number("queued_event"),
        _micros("delivered_us", optional=True),
        _number("delivered_event", optional=True),
        _micros("acknowledged_us", optional=True),
        _number("acknowledged_event", optional=True),
        _count("attempts"),
        _text("typing_pod", optional=True),
        _micros("typing_offset", optional=True),
        _refers("delivery", ("channel", "seq"), "message", ("channel", "seq")),
    )
    _index("delivery", "party", "queued_event")
    _index("delivery", "state")


def _make_waits() -> None:
    _make(
        "wait",
        ("id",),
        _text("id"),
        _text("waiter"),
        _text("kind"),
        _text("key", optional=True),
        _text("on_party", optional=True),
        _text("source"),
        _text("reason", optional=True),
        _micros("deadline_us", optional=True),
        _json("evidence"),
        _text("outcome", optional=True),
        _text("detail", optional=True),
        *_interval("wait"),
    )
    _index("wait", "waiter", "until_event")
    _index("wait", "on_party", "until_event")
    _index("wait", "kind", "key", "until_event")
    _index("wait", "until_event")
    _make(
        "deadlock",
        ("id",),
        _text("id"),
        _text("key"),
        _json("parties"),
        _json("waits"),
        _text("cut"),
        _text("outcome", optional=True),
        *_interval("deadlock"),
    )
    _one_open("deadlock", "key")
    _index("deadlock", "until_event")


def _make_handoffs() -> None:
    _make(
        "handoff",
        ("id", "since_event"),
        _text("id"),
        _text("offered_by"),
        _text("recipient", optional=True),
        _text("key", optional=True),
        _text("note"),
        _json("files"),
        _text("revision", optional=True),
        _text("state"),
        _json("takers"),
        _micros("offered_us"),
        *_interval("handoff"),
    )
    _one_open("handoff", "id")
    _index("handoff", "key")
    _index("handoff", "recipient")
    _index("handoff", "offered_by")


def _make_endpoint() -> None:
    _make(
        "typed_request",
        ("principal", "key"),
        _text("principal"),
        _text("key"),
        _text("pod"),
        _text("author"),
        _micros("offset"),
        _micros("epoch"),
        _micros("wall_us"),
    )
    _index("typed_request", "wall_us")
    _make(
        "wire_session",
        ("id",),
        _text("id"),
        _text("principal"),
        _json("client"),
        _text("protocol"),
        _micros("created_us"),
        _micros("seen_us"),
    )
    _index("wire_session", "seen_us")
