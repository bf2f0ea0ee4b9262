"""Deletes raw scrapes that a chunk has, or that are older than they are kept.

What is to go is only marked at first: all of a target up to its `folded_id`. Then it is deleted in
the order in which it was written, page by page, however many targets share a page; that takes a
tenth of what deleting target by target does.

SQLite gives the highest id anew if its row is deleted. So as long as there is a mark, the newest
row stays; it goes together with the marks.
"""

from __future__ import annotations

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    ScalarSelect,
    delete,
    func,
    select,
    update,
)

from ds4watch.history.pace import Pace
from ds4watch.history.sample_models import scrapes, targets

_IDS_PER_SLICE = 1000
_NOT_ABOVE = select(func.max(targets.c.folded_id)).scalar_subquery()


def live(target_id: int | BindParameter[int]) -> ColumnElement[bool]:
    """Return the condition for the raw scrapes of a target that are not to go."""
    return (scrapes.c.target_id == target_id) & (scrapes.c.id > mark_of(target_id))


def mark_of(target_id: int | BindParameter[int]) -> ScalarSelect[int]:
    """Return the query for the id up to which a target's scrapes are to go."""
    return select(targets.c.folded_id).where(targets.c.id == target_id).scalar_subquery()


def mark(connection: Connection, target_id: int, last_id: int) -> None:
    """Let all scrapes of a target up to `last_id` go."""
    connection.execute(
        update(targets)
        .where(targets.c.id == target_id, targets.c.folded_id < last_id)
        .values(folded_id=last_id)
    )


async def sweep(pace: Pace) -> None:
    """Delete all that is marked, in slices."""
    start_id = await pace.read(_first_id)
    while start_id is not None:
        start_id = await pace.write(_sweep_slice, start_id)


def _first_id(connection: Connection) -> int | None:
    marked = select(targets.c.id).where(targets.c.folded_id > 0).limit(1)
    if connection.execute(marked).first() is None:
        return None
    return connection.execute(select(func.min(scrapes.c.id))).scalar() or 0


def _sweep_slice(connection: Connection, start_id: int) -> int | None:
    """Delete what is marked from `start_id` on; return where to go on, None at the end."""
    end_id = start_id + _IDS_PER_SLICE
    if connection.execute(select(_NOT_ABOVE)).scalar_one() < end_id:
        connection.execute(delete(scrapes).where(scrapes.c.id >= start_id, _is_marked()))
        connection.execute(update(targets).where(targets.c.folded_id > 0).values(folded_id=0))
        return None
    newest = select(func.max(scrapes.c.id)).scalar_subquery()
    connection.execute(
        delete(scrapes).where(
            scrapes.c.id >= start_id, scrapes.c.id < end_id, scrapes.c.id < newest, _is_marked()
        )
    )
    following = select(func.min(scrapes.c.id)).where(scrapes.c.id >= end_id)
    return connection.execute(following).scalar() or end_id


def _is_marked() -> ColumnElement[bool]:
    mine = select(targets.c.folded_id).where(targets.c.id == scrapes.c.target_id)
    return (scrapes.c.id <= _NOT_ABOVE) & (scrapes.c.id <= mine.scalar_subquery())
