"""Tables of quality measurements. All instants are UTC."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    Table,
)

from ds4watch.history.columns import BigId, Instant, Name, Number, Words
from ds4watch.history.state_models import STATE

quality_runs = Table(
    "quality_runs",
    STATE,
    Column("id", BigId, primary_key=True),
    Column("at", Instant, nullable=False),
    Column("profile", Name(63), nullable=False),
    Column("reference", Name(63), nullable=False),
    Column("metric", Name(63), nullable=False),
    Column("value", Number),
    Column("prompts", Integer, nullable=False),
    Column("tokens", Integer, nullable=False),
    Column("took_seconds", Float, nullable=False),
    Column("error", Words, nullable=False),
)

Index("ix_quality_runs_latest", quality_runs.c.profile, quality_runs.c.reference, quality_runs.c.id)

golden_runs = Table(
    "golden_runs",
    STATE,
    Column("id", BigId, primary_key=True),
    Column("at", Instant, nullable=False),
    Column("profile", Name(63), nullable=False),
    # Empty: asked of the profile alone.
    Column("reference", Name(63), nullable=False),
    # Of each profile; the same ones for both.
    Column("questions", Integer, nullable=False),
    # Nothing: no limit but the questions.
    Column("budget_nanos", BigInteger),
    Column("spent_nanos", BigInteger, nullable=False),
    Column("who", Name(255), nullable=False),
    Column("why", Words, nullable=False),
    Column("status", Name(16), nullable=False),
    Column("told", Words, nullable=False),
    Column("ended_at", Instant),
)

golden_answers = Table(
    "golden_answers",
    STATE,
    Column("run", BigInteger, primary_key=True, autoincrement=False),
    Column("profile", Name(63), primary_key=True),
    Column("question", Name(63), primary_key=True),
    Column("at", Instant, nullable=False),
    Column("work_class", Name(63), nullable=False),
    Column("is_right", Boolean, nullable=False),
    Column("answer", Words, nullable=False),
    Column("prompt_tokens", Integer, nullable=False),
    Column("completion_tokens", Integer, nullable=False),
    Column("first_token_seconds", Float),
    Column("took_seconds", Float, nullable=False),
    # What the worker cost meanwhile.
    Column("nanos", BigInteger, nullable=False),
)

Index("ix_golden_answers_at", golden_answers.c.at)
