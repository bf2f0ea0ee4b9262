from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import psycopg
from sqlalchemy import Engine, create_engine

from ds4watch.history.columns import json_text
from ds4watch.history.migrate import Which
from ds4watch.history.place import Place, Server
from ds4watch.model.errors import EdgeReason
from ds4watch.model.scrape import ScrapeFailure, ScrapeResult, Target
from ds4watch.model.series import SeriesKey

NOW = 1_800_000_000.0
W1 = Target("w1", "http://127.0.0.1:8101/metrics", (("job", "vllm"), ("worker", "w1")))
W2 = Target("w2", "http://127.0.0.1:8102/metrics", (("job", "vllm"), ("worker", "w2")))
AB = (SeriesKey("a"), SeriesKey("b", (("x", "1"),)))


class FixedClock:
    def now(self) -> float:
        return NOW

    def monotonic(self) -> float:
        return 0.0


class Base(Protocol):
    """One of the two databases on one engine, as the test, and a person, gets at it."""

    @property
    def place(self) -> Place: ...

    @property
    def argument(self) -> str:
        """The place as an argument for a program; `place_from` reads it."""

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """What a person sees who asks by hand; instants as ISO text."""

    def execute(self, sql: str) -> None:
        """What a person does by hand."""

    def writing(self) -> AbstractContextManager[None]:
        """Be another program that writes."""

    def reading(self, sql: str) -> AbstractContextManager[None]:
        """Be another program that reads, in a transaction that stays open."""

    def engine(self) -> Engine:
        """Return a plain engine, to be disposed of."""


@dataclass(frozen=True)
class SqliteBase:
    path: Path

    @property
    def place(self) -> Place:
        return self.path

    @property
    def argument(self) -> str:
        return str(self.path)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        return query(self.path, sql)

    def execute(self, sql: str) -> None:
        query(self.path, sql)

    @contextmanager
    def writing(self) -> Iterator[None]:
        with closing(sqlite3.connect(self.path)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield
            other.rollback()

    @contextmanager
    def reading(self, sql: str) -> Iterator[None]:
        with closing(sqlite3.connect(self.path)) as other:
            other.execute("BEGIN")
            before = other.execute(sql).fetchall()
            yield
            assert other.execute(sql).fetchall() == before

    def engine(self) -> Engine:
        return create_engine(f"sqlite:///{self.path}", json_serializer=json_text)


@dataclass(frozen=True)
class PostgresBase:
    url: str
    which: Which

    @property
    def place(self) -> Place:
        return Server(self.url)

    @property
    def argument(self) -> str:
        return self.url

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        with closing(self._connect()) as connection:
            cursor = connection.execute(sql.encode())
            rows = cursor.fetchall() if cursor.description else []
            return [tuple(_iso(value) for value in row) for row in rows]

    def execute(self, sql: str) -> None:
        self.query(sql)

    @contextmanager
    def writing(self) -> Iterator[None]:
        with closing(self._connect()) as other, other.transaction(force_rollback=True):
            other.execute("SELECT pg_advisory_xact_lock(%s)", (self.which.lock_key,))
            yield

    @contextmanager
    def reading(self, sql: str) -> Iterator[None]:
        with closing(self._connect()) as other, other.transaction():
            other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            before = other.execute(sql.encode()).fetchall()
            yield
            assert other.execute(sql.encode()).fetchall() == before

    def engine(self) -> Engine:
        url = self.url.replace("postgresql://", "postgresql+psycopg://")
        options = {"options": f"-csearch_path={self.which.schema} -cTimeZone=UTC"}
        return create_engine(url, connect_args=options, json_serializer=json_text)

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        options = f"-csearch_path={self.which.schema} -cTimeZone=UTC"
        return psycopg.connect(self.url, autocommit=True, options=options)


@dataclass(frozen=True)
class Bases:
    """Both databases on one engine."""

    samples: Base
    state: Base

    def of(self, which: Which) -> Base:
        return self.samples if which is Which.SAMPLES else self.state


def place_from(argument: str) -> Place:
    return Server(argument) if argument.startswith("postgresql:") else Path(argument)


def scrape(
    at: float, values: Sequence[float], *, schema_id: int = 1, target: Target = W1
) -> ScrapeResult:
    array = np.array(values, dtype=np.float64)
    return ScrapeResult(target, at, schema_id, array, took_seconds=0.25)


def failed(at: float, *, target: Target = W1, message: str = "no answer in 5 s") -> ScrapeResult:
    failure = ScrapeFailure(EdgeReason.TIMEOUT, message)
    return ScrapeResult(target, at, 0, np.empty(0), failure, took_seconds=5.0)


def query(path: Path, sql: str) -> list[tuple[Any, ...]]:
    """What a person sees with the sqlite3 command."""
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute(sql).fetchall()
        connection.commit()
        return found


def _iso(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return value
