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
        "actions",
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("target", sa.String(length=255), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("planned_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("took_seconds", sa.Float(), nullable=True),
        sa.Column("parameters", sa.JSON(), nullable=False),
        sa.Column("before", sa.JSON(), nullable=False),
        sa.Column("after", sa.JSON(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("dry_run", sa.Boolean(), nullable=False),
        sa.Column("undoes", sa.String(length=255), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_actions_status"), "actions", ["status"], unique=False)
    op.create_table(
        "alert_events",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("fingerprint", sa.String(length=16), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("tier", sa.String(length=16), nullable=False),
        sa.Column("old", sa.String(length=16), nullable=False),
        sa.Column("new", sa.String(length=16), nullable=False),
        sa.Column("value", sa.String(length=32), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("annotations", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_alert_events_at"), "alert_events", ["at"], unique=False)
    op.create_index(
        op.f("ix_alert_events_fingerprint"), "alert_events", ["fingerprint"], unique=False
    )
    op.create_table(
        "alerts",
        sa.Column("rule_id", sa.String(length=16), nullable=False),
        sa.Column("fingerprint", sa.String(length=16), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("tier", sa.String(length=16), nullable=False),
        sa.Column("phase", sa.String(length=16), nullable=False),
        sa.Column("value", sa.String(length=32), nullable=False),
        sa.Column("active_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("fired_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("keep_firing_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_sent_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("resolved_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("held", sa.Boolean(), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("annotations", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("rule_id", "fingerprint"),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("subject", sa.String(length=255), nullable=False),
        sa.Column("who", sa.String(length=255), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_audit_at"), "audit", ["at"], unique=False)
    op.create_index("ix_audit_kind_id", "audit", ["kind", "id"], unique=False)
    op.create_table(
        "cost_hourly",
        sa.Column("hour_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("worker", sa.String(length=63), nullable=False),
        sa.Column("profile", sa.String(length=63), nullable=False),
        sa.Column("part", sa.String(length=32), nullable=False),
        sa.Column("nanos", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("hour_at", "worker", "profile", "part"),
    )
    op.create_table(
        "holds",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("target", sa.String(length=255), nullable=False),
        sa.Column("until_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("who", sa.String(length=255), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("placed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("lifted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("lifted_by", sa.String(length=255), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_holds_target"), "holds", ["target"], unique=False)
    op.create_table(
        "meta",
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("value", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "outbox",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("fingerprint", sa.String(length=16), nullable=False),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_outbox_status_id", "outbox", ["status", "id"], unique=False)
    op.create_table(
        "quality_runs",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("profile", sa.String(length=63), nullable=False),
        sa.Column("reference", sa.String(length=63), nullable=False),
        sa.Column("metric", sa.String(length=63), nullable=False),
        sa.Column("value", sa.String(length=32), nullable=True),
        sa.Column("prompts", sa.Integer(), nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("took_seconds", sa.Float(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "ix_quality_runs_latest", "quality_runs", ["profile", "reference", "id"], unique=False
    )
    op.create_table(
        "requests_hourly",
        sa.Column("hour_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("model", sa.String(length=255), nullable=False),
        sa.Column("worker", sa.String(length=63), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=False),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.Column("estimated", sa.BigInteger(), nullable=False),
        sa.Column("unmetered", sa.BigInteger(), nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cached_tokens", sa.BigInteger(), nullable=False),
        sa.Column("completion_tokens", sa.BigInteger(), nullable=False),
        sa.Column("retries", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("hour_at", "key", "model", "worker", "outcome"),
    )
    op.create_table(
        "retries_hourly",
        sa.Column("hour_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("worker", sa.String(length=63), nullable=False),
        sa.Column("reason", sa.String(length=16), nullable=False),
        sa.Column("retries", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("hour_at", "worker", "reason"),
    )
    op.create_table(
        "silences",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("matchers", sa.JSON(), nullable=False),
        sa.Column("starts_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ends_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("who", sa.String(length=255), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "spool_offsets",
        sa.Column("gateway", sa.String(length=63), nullable=False),
        sa.Column("offset_bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("gateway"),
    )
    op.create_table(
        "workers",
        sa.Column("id", sa.String(length=63), nullable=False),
        sa.Column("profile", sa.String(length=63), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=True),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("phase", sa.String(length=16), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )


def downgrade() -> None:
    op.drop_table("workers")
    op.drop_table("spool_offsets")
    op.drop_table("silences")
    op.drop_table("retries_hourly")
    op.drop_table("requests_hourly")
    op.drop_index("ix_quality_runs_latest", table_name="quality_runs")
    op.drop_table("quality_runs")
    op.drop_index("ix_outbox_status_id", table_name="outbox")
    op.drop_table("outbox")
    op.drop_table("meta")
    op.drop_index(op.f("ix_holds_target"), table_name="holds")
    op.drop_table("holds")
    op.drop_table("cost_hourly")
    op.drop_index("ix_audit_kind_id", table_name="audit")
    op.drop_index(op.f("ix_audit_at"), table_name="audit")
    op.drop_table("audit")
    op.drop_table("alerts")
    op.drop_index(op.f("ix_alert_events_fingerprint"), table_name="alert_events")
    op.drop_index(op.f("ix_alert_events_at"), table_name="alert_events")
    op.drop_table("alert_events")
    op.drop_index(op.f("ix_actions_status"), table_name="actions")
    op.drop_table("actions")
