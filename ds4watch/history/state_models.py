"""Tables of state.db, named for people who query them by hand. All instants are UTC."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)

from ds4watch.history.columns import BigId, Document, Instant, Number

STATE = MetaData()

workers = Table(
    "workers",
    STATE,
    Column("id", String(63), primary_key=True),
    Column("profile", String(63), nullable=False),
    Column("pid", Integer),
    Column("url", Text, nullable=False),
    Column("phase", String(16), nullable=False),
    Column("since", Instant, nullable=False),
    Column("reason", Text, nullable=False),
)

alerts = Table(
    "alerts",
    STATE,
    Column("rule_id", String(16), primary_key=True),
    Column("fingerprint", String(16), primary_key=True),
    Column("name", String(255), nullable=False),
    Column("tier", String(16), nullable=False),
    Column("phase", String(16), nullable=False),
    Column("value", Number, nullable=False),
    Column("active_at", Instant, nullable=False),
    Column("fired_at", Instant),
    Column("keep_firing_since", Instant),
    Column("last_sent_at", Instant),
    Column("resolved_at", Instant),
    Column("held", Boolean, nullable=False),
    Column("labels", Document, nullable=False),
    Column("annotations", Document, nullable=False),
)

alert_events = Table(
    "alert_events",
    STATE,
    Column("id", BigId, primary_key=True),
    Column("at", Instant, nullable=False, index=True),
    Column("fingerprint", String(16), nullable=False, index=True),
    Column("name", String(255), nullable=False),
    Column("tier", String(16), nullable=False),
    Column("old", String(16), nullable=False),
    Column("new", String(16), nullable=False),
    Column("value", Number, nullable=False),
    Column("reason", Text, nullable=False),
    Column("labels", Document, nullable=False),
    Column("annotations", Document, nullable=False),
)

actions = Table(
    "actions",
    STATE,
    Column("id", String(255), primary_key=True),
    Column("kind", String(32), nullable=False),
    Column("target", String(255), nullable=False),
    Column("cause", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("status", String(16), nullable=False, index=True),
    Column("planned_at", Instant, nullable=False),
    Column("started_at", Instant),
    Column("finished_at", Instant),
    Column("took_seconds", Float),
    Column("parameters", Document, nullable=False),
    Column("before", Document, nullable=False),
    Column("after", Document, nullable=False),
    Column("detail", Text, nullable=False),
    Column("dry_run", Boolean, nullable=False),
    Column("undoes", String(255)),
)

audit = Table(
    "audit",
    STATE,
    Column("id", BigId, primary_key=True),
    Column("at", Instant, nullable=False, index=True),
    Column("kind", String(16), nullable=False),
    Column("subject", String(255), nullable=False),
    Column("who", String(255), nullable=False),
    Column("summary", Text, nullable=False),
    Column("detail", Document, nullable=False),
)
Index("ix_audit_kind_id", audit.c.kind, audit.c.id)

outbox = Table(
    "outbox",
    STATE,
    Column("id", BigId, primary_key=True),
    Column("created_at", Instant, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("fingerprint", String(16), nullable=False),
    Column("payload", Document, nullable=False),
    Column("status", String(16), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_at", Instant, nullable=False),
    Column("finished_at", Instant),
    Column("error", Text),
)
Index("ix_outbox_status_id", outbox.c.status, outbox.c.id)

holds = Table(
    "holds",
    STATE,
    Column("id", BigId, primary_key=True),
    Column("target", String(255), nullable=False, index=True),
    Column("until_at", Instant, nullable=False),
    Column("who", String(255), nullable=False),
    Column("why", Text, nullable=False),
    Column("placed_at", Instant, nullable=False),
    Column("lifted_at", Instant),
    Column("lifted_by", String(255)),
)

silences = Table(
    "silences",
    STATE,
    Column("id", String(36), primary_key=True),
    Column("matchers", Document, nullable=False),
    Column("starts_at", Instant, nullable=False),
    Column("ends_at", Instant, nullable=False),
    Column("who", String(255), nullable=False),
    Column("why", Text, nullable=False),
)

cost_hourly = Table(
    "cost_hourly",
    STATE,
    Column("hour_at", Instant, primary_key=True),
    Column("worker", String(63), primary_key=True),
    Column("profile", String(63), primary_key=True),
    Column("part", String(32), primary_key=True),
    Column("nanos", BigInteger, nullable=False),
)

requests_hourly = Table(
    "requests_hourly",
    STATE,
    Column("hour_at", Instant, primary_key=True),
    Column("key", String(255), primary_key=True),
    Column("model", String(255), primary_key=True),
    Column("worker", String(63), primary_key=True),
    Column("outcome", String(16), primary_key=True),
    Column("requests", BigInteger, nullable=False),
    # Of these, requests whose tokens were estimated, and those whose tokens are not known.
    Column("estimated", BigInteger, nullable=False),
    Column("unmetered", BigInteger, nullable=False),
    Column("prompt_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("completion_tokens", BigInteger, nullable=False),
    Column("retries", BigInteger, nullable=False),
)

retries_hourly = Table(
    "retries_hourly",
    STATE,
    Column("hour_at", Instant, primary_key=True),
    Column("worker", String(63), primary_key=True),
    Column("reason", String(16), primary_key=True),
    Column("retries", BigInteger, nullable=False),
)

spool_offsets = Table(
    "spool_offsets",
    STATE,
    Column("gateway", String(63), primary_key=True),
    Column("offset_bytes", BigInteger, nullable=False),
)

quality_runs = Table(
    "quality_runs",
    STATE,
    Column("id", BigId, primary_key=True),
    Column("at", Instant, nullable=False),
    Column("profile", String(63), nullable=False),
    Column("reference", String(63), nullable=False),
    Column("metric", String(63), nullable=False),
    Column("value", Number),
    Column("prompts", Integer, nullable=False),
    Column("tokens", Integer, nullable=False),
    Column("took_seconds", Float, nullable=False),
    Column("error", Text, nullable=False),
)
Index("ix_quality_runs_latest", quality_runs.c.profile, quality_runs.c.reference, quality_runs.c.id)

meta = Table(
    "meta",
    STATE,
    Column("name", String(63), primary_key=True),
    Column("value", Document, nullable=False),
)
