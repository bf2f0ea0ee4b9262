"""Requests by profile and class of work, where their time went, and a view of what they cost."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_KEYS = ("hour_at", "key", "model", "worker", "outcome")
_SUMS = (
    "requests",
    "estimated",
    "unmetered",
    "prompt_tokens",
    "cached_tokens",
    "completion_tokens",
    "retries",
)
_NEW_KEYS = ("profile", "work_class")
_NEW_COUNTS = ("worker_prompt_tokens", "degraded", "filtered")
_NEW_SECONDS = (
    "queue_seconds",
    "lost_seconds",
    "prefill_seconds",
    "decode_seconds",
    "unsplit_seconds",
)

_TO_NEW = """
INSERT INTO requests_hourly (
  hour_at, "key", model, worker, outcome, requests, estimated, unmetered, prompt_tokens,
  cached_tokens, completion_tokens, retries, profile, work_class, worker_prompt_tokens, degraded,
  filtered, queue_seconds, lost_seconds, prefill_seconds, decode_seconds, unsplit_seconds)
SELECT
  hour_at, "key", model, worker, outcome, requests, estimated, unmetered, prompt_tokens,
  cached_tokens, completion_tokens, retries, '', '', prompt_tokens, 0, 0, 0, 0, 0, 0, 0
FROM requests_before
"""
_TO_OLD = """
INSERT INTO requests_hourly (
  hour_at, "key", model, worker, outcome, requests, estimated, unmetered, prompt_tokens,
  cached_tokens, completion_tokens, retries)
SELECT
  hour_at, "key", model, worker, outcome, sum(requests), sum(estimated), sum(unmetered),
  sum(prompt_tokens), sum(cached_tokens), sum(completion_tokens), sum(retries)
FROM requests_before GROUP BY hour_at, "key", model, worker, outcome
"""

# A worker's busy hour, shared out by tokens: floor(nanos * weight / total). The weights are those
# of ds4watch.cost.key_spending. SQLite has no wider integers: there the product is taken apart, and
# is rounded only where an hour has more than three billion tokens.
_SHARE = {
    "sqlite": """
         CAST(busy.nanos / shared.total_weight * shared.weight
              + busy.nanos % shared.total_weight * shared.weight / shared.total_weight
              AS BIGINT)""",
    "postgresql": """
         CAST(div(CAST(busy.nanos AS NUMERIC) * shared.weight, shared.total_weight) AS BIGINT)""",
}
_COSTS = """
CREATE VIEW requests_cost_hourly AS
WITH weighed AS (
  SELECT hour_at, "key", model, worker, profile, work_class, outcome, requests,
         prompt_tokens, cached_tokens, completion_tokens,
         prompt_tokens - cached_tokens + 4 * completion_tokens AS weight
  FROM requests_hourly
), shared AS (
  SELECT weighed.*,
         CAST(sum(weight) OVER (PARTITION BY hour_at, worker) AS BIGINT) AS total_weight
  FROM weighed
), busy AS (
  SELECT hour_at, worker, CAST(sum(nanos) AS BIGINT) AS nanos
  FROM cost_hourly WHERE part IN ('busy', 'prefill', 'decode') GROUP BY hour_at, worker
)
SELECT shared.hour_at, shared."key", shared.model, shared.worker, shared.profile,
       shared.work_class, shared.outcome, shared.requests, shared.prompt_tokens,
       shared.cached_tokens, shared.completion_tokens, shared.weight,
       CASE WHEN shared.total_weight > 0 AND busy.nanos IS NOT NULL
            THEN {share}
            ELSE 0 END AS nanos
FROM shared
LEFT JOIN busy ON busy.hour_at = shared.hour_at AND busy.worker = shared.worker
"""


def _create(*keys: str, counts: tuple[str, ...], seconds: tuple[str, ...] = ()) -> None:
    lengths = {"worker": 63, "profile": 63, "work_class": 63, "outcome": 16}
    op.create_table(
        "requests_hourly",
        sa.Column("hour_at", sa.DateTime(timezone=True), nullable=False),
        *(sa.Column(it, sa.String(length=lengths.get(it, 255)), nullable=False) for it in keys[1:]),
        *(sa.Column(it, sa.BigInteger(), nullable=False) for it in counts),
        *(sa.Column(it, sa.Float(), nullable=False) for it in seconds),
        sa.PrimaryKeyConstraint(*keys),
    )


def _set_aside() -> None:
    # A primary key is changed by making the table anew: SQLite knows no other way.
    op.execute("CREATE TABLE requests_before AS SELECT * FROM requests_hourly")
    op.drop_table("requests_hourly")


def upgrade() -> None:
    _set_aside()
    _create(
        *("hour_at", "key", "model", "worker", *_NEW_KEYS, "outcome"),
        counts=(*_SUMS, *_NEW_COUNTS),
        seconds=_NEW_SECONDS,
    )
    op.execute(_TO_NEW)
    op.drop_table("requests_before")
    op.create_table(
        "own_requests_hourly",
        sa.Column("hour_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("worker", sa.String(length=63), nullable=False),
        sa.Column("work", sa.String(length=16), nullable=False),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cached_tokens", sa.BigInteger(), nullable=False),
        sa.Column("completion_tokens", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("hour_at", "worker", "work"),
    )
    op.execute(_COSTS.format(share=_SHARE[op.get_bind().dialect.name]))


def downgrade() -> None:
    op.execute("DROP VIEW requests_cost_hourly")
    op.drop_table("own_requests_hourly")
    _set_aside()
    _create(*_KEYS, counts=_SUMS)
    op.execute(_TO_OLD)
    op.drop_table("requests_before")
