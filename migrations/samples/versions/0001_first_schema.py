"""First schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "schemas",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("series", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("digest"),
    )
    op.create_table(
        "targets",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_targets_name"), "targets", ["name"], unique=False)
    op.create_table(
        "scrapes",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("target_id", sa.Integer(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("took_ms", sa.Integer(), nullable=False),
        sa.Column("schema_id", sa.Integer(), nullable=False),
        sa.Column("keyframe", sa.Boolean(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=True),
        sa.Column("failure", sa.String(length=16), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["target_id"],
            ["targets.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "ix_scrapes_keyframes",
        "scrapes",
        ["target_id", "at_ms", "id"],
        unique=False,
        sqlite_where=sa.text("keyframe = 1"),
        postgresql_where=sa.text("keyframe"),
    )
    op.create_index("ix_scrapes_target_at", "scrapes", ["target_id", "at_ms"], unique=False)


def downgrade() -> None:
    op.drop_index("ix_scrapes_target_at", table_name="scrapes")
    op.drop_index(
        "ix_scrapes_keyframes",
        table_name="scrapes",
        sqlite_where=sa.text("keyframe = 1"),
        postgresql_where=sa.text("keyframe"),
    )
    op.drop_table("scrapes")
    op.drop_index(op.f("ix_targets_name"), table_name="targets")
    op.drop_table("targets")
    op.drop_table("schemas")
