"""Alembic's entry for the state database: works on the connection that ds4watch hands over."""

from __future__ import annotations

from alembic import context

from ds4watch.history.state_tables import STATE

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=STATE,
    # Both engines can roll back DDL, and the transaction is ours: a crash leaves the old schema.
    transactional_ddl=True,
)
context.run_migrations()
