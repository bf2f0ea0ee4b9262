"""What a person wishes of workers, and how long workers took to come up."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "worker_wishes",
        sa.Column("worker", sa.String(length=63), nullable=False),
        sa.Column("wish", sa.String(length=16), nullable=True),
        sa.Column("restart_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("pardon_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("who", sa.String(length=255), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("worker"),
    )
    op.create_table(
        "start_times",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("profile", sa.String(length=63), nullable=False),
        sa.Column("worker", sa.String(length=63), nullable=False),
        sa.Column("took_seconds", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_start_times_profile"), "start_times", ["profile"], unique=False)


def downgrade() -> None:
    op.drop_index(op.f("ix_start_times_profile"), table_name="start_times")
    op.drop_table("start_times")
    op.drop_table("worker_wishes")
