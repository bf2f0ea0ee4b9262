"""Messages by group: what each channel was told, and what it is to be told next."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("outbox", sa.Column("grouped_at", sa.DateTime(timezone=True)))
    # What was told before there were groups is not told again.
    op.execute("UPDATE outbox SET grouped_at = created_at")
    op.create_index("ix_outbox_grouped_at", "outbox", ["grouped_at"])
    op.create_table(
        "notify_groups",
        sa.Column("channel", sa.String(length=63), nullable=False),
        sa.Column("key", sa.String(length=16), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.Column("handle", sa.JSON(), nullable=False),
        sa.Column("trying", sa.String(length=63), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("error", sa.Text()),
        sa.PrimaryKeyConstraint("channel", "key"),
    )
    op.create_index("ix_notify_groups_due", "notify_groups", ["channel", "next_at"])


def downgrade() -> None:
    op.drop_table("notify_groups")
    op.drop_index("ix_outbox_grouped_at", "outbox")
    with op.batch_alter_table("outbox") as table:
        table.drop_column("grouped_at")
