"""Golden questions: runs, and the answers given in them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "golden_runs",
        sa.Column("id", _ID, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("profile", sa.String(length=63), nullable=False),
        sa.Column("reference", sa.String(length=63), nullable=False),
        sa.Column("questions", sa.Integer(), nullable=False),
        sa.Column("budget_nanos", sa.BigInteger(), nullable=True),
        sa.Column("spent_nanos", sa.BigInteger(), nullable=False),
        sa.Column("who", sa.String(length=255), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("told", sa.Text(), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "golden_answers",
        sa.Column("run", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("profile", sa.String(length=63), nullable=False),
        sa.Column("question", sa.String(length=63), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("work_class", sa.String(length=63), nullable=False),
        sa.Column("is_right", sa.Boolean(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("prompt_tokens", sa.Integer(), nullable=False),
        sa.Column("completion_tokens", sa.Integer(), nullable=False),
        sa.Column("first_token_seconds", sa.Float(), nullable=True),
        sa.Column("took_seconds", sa.Float(), nullable=False),
        sa.Column("nanos", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("run", "profile", "question"),
    )
    op.create_index("ix_golden_answers_at", "golden_answers", ["at"], unique=False)


def downgrade() -> None:
    op.drop_index("ix_golden_answers_at", table_name="golden_answers")
    op.drop_table("golden_answers")
    op.drop_table("golden_runs")
