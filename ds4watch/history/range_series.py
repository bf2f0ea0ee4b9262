"""Which series the store has: told by the pages that were scraped, without a look at a sample."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlalchemy import Connection, bindparam, select

from ds4watch.history.range_choice import Choice
from ds4watch.history.sample_models import chunks, scrapes, targets
from ds4watch.model.scrape import Target
from ds4watch.model.series import Labels, Schema

_LONGEST_CHUNK_MS = 3_600_000
_FOLDED = (
    select(chunks.c.target_id, chunks.c.schema_id)
    .distinct()
    .where(chunks.c.end_ms.between(bindparam("start_ms"), bindparam("last_ms")))
    .where(chunks.c.start_ms <= bindparam("end_ms"))
)
_TAILS = (
    select(scrapes.c.target_id, scrapes.c.schema_id)
    .distinct()
    .join(targets)
    .where(scrapes.c.id > targets.c.folded_id)
    .where(scrapes.c.at_ms.between(bindparam("start_ms"), bindparam("end_ms")))
)


def pages_shown(connection: Connection, start_ms: int, end_ms: int) -> set[tuple[int, int]]:
    """Return which target showed which page in a time, up to what one chunk holds around it."""
    times = {"start_ms": start_ms, "end_ms": end_ms, "last_ms": end_ms + _LONGEST_CHUNK_MS}
    found: set[tuple[int, int]] = set()
    for query in (_FOLDED, _TAILS):
        rows = connection.execute(query, times)
        found.update((target_id, schema_id) for target_id, schema_id in rows)
    return found


def series_shown(
    shown: set[tuple[int, int]],
    choice: Choice,
    stored_targets: Mapping[int, Target],
    stored_schemas: Mapping[int, Schema],
) -> Iterator[Labels]:
    """Yield the labels of the chosen series of these pages; some more than once."""
    for target_id in {target_id for target_id, _ in shown}:
        target = stored_targets.get(target_id)
        if target is not None and choice.wants(target):
            yield from choice.of_scrapes(target).labels
    for target_id, schema_id in shown:
        target, schema = stored_targets.get(target_id), stored_schemas.get(schema_id)
        if target is not None and schema is not None and choice.wants(target):
            yield from choice.of_page(target, schema).labels
