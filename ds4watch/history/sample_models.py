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
    Column("group_name", Name(255), nullable=False, server_default="fleet"),
    # Scrapes up to this one are in chunks, or too old: they are about to be deleted.
    Column("folded_id", BigInteger, nullable=False, server_default="0"),
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
    Column("page_samples", Integer, nullable=True),
    Column("payload_bytes", Integer, nullable=False, server_default="0"),
)
# Beside the order of a target's scrapes, all that statistics ask for.
Index(
    "ix_scrapes_target",
    scrapes.c.target_id,
    scrapes.c.id,
    scrapes.c.at_ms,
    scrapes.c.schema_id,
    scrapes.c.payload_bytes,
)
# On PostgreSQL it is as partial; to say so here would load its dialect wherever there is none.
Index(
    "ix_scrapes_keyframes",
    scrapes.c.target_id,
    scrapes.c.at_ms,
    scrapes.c.id,
    sqlite_where=text("keyframe = 1"),
)

chunks = Table(
    "chunks",
    SAMPLES,
    Column("id", BigId, primary_key=True),
    Column("target_id", Integer, ForeignKey("targets.id"), nullable=False),
    # 0 where every scrape failed.
    Column("schema_id", Integer, nullable=False, index=True),
    Column("start_ms", BigInteger, nullable=False),
    Column("end_ms", BigInteger, nullable=False),
    Column("rows", Integer, nullable=False),
    Column("samples", BigInteger, nullable=False),
    Column("checksum", BigInteger, nullable=False),
    Column("payload_bytes", Integer, nullable=False),
    Column("payload", LargeBinary, nullable=False),
)
Index(
    "ix_chunks_target_end",
    chunks.c.target_id,
    chunks.c.end_ms,
    chunks.c.start_ms,
    chunks.c.rows,
    chunks.c.samples,
    chunks.c.payload_bytes,
)

rollups = Table(
    "rollups",
    SAMPLES,
    Column("id", BigId, primary_key=True),
    Column("target_id", Integer, ForeignKey("targets.id"), nullable=False),
    Column("schema_id", Integer, nullable=False, index=True),
    Column("resolution_seconds", Integer, nullable=False),
    Column("start_ms", BigInteger, nullable=False),
    Column("end_ms", BigInteger, nullable=False),
    Column("buckets", Integer, nullable=False),
    # Whether the next coarser resolution has it.
    Column("settled", Boolean, nullable=False),
    Column("checksum", BigInteger, nullable=False),
    Column("payload_bytes", Integer, nullable=False),
    Column("payload", LargeBinary, nullable=False),
)
Index(
    "ix_rollups_target_end",
    rollups.c.target_id,
    rollups.c.resolution_seconds,
    rollups.c.end_ms,
    rollups.c.buckets,
    rollups.c.payload_bytes,
)
Index(
    "ix_rollups_unsettled",
    rollups.c.resolution_seconds,
    rollups.c.target_id,
    rollups.c.start_ms,
    sqlite_where=text("settled = 0"),
)
