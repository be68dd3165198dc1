"""Sessions with their leases, memories and summaries; those of pods that are known already among them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0006"
down_revision = "0005"

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_JSON = sa.JSON().with_variant(JSONB(), "postgresql")
_TEXT_INDEX = (
    "CREATE VIRTUAL TABLE memory_text USING fts5("
    "tags, text, content='', columnsize=0, tokenize=\"unicode61 remove_diacritics 2\")"
)


def _text(name: str, *, optional: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=optional)


def _json(name: str) -> sa.Column[object]:
    return sa.Column(name, _JSON, nullable=False)


def _big(name: str, *, optional: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=optional)


def _number(name: str, *, optional: bool = False) -> sa.Column[int]:
    return sa.Column(name, _NUMBER, nullable=optional, autoincrement=False)


def _count(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer(), nullable=False, autoincrement=False)


def _flag(name: str) -> sa.Column[bool]:
    return sa.Column(name, sa.Boolean(), nullable=False)


def _make(table: str, key: tuple[str, ...], *columns: sa.schema.SchemaItem) -> None:
    op.create_table(table, *columns, sa.PrimaryKeyConstraint(*key, name=op.f(f"pk_{table}")))


def _of_session(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["session"], ["session.id"], name=op.f(f"fk_{table}_session_session"))


def _index(table: str, *columns: str) -> None:
    op.create_index(op.f(f"ix_{table}_{'_'.join(columns)}"), table, list(columns))


def upgrade() -> None:
    """Make all tables, and sessions of what pods have."""
    op.add_column("handoff", sa.Column("session", sa.Text()))
    _make_sessions()
    _make_memories()
    _make_summaries()
    _take_over_sessions_of_pods()


def _make_sessions() -> None:
    _make(
        "session",
        ("id",),
        _text("id"),
        _text("owner"),
        _flag("handed_over"),
        _text("name", optional=True),
        _text("agent", optional=True),
        _json("origin"),
        _big("created_us"),
        _big("used_us"),
        _count("last_seq"),
        _count("covered_to_seq"),
    )
    _index("session", "owner", "used_us")
    _index("session", "used_us")
    uncovered = sa.text("last_seq > covered_to_seq")
    op.create_index("ix_session_uncovered", "session", ["id"], sqlite_where=uncovered, postgresql_where=uncovered)
    _make(
        "lease",
        ("session", "since_event"),
        _text("session"),
        _text("state"),
        _big("epoch"),
        _text("holder", optional=True),
        _text("held_by", optional=True),
        _text("why", optional=True),
        _big("since_us"),
        _number("since_event"),
        _big("until_us", optional=True),
        _number("until_event", optional=True),
        sa.CheckConstraint("until_us IS NULL OR until_us >= since_us", name=op.f("ck_lease_instants")),
        sa.CheckConstraint("until_event IS NULL OR until_event > since_event", name=op.f("ck_lease_events")),
        _of_session("lease"),
    )
    still_open = sa.text("until_event IS NULL")
    op.create_index(
        "uq_lease_open", "lease", ["session"], unique=True, sqlite_where=still_open, postgresql_where=still_open
    )
    _index("lease", "holder")
    _index("lease", "state", "until_event")
    _make(
        "attachment",
        ("holder",),
        _text("holder"),
        _text("session"),
        _text("parameter", optional=True),
        _text("requested", optional=True),
        _text("reason", optional=True),
        _text("warning", optional=True),
        _big("wall_us"),
        _of_session("attachment"),
    )
    _index("attachment", "wall_us")
    _index("attachment", "session")


def _make_memories() -> None:
    _make(
        "memory",
        ("number",),
        _number("number"),
        _text("session"),
        _count("seq"),
        _text("source"),
        _text("key", optional=True),
        _text("prompt"),
        _text("thought"),
        _text("response"),
        _text("model", optional=True),
        _json("tools"),
        _big("tokens", optional=True),
        _text("agent", optional=True),
        _big("epoch"),
        _text("pod", optional=True),
        _big("tape_at", optional=True),
        _big("tape_offset", optional=True),
        _big("wall_us"),
        _of_session("memory"),
    )
    op.create_index("uq_memory_session_seq", "memory", ["session", "seq"], unique=True)
    op.create_index("uq_memory_session_key", "memory", ["session", "key"], unique=True)
    _index("memory", "wall_us")
    if op.get_bind().dialect.name == "sqlite":
        op.execute(_TEXT_INDEX)
    _make("capture", ("pod",), _text("pod"), _big("offset"), _json("underway"), _flag("done"))


def _make_summaries() -> None:
    _make(
        "summary",
        ("session", "to_seq"),
        _text("session"),
        _count("to_seq"),
        _count("from_seq"),
        _text("input_hash"),
        _text("text"),
        _text("made_by"),
        _text("model", optional=True),
        _big("wall_us"),
        _of_session("summary"),
    )
    _make(
        "summary_job",
        ("session",),
        _text("session"),
        _text("state"),
        _count("from_seq"),
        _count("to_seq"),
        _flag("asked"),
        _big("not_before_us"),
        _text("token", optional=True),
        _big("claimed_until_us", optional=True),
        sa.Column("part_to_seq", sa.Integer()),
        _text("input_hash", optional=True),
        _count("attempts"),
        _text("error", optional=True),
        _big("wall_us"),
        _of_session("summary_job"),
    )
    _index("summary_job", "state", "not_before_us")


def _take_over_sessions_of_pods() -> None:
    """Nobody holds them yet: a pod that runs does as soon as its runner reports it."""
    op.execute(
        """
        INSERT INTO session (id, owner, handed_over, name, agent, origin, created_us, used_us, last_seq, covered_to_seq)
        SELECT pod.session, pod.session, false, max(pod_fact.name), max(pod.agent), '{}',
               min(pod.created_us), max(pod.created_us), 0, 0
        FROM pod LEFT JOIN pod_fact ON pod_fact.pod = pod.id AND pod_fact.until_event IS NULL
        WHERE pod.session <> ''
        GROUP BY pod.session
        """
    )
    op.execute(
        """
        INSERT INTO lease (session, state, epoch, why, since_us, since_event)
        SELECT session, 'suspended', 0, 'it was there before', min(since_us), min(since_event)
        FROM pod WHERE session <> '' GROUP BY session
        """
    )
