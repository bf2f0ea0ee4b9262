"""Requests, tokens and money: what goes into the ledger and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass

from ds4watch.model.money import Nanos
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.usage import RequestOutcome, RequestRecord, RetryReason, Usage
from ds4watch.model.work import Place, Work


@dataclass(frozen=True, slots=True)
class CostRow:
    """Money to add to, or the sum of, an hour of a worker; `part` says what it was spent on."""

    hour_at: UnixSeconds
    worker: str
    profile: str
    part: str
    nanos: Nanos


@dataclass(frozen=True, slots=True)
class PaidRow:
    """Time of a worker that was paid for, and at which price; to be added to an hour."""

    hour_at: UnixSeconds
    worker: str
    profile: str
    nanos_per_hour: Nanos
    paid_ms: int
    nanos: Nanos


@dataclass(frozen=True, slots=True)
class PlacedWork:
    """What an hour's requests took of a worker, of prompts of one band."""

    hour_at: UnixSeconds
    place: Place
    work: Work


@dataclass(frozen=True, slots=True)
class StorageRow:
    """What was kept in an hour: bytes times seconds, at one price; to be added to it, or a sum."""

    hour_at: UnixSeconds
    what: str
    nanos_per_gb_hour: Nanos
    byte_seconds: int


@dataclass(frozen=True, slots=True)
class WorkRow:
    """Tokens of an hour's requests of one key and model."""

    hour_at: UnixSeconds
    key: str
    model: str
    requests: int
    usage: Usage


@dataclass(frozen=True, slots=True)
class OwnRow:
    """What requests of our own to a worker used, to be added to an instant's hour."""

    at: UnixSeconds
    worker: str
    work: str
    requests: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class SpoolBatch:
    """Requests read from a gateway's spool between two byte offsets."""

    gateway: str
    start_bytes: int
    end_bytes: int
    records: tuple[RequestRecord, ...]


@dataclass(frozen=True, slots=True)
class RequestTotal:
    """Requests since the ledger began, of one outcome and model."""

    outcome: RequestOutcome
    model: str
    requests: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class RequestTotals:
    """What the gateway's counters go on from after a restart."""

    requests: tuple[RequestTotal, ...] = ()
    retries: tuple[tuple[RetryReason, int], ...] = ()
