"""Chunks and roll-ups; rows found by their order; what a target's group and page were.

Down, chunks become rows again, as many as that takes seconds for; roll-ups are dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

from ds4watch.history.chunk_codec import unpack_chunks
from ds4watch.history.codec import NewRow, pack_rows
from ds4watch.model.errors import ConfigError, Located

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_log = logging.getLogger(__name__)
_MOST_ROWS = 500_000
_BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column(
        "targets",
        sa.Column("group_name", sa.String(length=255), nullable=False, server_default="fleet"),
    )
    op.add_column(
        "targets", sa.Column("folded_id", sa.BigInteger(), nullable=False, server_default="0")
    )
    op.add_column("scrapes", sa.Column("page_samples", sa.Integer(), nullable=True))
    op.add_column(
        "scrapes", sa.Column("payload_bytes", sa.Integer(), nullable=False, server_default="0")
    )
    op.execute("UPDATE scrapes SET payload_bytes = length(payload) WHERE payload IS NOT NULL")
    op.create_index(
        "ix_scrapes_target",
        "scrapes",
        ["target_id", "id", "at_ms", "schema_id", "payload_bytes"],
        unique=False,
    )
    op.drop_index("ix_scrapes_target_at", table_name="scrapes")
    op.create_table(
        "chunks",
        sa.Column("id", _BIG_ID, nullable=False),
        sa.Column("target_id", sa.Integer(), nullable=False),
        sa.Column("schema_id", sa.Integer(), nullable=False),
        sa.Column("start_ms", sa.BigInteger(), nullable=False),
        sa.Column("end_ms", sa.BigInteger(), nullable=False),
        sa.Column("rows", sa.Integer(), nullable=False),
        sa.Column("samples", sa.BigInteger(), nullable=False),
        sa.Column("checksum", sa.BigInteger(), nullable=False),
        sa.Column("payload_bytes", sa.Integer(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["target_id"], ["targets.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_chunks_schema_id"), "chunks", ["schema_id"], unique=False)
    op.create_index(
        "ix_chunks_target_end",
        "chunks",
        ["target_id", "end_ms", "start_ms", "rows", "samples", "payload_bytes"],
        unique=False,
    )
    op.create_table(
        "rollups",
        sa.Column("id", _BIG_ID, nullable=False),
        sa.Column("target_id", sa.Integer(), nullable=False),
        sa.Column("schema_id", sa.Integer(), nullable=False),
        sa.Column("resolution_seconds", sa.Integer(), nullable=False),
        sa.Column("start_ms", sa.BigInteger(), nullable=False),
        sa.Column("end_ms", sa.BigInteger(), nullable=False),
        sa.Column("buckets", sa.Integer(), nullable=False),
        sa.Column("settled", sa.Boolean(), nullable=False),
        sa.Column("checksum", sa.BigInteger(), nullable=False),
        sa.Column("payload_bytes", sa.Integer(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["target_id"], ["targets.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_rollups_schema_id"), "rollups", ["schema_id"], unique=False)
    op.create_index(
        "ix_rollups_target_end",
        "rollups",
        ["target_id", "resolution_seconds", "end_ms", "buckets", "payload_bytes"],
        unique=False,
    )
    op.create_index(
        "ix_rollups_unsettled",
        "rollups",
        ["resolution_seconds", "target_id", "start_ms"],
        unique=False,
        sqlite_where=sa.text("settled = 0"),
        postgresql_where=sa.text("NOT settled"),
    )


def downgrade() -> None:
    connection = op.get_bind()
    # The tables as they are now, whatever a later version makes of the models.
    tables = sa.MetaData()
    tables.reflect(connection, only=["chunks", "scrapes"])
    _unfold(connection, tables.tables["chunks"], tables.tables["scrapes"])
    op.drop_table("rollups")
    op.drop_table("chunks")
    op.create_index("ix_scrapes_target_at", "scrapes", ["target_id", "at_ms"], unique=False)
    op.drop_index("ix_scrapes_target", table_name="scrapes")
    op.drop_column("scrapes", "payload_bytes")
    op.drop_column("scrapes", "page_samples")
    op.drop_column("targets", "folded_id")
    op.drop_column("targets", "group_name")


def _unfold(connection: sa.Connection, chunks: sa.Table, scrapes: sa.Table) -> None:
    rows = int(connection.execute(sa.select(sa.func.sum(chunks.c.rows))).scalar() or 0)
    if rows > _MOST_ROWS:
        raise ConfigError(
            Located(
                f"{rows} scrapes are folded: too many to write each out again",
                field="samples",
                mend="prune the history to the last hours first, or move the file away",
            )
        )
    connection.exec_driver_sql(
        "DELETE FROM scrapes WHERE id <="
        " (SELECT folded_id FROM targets WHERE targets.id = scrapes.target_id)"
    )
    # Rows are decoded in the order of their ids, so the old ones have to come first.
    connection.execute(sa.update(scrapes).values(id=-scrapes.c.id))
    unfolded = 0
    ordered = sa.select(chunks.c.id).order_by(chunks.c.start_ms, chunks.c.id)
    for chunk_id in list(connection.scalars(ordered)):
        chunk = connection.execute(sa.select(chunks).where(chunks.c.id == chunk_id)).one()
        try:
            found = list(_rows(chunk, unfolded + 1))
        except ValueError as error:
            _log.warning("chunk %s is damaged and left out: %s", chunk_id, error)
            continue
        connection.execute(sa.insert(scrapes), found)
        unfolded += len(found)
    raw = sa.update(scrapes).where(scrapes.c.id < 0)
    connection.execute(raw.values(id=unfolded - scrapes.c.id))
    if connection.dialect.name == "postgresql":
        _go_on_counting(connection)


def _go_on_counting(connection: sa.Connection) -> None:
    """Let PostgreSQL's sequence go on after the ids given here."""
    connection.exec_driver_sql(
        "SELECT setval(pg_get_serial_sequence('scrapes', 'id'),"
        " (SELECT coalesce(max(id), 1) FROM scrapes))"
    )


def _rows(chunk: sa.Row[Any], next_id: int) -> Iterator[dict[str, Any]]:
    (scrapes,) = unpack_chunks([chunk.payload])
    if isinstance(scrapes, ValueError):
        raise scrapes
    good = iter(scrapes.values)
    state = None
    times = zip(scrapes.times_ms.tolist(), scrapes.took_ms.tolist(), strict=True)
    for place, (at_ms, took_ms) in enumerate(times):
        row: dict[str, Any] = {
            "id": next_id + place,
            "target_id": chunk.target_id,
            "at_ms": at_ms,
            "took_ms": took_ms,
            "schema_id": chunk.schema_id,
            "keyframe": False,
            "payload": None,
            "failure": None,
            "message": None,
        }
        if failure := scrapes.failures.get(place):
            row |= {"failure": failure.reason.value, "message": failure.message}
        else:
            [(packed, state)] = pack_rows([NewRow(chunk.schema_id, at_ms, next(good), state)])
            row |= {"keyframe": packed.keyframe, "payload": packed.payload}
        yield row
