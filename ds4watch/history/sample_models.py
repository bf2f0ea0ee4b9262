"""Tables of samples.db."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    text,
)

from ds4watch.history.columns import BigId, Document, Name, Words

SAMPLES = MetaData()

schemas = Table(
    "schemas",
    SAMPLES,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("digest", Name(64), nullable=False, unique=True),
    Column("series", Document, nullable=False),
)

targets = Table(
    "targets",
    SAMPLES,
    Column("id", Integer, primary_key=True),
    Column("name", Name(255), nullable=False, index=True),
    Column("url", Words, nullable=False),
    Column("labels", Document, nullable=False),
)

scrapes = Table(
    "scrapes",
    SAMPLES,
    # Rows are decoded in the order of their ids, whatever the clock did.
    Column("id", BigId, primary_key=True),
    Column("target_id", Integer, ForeignKey("targets.id"), nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("took_ms", Integer, nullable=False),
    Column("schema_id", Integer, nullable=False),
    Column("keyframe", Boolean, nullable=False),
    Column("payload", LargeBinary, nullable=True),
    Column("failure", Name(16), nullable=True),
    Column("message", Words, nullable=True),
)
Index("ix_scrapes_target_at", scrapes.c.target_id, scrapes.c.at_ms)
Index(
    "ix_scrapes_keyframes",
    scrapes.c.target_id,
    scrapes.c.at_ms,
    scrapes.c.id,
    sqlite_where=text("keyframe = 1"),
    postgresql_where=text("keyframe"),
)
