"""Which runner each token belongs to."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make its table."""
    op.create_table(
        "runner_token",
        sa.Column(
            "token", sa.Text(), sa.ForeignKey("token.id", name=op.f("fk_runner_token_token_token")), nullable=False
        ),
        sa.Column("runner", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("token", name=op.f("pk_runner_token")),
    )
    op.create_index(op.f("ix_runner_token_runner"), "runner_token", ["runner"])
