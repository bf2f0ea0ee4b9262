"""Alembic's entry for the samples database: works on the connection that ds4watch hands over."""

from __future__ import annotations

from alembic import context

from ds4watch.history.sample_models import SAMPLES

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=SAMPLES,
    # Both engines can roll back DDL, and the transaction is ours: a crash leaves the old schema.
    transactional_ddl=True,
)
context.run_migrations()
