"""The fleet: events, pods and their status, runners, worktrees, tokens, notices."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0001"
down_revision = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_JSON = sa.JSON().with_variant(JSONB(), "postgresql")


def _interval(table: str) -> list[sa.schema.SchemaItem]:
    return [
        sa.Column("since_us", sa.BigInteger(), nullable=False),
        sa.Column("since_event", _NUMBER, nullable=False, autoincrement=False),
        sa.Column("until_us", sa.BigInteger()),
        sa.Column("until_event", _NUMBER),
        sa.CheckConstraint("until_us IS NULL OR until_us >= since_us", name=op.f(f"ck_{table}_instants")),
        sa.CheckConstraint("until_event IS NULL OR until_event > since_event", name=op.f(f"ck_{table}_events")),
    ]


def _primary_key(table: str, *columns: str) -> sa.PrimaryKeyConstraint:
    return sa.PrimaryKeyConstraint(*columns, name=op.f(f"pk_{table}"))


def _one_open(table: str, *subject: str) -> None:
    still_open = sa.text("until_event IS NULL")
    name = f"uq_{table}_open"
    op.create_index(name, table, list(subject), unique=True, sqlite_where=still_open, postgresql_where=still_open)


def upgrade() -> None:
    """Make all tables."""
    _make_events()
    _make_pods()
    _make_machines()
    _make_access()
    _make_memory()


def _make_events() -> None:
    clock = op.create_table(
        "clock",
        sa.Column("id", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("number", _NUMBER, nullable=False),
        sa.Column("wall_us", sa.BigInteger(), nullable=False),
        _primary_key("clock", "id"),
    )
    op.bulk_insert(clock, [{"id": 1, "number": 0, "wall_us": 0}])
    op.create_table(
        "event",
        sa.Column("number", _NUMBER, nullable=False, autoincrement=False),
        sa.Column("wall_us", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("pod", sa.Text()),
        sa.Column("data", _JSON, nullable=False),
        _primary_key("event", "number"),
    )
    op.create_index(op.f("ix_event_pod_number"), "event", ["pod", "number"])
    op.create_index(op.f("ix_event_wall_us_number"), "event", ["wall_us", "number"])


def _make_pods() -> None:
    op.create_table(
        "pod",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("runner", sa.Text(), nullable=False),
        sa.Column("argv", _JSON, nullable=False),
        sa.Column("cwd", sa.Text(), nullable=False),
        sa.Column("cols", sa.Integer(), nullable=False),
        sa.Column("rows", sa.Integer(), nullable=False),
        sa.Column("agent", sa.Text()),
        sa.Column("imported", sa.Boolean(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        *_interval("pod"),
        _primary_key("pod", "id"),
    )
    op.create_index(op.f("ix_pod_until_event"), "pod", ["until_event"])
    op.create_table(
        "pod_fact",
        sa.Column("pod", sa.Text(), sa.ForeignKey("pod.id", name=op.f("fk_pod_fact_pod_pod")), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("repository", sa.Text()),
        sa.Column("branch", sa.Text()),
        sa.Column("worktree", sa.Text()),
        *_interval("pod_fact"),
        _primary_key("pod_fact", "pod", "since_event"),
    )
    _one_open("pod_fact", "pod")
    op.create_table(
        "status",
        sa.Column("pod", sa.Text(), sa.ForeignKey("pod.id", name=op.f("fk_status_pod_pod")), nullable=False),
        sa.Column("process", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text()),
        sa.Column("exit_status", sa.Integer()),
        sa.Column("activity", sa.Text()),
        sa.Column("waiting_for", sa.Text()),
        sa.Column("evidence", _JSON, nullable=False),
        sa.Column("confidence", sa.Float()),
        *_interval("status"),
        _primary_key("status", "pod", "since_event"),
    )
    _one_open("status", "pod")


def _make_machines() -> None:
    op.create_table(
        "runner_link",
        sa.Column("runner", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("connected", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.Text()),
        *_interval("runner_link"),
        _primary_key("runner_link", "runner", "since_event"),
    )
    _one_open("runner_link", "runner")
    op.create_table(
        "worktree",
        sa.Column("runner", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("repository", sa.Text(), nullable=False),
        sa.Column("branch", sa.Text()),
        sa.Column("base", sa.Text()),
        sa.Column("pod", sa.Text()),
        *_interval("worktree"),
        _primary_key("worktree", "runner", "name", "since_event"),
    )
    _one_open("worktree", "runner", "name")


def _make_access() -> None:
    op.create_table(
        "token",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("pod", sa.Text()),
        sa.Column("expires_us", sa.BigInteger()),
        sa.Column("used_us", sa.BigInteger()),
        *_interval("token"),
        _primary_key("token", "id"),
    )
    op.create_index(op.f("ix_token_pod"), "token", ["pod"])
    op.create_table(
        "login",
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("expires_us", sa.BigInteger(), nullable=False),
        *_interval("login"),
        _primary_key("login", "digest"),
    )
    op.create_table(
        "browser",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("expires_us", sa.BigInteger(), nullable=False),
        *_interval("browser"),
        _primary_key("browser", "id"),
    )


def _make_memory() -> None:
    op.create_table(
        "mute",
        sa.Column("pod", sa.Text(), nullable=False),
        *_interval("mute"),
        _primary_key("mute", "pod", "since_event"),
    )
    _one_open("mute", "pod")
    op.create_table(
        "request",
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("answer", _JSON, nullable=False),
        sa.Column("wall_us", sa.BigInteger(), nullable=False),
        _primary_key("request", "principal", "key"),
    )
    op.create_index(op.f("ix_request_wall_us"), "request", ["wall_us"])
    op.create_table(
        "notice",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("wall_us", sa.BigInteger(), nullable=False),
        _primary_key("notice", "key"),
    )
