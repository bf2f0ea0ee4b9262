"""The schemas of pages, numbered: a number means the same series for ever."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from threading import Lock
from typing import Any

from ds4watch.model.series import Schema, SeriesKey


class SchemaTable:
    """Every schema known, in memory; numbers go up from the highest that was stored.

    `intern` is called where scrapes are parsed, `unsaved` and `saved` by the writer's thread.
    """

    def __init__(self, stored: Iterable[Schema] = ()) -> None:
        self._lock = Lock()
        self._by_id: dict[int, Schema] = {schema.id: schema for schema in stored}
        self._by_digest = {digest_of(schema.series): schema for schema in self._by_id.values()}
        self._next_id = max(self._by_id, default=0) + 1
        self._unsaved: set[int] = set()

    def intern(self, series: tuple[SeriesKey, ...]) -> Schema:
        """Return the schema of `series`, numbering it if it is new."""
        digest = digest_of(series)
        with self._lock:
            known = self._by_digest.get(digest)
            if known is not None:
                return known
            schema = Schema(self._next_id, series)
            self._next_id += 1
            self._by_id[schema.id] = self._by_digest[digest] = schema
            self._unsaved.add(schema.id)
            return schema

    def get(self, schema_id: int) -> Schema:
        """Return a schema by its number. Raises KeyError if there is none."""
        return self._by_id[schema_id]

    def unsaved(self) -> list[Schema]:
        """Return what is not in the database yet."""
        with self._lock:
            return [self._by_id[schema_id] for schema_id in sorted(self._unsaved)]

    def saved(self, schemas: Iterable[Schema]) -> None:
        """Note that `schemas` are in the database."""
        with self._lock:
            self._unsaved.difference_update(schema.id for schema in schemas)

    def forget_saved(self) -> None:
        """Note that the database is empty: everything has to be stored again."""
        with self._lock:
            self._unsaved.update(self._by_id)


def digest_of(series: tuple[SeriesKey, ...]) -> str:
    """Return the identity of an ordered list of series."""
    return hashlib.sha256(json.dumps(series_document(series)).encode()).hexdigest()


def series_document(series: tuple[SeriesKey, ...]) -> list[list[Any]]:
    """Return `series` as JSON: [name, {label: value}] pairs, in order."""
    return [[key.name, dict(key.labels)] for key in series]


def series_from(document: Iterable[tuple[str, dict[str, str]]]) -> tuple[SeriesKey, ...]:
    """Read what `series_document` made."""
    return tuple(SeriesKey(name, tuple(labels.items())) for name, labels in document)
