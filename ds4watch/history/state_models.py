"""Tables of the state, named for people who query them by hand. All instants are UTC."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    Table,
)

from ds4watch.history.columns import BigId, Document, Instant, Name, Number, Words

STATE = MetaData()

workers = Table(
    "workers",
    STATE,
    Column("id", Name(63), primary_key=True),
    Column("profile", Name(63), nullable=False),
    Column("pid", Integer),
    Column("url", Words, nullable=False),
    Column("phase", Name(16), nullable=False),
    Column("since", Instant, nullable=False),
    Column("reason", Words, nullable=False),
)

alerts = Table(
    "alerts",
    STATE,
    Column("rule_id", Name(16), primary_key=True),
    Column("fingerprint", Name(16), primary_key=True),
    Column("name", Name(255), nullable=False),
    Column("tier", Name(16), nullable=False),
    Column("phase", Name(16), nullable=False),
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
    Column("fingerprint", Name(16), nullable=False, index=True),
    Column("name", Name(255), nullable=False),
    Column("tier", Name(16), nullable=False),
    Column("old", Name(16), nullable=False),
    Column("new", Name(16), nullable=False),
    Column("value", Number, nullable=False),
    Column("reason", Words, nullable=False),
    Column("labels", Document, nullable=False),
    Column("annotations", Document, nullable=False),
)

actions = Table(
    "actions",
    STATE,
    Column("id", Name(255), primary_key=True),
    Column("kind", Name(32), nullable=False),
    Column("target", Name(255), nullable=False),
    Column("cause", Words, nullable=False),
    Column("reason", Words, nullable=False),
    Column("status", Name(16), nullable=False, index=True),
    Column("planned_at", Instant, nullable=False),
    Column("started_at", Instant),
    Column("finished_at", Instant),
    Column("took_seconds", Float),
    Column("parameters", Document, nullable=False),
    Column("before", Document, nullable=False),
    Column("after", Document, nullable=False),
    Column("detail", Words, nullable=False),
    Column("dry_run", Boolean, nullable=False),
    Column("undoes", Name(255)),
    # Empty: of an older program, and then the target is a pool.
    Column("pool", Name(63), nullable=False, server_default=""),
    Column("who", Name(255), nullable=False, server_default=""),
    # What each guard said, and the values it went by.
    Column("guards", Document, nullable=False, server_default="[]"),
    # A person has to approve of it by then; nothing: nobody needs to.
    Column("expires_at", Instant),
    Column("approvers", Document, nullable=False, server_default="[]"),
    Column("decided_by", Name(255)),
    # Its effect is told by then, and was told then.
    Column("verify_by", Instant),
    Column("verified_at", Instant),
    Column("helped", Boolean),
)

audit = Table(
    "audit",
    STATE,
    Column("id", BigId, primary_key=True),
    Column("at", Instant, nullable=False, index=True),
    Column("kind", Name(16), nullable=False),
    Column("subject", Name(255), nullable=False),
    Column("who", Name(255), nullable=False),
    Column("summary", Words, nullable=False),
    Column("detail", Document, nullable=False),
)
Index("ix_audit_kind_id", audit.c.kind, audit.c.id)

outbox = Table(
    "outbox",
    STATE,
    Column("id", BigId, primary_key=True),
    Column("created_at", Instant, nullable=False),
    Column("kind", Name(16), nullable=False),
    Column("fingerprint", Name(16), nullable=False),
    Column("payload", Document, nullable=False),
    Column("status", Name(16), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_at", Instant, nullable=False),
    Column("finished_at", Instant),
    Column("error", Words),
    # When it was put into the groups of those channels that have groups.
    Column("grouped_at", Instant, index=True),
)
Index("ix_outbox_status_id", outbox.c.status, outbox.c.id)

notify_groups = Table(
    "notify_groups",
    STATE,
    Column("channel", Name(63), primary_key=True),
    Column("key", Name(16), primary_key=True),
    Column("document", Document, nullable=False),
    # By what the channel finds its message again.
    Column("handle", Document, nullable=False),
    # The message that is being sent, or of which nobody knows whether it was.
    Column("trying", Name(63), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_at", Instant, nullable=False),
    Column("error", Words),
)
Index("ix_notify_groups_due", notify_groups.c.channel, notify_groups.c.next_at)

holds = Table(
    "holds",
    STATE,
    Column("id", BigId, primary_key=True),
    Column("target", Name(255), nullable=False, index=True),
    Column("until_at", Instant, nullable=False),
    Column("who", Name(255), nullable=False),
    Column("why", Words, nullable=False),
    Column("placed_at", Instant, nullable=False),
    Column("lifted_at", Instant),
    Column("lifted_by", Name(255)),
)

silences = Table(
    "silences",
    STATE,
    Column("id", Name(36), primary_key=True),
    Column("matchers", Document, nullable=False),
    Column("starts_at", Instant, nullable=False),
    Column("ends_at", Instant, nullable=False),
    Column("who", Name(255), nullable=False),
    Column("why", Words, nullable=False),
    Column("placed_at", Instant),
    # Who ended it before its time.
    Column("ended_by", Name(255)),
)

commands = Table(
    "commands",
    STATE,
    Column("id", BigId, primary_key=True),
    Column("at", Instant, nullable=False),
    Column("kind", Name(32), nullable=False),
    Column("who", Name(255), nullable=False),
    Column("body", Document, nullable=False),
    # waiting, done, refused
    Column("status", Name(16), nullable=False),
    Column("told", Words, nullable=False),
    Column("finished_at", Instant),
)
Index("ix_commands_status_id", commands.c.status, commands.c.id)

given_answers = Table(
    "given_answers",
    STATE,
    # What a request that changes something was answered, by its Idempotency-Key.
    Column("who", Name(255), primary_key=True),
    Column("key", Name(255), primary_key=True),
    Column("request", Name(64), nullable=False),
    Column("at", Instant, nullable=False, index=True),
    Column("status", Integer, nullable=False),
    Column("content_type", Name(127), nullable=False),
    Column("body", Words, nullable=False),
)

jobs = Table(
    "jobs",
    STATE,
    Column("name", Name(63), primary_key=True),
    Column("last_started_at", Instant, nullable=False),
    # Of the last run that ended; nothing while the first one is under way.
    Column("last_finished_at", Instant),
    Column("took_seconds", Float),
    Column("result", Words),
    Column("ok", Boolean),
    Column("last_succeeded_at", Instant),
)

worker_wishes = Table(
    "worker_wishes",
    STATE,
    Column("worker", Name(63), primary_key=True),
    # Nothing: a person leaves it to the settings and to the automatic ones.
    Column("wish", Name(16)),
    Column("restart_at", Instant),
    Column("pardon_at", Instant),
    Column("who", Name(255), nullable=False),
    Column("why", Words, nullable=False),
    Column("at", Instant, nullable=False),
)

start_times = Table(
    "start_times",
    STATE,
    Column("id", BigId, primary_key=True),
    Column("at", Instant, nullable=False),
    Column("profile", Name(63), nullable=False, index=True),
    Column("worker", Name(63), nullable=False),
    Column("took_seconds", Float, nullable=False),
)

rolling_changes = Table(
    "rolling_changes",
    STATE,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("plan", Name(16), nullable=False),
    Column("status", Name(16), nullable=False),
    Column("who", Name(255), nullable=False),
    Column("why", Words, nullable=False),
    Column("begun_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    Column("own", Name(16), nullable=False),
    Column("document", Document, nullable=False),
)

api_keys = Table(
    "api_keys",
    STATE,
    Column("name", Name(63), primary_key=True),
    Column("sha256", Name(64), nullable=False),
    # What requests are signed with; empty if the secret itself is sent.
    Column("signing", Name(64), nullable=False),
    Column("limits", Document, nullable=False),
    Column("budget", Document, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant),
    Column("revoked_at", Instant),
    # The secret before a rotation, as long as it is still good.
    Column("old_sha256", Name(64), nullable=False),
    Column("old_until_at", Instant),
)

meta = Table(
    "meta",
    STATE,
    Column("name", Name(63), primary_key=True),
    Column("value", Document, nullable=False),
)

# Only on PostgreSQL has it a row: which daemon may act, until when by the server's clock.
lease = Table(
    "lease",
    STATE,
    Column("name", Name(16), primary_key=True),
    Column("number", BigInteger, nullable=False, unique=True),
    Column("holder", Name(64), nullable=False),
    Column("host", Name(255), nullable=False),
    Column("admin_url", Words, nullable=False),
    Column("taken_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False),
)
