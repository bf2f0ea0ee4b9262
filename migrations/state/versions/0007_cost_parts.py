"""What requests took of workers by the length of prompts; prices paid; parts; storage.

The view requests_cost_hourly shares money out by the weights that all else goes by: 2 for a token
of a prompt that was computed, 5 for one of an answer.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_COUNTS = (
    "requests",
    "prompt_tokens",
    "cached_tokens",
    "again_tokens",
    "completion_tokens",
    "held_ms",
    "prefill_ms",
    "decode_ms",
    "wasted_ms",
    "kv_token_ms",
)
_NEW_WEIGHT = "2 * (prompt_tokens - cached_tokens) + 5 * completion_tokens"
_OLD_WEIGHT = "prompt_tokens - cached_tokens + 4 * completion_tokens"
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
         {weight} AS weight
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


def _hourly(name: str, keys: tuple[sa.Column, ...], sums: tuple[str, ...]) -> None:
    op.create_table(
        name,
        sa.Column("hour_at", sa.DateTime(timezone=True), nullable=False),
        *keys,
        *(sa.Column(it, sa.BigInteger(), nullable=False) for it in sums),
        sa.PrimaryKeyConstraint("hour_at", *(key.name for key in keys)),
    )


def _name(name: str, length: int = 63) -> sa.Column:
    return sa.Column(name, sa.String(length=length), nullable=False)


def _price(name: str) -> sa.Column:
    return sa.Column(name, sa.BigInteger(), nullable=False, autoincrement=False)


def _view(weight: str) -> None:
    op.execute("DROP VIEW requests_cost_hourly")
    op.execute(_COSTS.format(weight=weight, share=_SHARE[op.get_bind().dialect.name]))


def upgrade() -> None:
    _hourly("work_hourly", (_name("worker"), _name("profile"), _name("band", 16)), _COUNTS)
    _hourly(
        "paid_hourly",
        (_name("worker"), _name("profile"), _price("nanos_per_hour")),
        ("paid_ms", "nanos"),
    )
    _hourly(
        "cost_parts_hourly",
        (_name("worker"), _name("profile"), _name("part", 32), _name("method", 16)),
        ("nanos",),
    )
    _hourly("storage_hourly", (_name("what", 32), _price("nanos_per_gb_hour")), ("byte_seconds",))
    _view(_NEW_WEIGHT)


def downgrade() -> None:
    _view(_OLD_WEIGHT)
    for name in ("storage_hourly", "cost_parts_hourly", "paid_hourly", "work_hourly"):
        op.drop_table(name)
