"""Silences that end, commands by which a person steers, and answers kept for who asks again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("silences", sa.Column("placed_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("silences", sa.Column("ended_by", sa.String(length=255), nullable=True))
    op.create_table(
        "commands",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            primary_key=True,
            autoincrement=True,
        ),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("who", sa.String(length=255), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("told", sa.Text(), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
    )
    op.create_index("ix_commands_status_id", "commands", ["status", "id"])
    op.create_table(
        "given_answers",
        sa.Column("who", sa.String(length=255), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("request", sa.String(length=64), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("content_type", sa.String(length=127), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("who", "key"),
    )
    op.create_index("ix_given_answers_at", "given_answers", ["at"])


def downgrade() -> None:
    op.drop_index("ix_given_answers_at", table_name="given_answers")
    op.drop_table("given_answers")
    op.drop_index("ix_commands_status_id", table_name="commands")
    op.drop_table("commands")
    op.drop_column("silences", "ended_by")
    op.drop_column("silences", "placed_at")
