"""Which conversation a pod's agent is in."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add its column."""
    op.add_column("pod_fact", sa.Column("conversation", sa.Text()))
