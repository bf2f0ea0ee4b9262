"""Tables of the ledger: money, tokens and requests by the hour. All instants are UTC."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    Table,
)

from ds4watch.history.columns import Instant, Name
from ds4watch.history.state_models import STATE

cost_hourly = Table(
    "cost_hourly",
    STATE,
    Column("hour_at", Instant, primary_key=True),
    Column("worker", Name(63), primary_key=True),
    Column("profile", Name(63), primary_key=True),
    Column("part", Name(32), primary_key=True),
    Column("nanos", BigInteger, nullable=False),
)

# What was paid for workers, at which price: sums of nanos are those of cost_hourly.
paid_hourly = Table(
    "paid_hourly",
    STATE,
    Column("hour_at", Instant, primary_key=True),
    Column("worker", Name(63), primary_key=True),
    Column("profile", Name(63), primary_key=True),
    Column("nanos_per_hour", BigInteger, primary_key=True, autoincrement=False),
    Column("paid_ms", BigInteger, nullable=False),
    Column("nanos", BigInteger, nullable=False),
)

# cost_hourly in the parts of ds4watch.cost.parts; made anew from it and work_hourly each minute.
cost_parts_hourly = Table(
    "cost_parts_hourly",
    STATE,
    Column("hour_at", Instant, primary_key=True),
    Column("worker", Name(63), primary_key=True),
    Column("profile", Name(63), primary_key=True),
    Column("part", Name(32), primary_key=True),
    Column("method", Name(16), primary_key=True),
    Column("nanos", BigInteger, nullable=False),
)

# What requests took of workers, by the length of their prompts; fields of model.work.Work.
work_hourly = Table(
    "work_hourly",
    STATE,
    Column("hour_at", Instant, primary_key=True),
    Column("worker", Name(63), primary_key=True),
    Column("profile", Name(63), primary_key=True),
    Column("band", Name(16), primary_key=True),
    Column("requests", BigInteger, nullable=False),
    Column("prompt_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("again_tokens", BigInteger, nullable=False),
    Column("completion_tokens", BigInteger, nullable=False),
    Column("held_ms", BigInteger, nullable=False),
    Column("prefill_ms", BigInteger, nullable=False),
    Column("decode_ms", BigInteger, nullable=False),
    Column("wasted_ms", BigInteger, nullable=False),
    Column("kv_token_ms", BigInteger, nullable=False),
)

storage_hourly = Table(
    "storage_hourly",
    STATE,
    Column("hour_at", Instant, primary_key=True),
    # history, logs, kv_offload
    Column("what", Name(32), primary_key=True),
    Column("nanos_per_gb_hour", BigInteger, primary_key=True, autoincrement=False),
    Column("byte_seconds", BigInteger, nullable=False),
)

requests_hourly = Table(
    "requests_hourly",
    STATE,
    Column("hour_at", Instant, primary_key=True),
    Column("key", Name(255), primary_key=True),
    Column("model", Name(255), primary_key=True),
    Column("worker", Name(63), primary_key=True),
    Column("profile", Name(63), primary_key=True),
    Column("work_class", Name(63), primary_key=True),
    Column("outcome", Name(16), primary_key=True),
    Column("requests", BigInteger, nullable=False),
    # Of these, requests whose tokens were estimated, and those whose tokens are not known.
    Column("estimated", BigInteger, nullable=False),
    Column("unmetered", BigInteger, nullable=False),
    Column("prompt_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("completion_tokens", BigInteger, nullable=False),
    # As the worker's counter has them: once for each answer (`n`) to a prompt.
    Column("worker_prompt_tokens", BigInteger, nullable=False),
    Column("retries", BigInteger, nullable=False),
    # Of these, requests that the policy changed or shed, and those whose answer was filtered.
    Column("degraded", BigInteger, nullable=False),
    Column("filtered", BigInteger, nullable=False),
    # Where their time went, as model.usage.Stages has it.
    Column("queue_seconds", Float, nullable=False),
    Column("lost_seconds", Float, nullable=False),
    Column("prefill_seconds", Float, nullable=False),
    Column("decode_seconds", Float, nullable=False),
    Column("unsplit_seconds", Float, nullable=False),
)

own_requests_hourly = Table(
    "own_requests_hourly",
    STATE,
    Column("hour_at", Instant, primary_key=True),
    Column("worker", Name(63), primary_key=True),
    # canary, warm_up, quality
    Column("work", Name(16), primary_key=True),
    Column("requests", BigInteger, nullable=False),
    Column("prompt_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("completion_tokens", BigInteger, nullable=False),
)

retries_hourly = Table(
    "retries_hourly",
    STATE,
    Column("hour_at", Instant, primary_key=True),
    Column("worker", Name(63), primary_key=True),
    Column("reason", Name(16), primary_key=True),
    Column("retries", BigInteger, nullable=False),
)

spool_offsets = Table(
    "spool_offsets",
    STATE,
    Column("gateway", Name(63), primary_key=True),
    Column("offset_bytes", BigInteger, nullable=False),
)
