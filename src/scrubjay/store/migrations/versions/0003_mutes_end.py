"""When a pod that is muted is heard of again by itself."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add its column."""
    op.add_column("mute", sa.Column("ends_us", sa.BigInteger()))
