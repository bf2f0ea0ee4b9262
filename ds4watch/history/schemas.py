"""The schemas of pages, numbered: a number means the same series for ever."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable
from threading import Lock
from typing import Any

from ds4watch.model.series import Schema, SeriesKey


class SchemaTable:
    """Every schema known, in memory; numbers go up from the highest that was stored.

    `intern` is called where scrapes are parsed, `unsaved`, `saved` and `forget` by the writer's
    thread. A schema stays known here when it is deleted on disk: it is stored again with the next
    scrape that shows it.
    """

    def __init__(self, stored: Iterable[tuple[str, Schema]] = ()) -> None:
        self._lock = Lock()
        self._by_digest = dict(stored)
        self._by_id = {schema.id: schema for schema in self._by_digest.values()}
        self._next_id = max(self._by_id, default=0) + 1
        self._unsaved: dict[int, str] = {}

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
            self._unsaved[schema.id] = digest
            return schema

    def get(self, schema_id: int) -> Schema:
        """Return a schema by its number. Raises KeyError if there is none."""
        return self._by_id[schema_id]

    def unsaved(self, among: Iterable[int]) -> list[tuple[str, Schema]]:
        """Return those that are not in the database yet, each with its digest."""
        with self._lock:
            return [
                (self._unsaved[schema_id], self._by_id[schema_id])
                for schema_id in sorted(self._unsaved.keys() & set(among))
            ]

    def saved(self, schemas: Iterable[tuple[str, Schema]]) -> None:
        """Note that `schemas` are in the database."""
        with self._lock:
            for _, schema in schemas:
                self._unsaved.pop(schema.id, None)

    def saved_ids(self) -> set[int]:
        """Return the numbers of those that are in the database."""
        with self._lock:
            return self._by_id.keys() - self._unsaved.keys()

    def forget(self, schema_ids: Collection[int]) -> None:
        """Note that these are no longer in the database."""
        with self._lock:
            for digest, schema in self._by_digest.items():
                if schema.id in schema_ids:
                    self._unsaved[schema.id] = digest

    def forget_saved(self) -> None:
        """Note that the database is empty: everything has to be stored again."""
        self.forget(set(self._by_id))


def digest_of(series: tuple[SeriesKey, ...]) -> str:
    """Return the identity of an ordered list of series."""
    return hashlib.sha256(json.dumps(series_document(series)).encode()).hexdigest()


def series_document(series: tuple[SeriesKey, ...]) -> list[list[Any]]:
    """Return `series` as JSON: [name, {label: value}] pairs, in order."""
    return [[key.name, dict(key.labels)] for key in series]


def series_from(document: Iterable[tuple[str, dict[str, str]]]) -> tuple[SeriesKey, ...]:
    """Read what `series_document` made."""
    return tuple(SeriesKey(name, tuple(labels.items())) for name, labels in document)
