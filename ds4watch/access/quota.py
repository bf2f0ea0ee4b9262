"""Rates and concurrency of a key, a model or a class of work, as one process keeps them. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ds4watch.access.bucket import Bucket
from ds4watch.model.key_limits import KeyLimits


class QuotaKind(StrEnum):
    """Whose quota it is."""

    KEY = "key"
    MODEL = "model"
    WORK_CLASS = "class"


_KINDS = (QuotaKind.KEY, QuotaKind.MODEL, QuotaKind.WORK_CLASS)


@dataclass(frozen=True, slots=True)
class Rates:
    """A quota over all gateway processes; None is no limit."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrency: int | None = None

    @property
    def limit_something(self) -> bool:
        """Whether there is anything to count."""
        return (self.requests_per_minute, self.tokens_per_minute, self.concurrency) != _NOTHING


_NOTHING = (None, None, None)


@dataclass(frozen=True, slots=True)
class OverQuota:
    """A request has to wait: for what, whose quota it is, and how long."""

    kind: QuotaKind
    name: str
    what: str
    retry_after_seconds: float


class Meter:
    """Counts what one name uses up, of this process's even share."""

    __slots__ = ("inflight", "kind", "most_inflight", "name", "rates", "requests", "tokens")

    def __init__(self, kind: QuotaKind, name: str, rates: Rates) -> None:
        self.kind = kind
        self.name = name
        self.rates = rates
        self.inflight = 0
        self.requests: Bucket | None = None
        self.tokens: Bucket | None = None
        self.most_inflight: int | None = None

    def tune(self, rates: Rates, *, processes: int, now: float) -> None:
        """Go by `rates`, of which this process has its share; what was used stays used."""
        self.rates = rates
        self.requests = _tuned(self.requests, rates.requests_per_minute, processes, now)
        self.tokens = _tuned(self.tokens, rates.tokens_per_minute, processes, now)
        most = rates.concurrency
        self.most_inflight = None if most is None else max(1, most // max(1, processes))

    def over(self, tokens: float, now: float) -> OverQuota | None:
        """Return why a request of so many tokens has to wait, None if it may come in."""
        if self.most_inflight is not None and self.inflight >= self.most_inflight:
            return self._over("concurrency", 1.0)
        if self.requests is not None and (wait := self.requests.wait_for(1.0, now)) > 0:
            return self._over("requests per minute", wait)
        if self.tokens is not None and (wait := self.tokens.wait_for(tokens, now)) > 0:
            return self._over("tokens per minute", wait)
        return None

    def enter(self, tokens: float) -> None:
        """Charge one request that was let in."""
        self.inflight += 1
        if self.requests is not None:
            self.requests.take(1.0)
        if self.tokens is not None:
            self.tokens.take(tokens)

    def leave(self, charged: float, used: float) -> None:
        """Note that a request has ended, and what it used in fact."""
        self.inflight -= 1
        if self.tokens is not None:
            self.tokens.settle(charged, used)

    def _over(self, what: str, wait: float) -> OverQuota:
        return OverQuota(self.kind, self.name, what, wait)


def _tuned(bucket: Bucket | None, rate: int | None, processes: int, now: float) -> Bucket | None:
    if rate is None:
        return None
    # A share under one request a minute would never let anything in.
    capacity = max(1.0, rate / max(1, processes))
    if bucket is None:
        return Bucket(capacity, now)
    if bucket.capacity == capacity:
        return bucket
    bucket.wait_for(0.0, now)
    return Bucket(capacity, now, level=bucket.level / bucket.capacity * capacity)


def retuned(
    kind: QuotaKind,
    wanted: Mapping[str, Rates],
    before: Mapping[str, Meter],
    *,
    processes: int,
    now: float,
) -> dict[str, Meter]:
    """Return the meters of `wanted`; those that were there already keep their counts."""
    after: dict[str, Meter] = {}
    for name, rates in wanted.items():
        if rates.limit_something:
            meter = before.get(name) or Meter(kind, name, rates)
            meter.tune(rates, processes=processes, now=now)
            after[name] = meter
    return after


def enter_all(meters: Sequence[Meter], tokens: float, now: float) -> OverQuota | None:
    """Charge all meters, or none and return the first that has no room."""
    for meter in meters:
        over = meter.over(tokens, now)
        if over is not None:
            return over
    for meter in meters:
        meter.enter(tokens)
    return None


class Quotas:
    """The meters of keys, models and classes of work of one process."""

    def __init__(self, models: Mapping[str, Rates], classes: Mapping[str, Rates]) -> None:
        """Keys come with the board: see `tune`."""
        self._models = models
        self._classes = classes
        self._meters: tuple[dict[str, Meter], ...] = ({}, {}, {})
        self.are_set = False
        """Whether there is anything to count."""

    def tune(self, keys: Mapping[str, KeyLimits], processes: int, now: float) -> None:
        """Go by these limits of keys and this number of processes; what was used stays used."""
        wanted = (
            {
                name: Rates(it.requests_per_minute, it.tokens_per_minute, it.concurrency)
                for name, it in keys.items()
            },
            self._models,
            self._classes,
        )
        self._meters = tuple(
            retuned(kind, rates, before, processes=processes, now=now)
            for kind, rates, before in zip(_KINDS, wanted, self._meters, strict=True)
        )
        self.are_set = any(self._meters)

    def take(
        self, names: tuple[str, str, str], tokens: float, now: float
    ) -> tuple[Meter, ...] | OverQuota:
        """Charge a request by the names of its key, model and class; `leave` each in the end."""
        found = tuple(
            meters[name] for meters, name in zip(self._meters, names, strict=True) if name in meters
        )
        return enter_all(found, tokens, now) or found

    def headers(self, key: str, processes: int, now: float) -> dict[str, str] | None:
        """Return what the answer tells of a key's rates, None if it has none."""
        meter = self._meters[0].get(key)
        return None if meter is None else rate_headers(meter, processes, now)


def rate_headers(meter: Meter, processes: int, now: float) -> dict[str, str]:
    """Return OpenAI's `x-ratelimit-*` headers; what remains is told for all processes together."""
    found: dict[str, str] = {}
    for what, bucket, rate in (
        ("requests", meter.requests, meter.rates.requests_per_minute),
        ("tokens", meter.tokens, meter.rates.tokens_per_minute),
    ):
        if bucket is None or rate is None:
            continue
        reset = bucket.full_after(now)
        left = math.floor(max(0.0, bucket.level) * processes)
        found[f"x-ratelimit-limit-{what}"] = str(rate)
        found[f"x-ratelimit-remaining-{what}"] = str(min(rate, left))
        found[f"x-ratelimit-reset-{what}"] = _as_openai_writes(reset)
    return found


def whole_seconds(wait: float) -> int:
    """Return a wait as `Retry-After` writes it: whole seconds, rounded up, one at least."""
    return max(1, math.ceil(wait - 1e-9))


def _as_openai_writes(seconds: float) -> str:
    """Return a span in the form of Go that OpenAI uses: `12ms`, `1.5s`, `6m0s`."""
    if seconds < 1:
        return f"{math.ceil(seconds * 1000)}ms"
    minutes, rest = divmod(seconds, 60)
    text = f"{rest:.3f}".rstrip("0").rstrip(".")
    return f"{int(minutes)}m{text}s" if minutes else f"{text}s"
