"""Actions on workers: pool, guards, approval, what came of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_COLUMNS = (
    ("pool", sa.String(length=63), ""),
    ("who", sa.String(length=255), ""),
    ("guards", sa.JSON(), "[]"),
    ("expires_at", sa.DateTime(timezone=True), None),
    ("approvers", sa.JSON(), "[]"),
    ("decided_by", sa.String(length=255), None),
    ("verify_by", sa.DateTime(timezone=True), None),
    ("verified_at", sa.DateTime(timezone=True), None),
    ("helped", sa.Boolean(), None),
)


def upgrade() -> None:
    for name, kind, default in _COLUMNS:
        column = sa.Column(name, kind, nullable=default is None, server_default=default)
        op.add_column("actions", column)


def downgrade() -> None:
    # An older program has no word for these.
    op.execute(
        "DELETE FROM actions WHERE kind IN "
        "('restart_worker', 'drain_worker', 'exclude_worker', 'wake_worker', 'divert_class')"
    )
    op.execute(
        "UPDATE actions SET status = 'failed' WHERE status IN ('waiting', 'refused', 'expired')"
    )
    for name, _, _ in _COLUMNS:
        op.drop_column("actions", name)
