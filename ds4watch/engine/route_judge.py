"""Judges routing in hindsight, and what tokens within the time limit cost, by profile."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice

from ds4watch.cost.prices import PriceEntry, price_at
from ds4watch.model.money import NANOS_PER_UNIT
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import Labels, Sample, labels_of
from ds4watch.model.usage import RequestOutcome, RequestRecord
from ds4watch.model.worker import WorkerPhase, WorkerView
from ds4watch.routing.regret import Served, prefill_seconds_per_token, regret_seconds
from ds4watch.vocabulary.money import REGRET_EDGES

_SAMPLE_EVERY = 8
_NEAR_SECONDS = 10.0
"""What a worker answered so long before and after says how it would have done."""
_KEPT = 64
"""Answers of each worker."""
_MOST_WAITING, _MOST_A_LOOK = 400, 4
_MOST_OTHERS = 8
"""Other workers that a request is judged by: a tick has to stay short over a thousand."""
_WINDOW_SECONDS = 600.0
_LEAST_SECONDS = 60.0
"""Over less, what tokens cost would be chance."""
_WINDOW_REQUESTS = 20_000
_COSTS_MONEY = (WorkerPhase.ABSENT, WorkerPhase.FAILED, WorkerPhase.QUARANTINED)
_HOUR_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Regret:
    """By how much another worker would have been sooner, of the requests judged since the start."""

    judged: int
    mean_seconds: float | None
    p95_seconds: float | None
    """Within its bucket of the histogram as if all lay evenly; None beyond the last edge."""

    def as_json(self) -> dict[str, float | None]:
        """Return a JSON-ready dict."""
        return {
            "judged": self.judged,
            "mean_seconds": self.mean_seconds,
            "p95_seconds": self.p95_seconds,
        }


class RouteJudge:
    """Takes in finished requests; a sample of them is judged once its surroundings are known."""

    def __init__(self) -> None:
        self._served: dict[str, deque[Served]] = {}
        self._waiting: deque[tuple[UnixSeconds, str, Served]] = deque(maxlen=_MOST_WAITING)
        self._good: deque[tuple[UnixSeconds, str, int]] = deque()
        """End, profile and tokens of requests that were answered in time."""
        self._began_at: UnixSeconds | None = None
        self.costs: Mapping[str, float] = {}
        """What 1,000 tokens in time cost lately, by profile, when `samples` was last asked."""
        self._tokens: Counter[str] = Counter()
        """Their sums by profile."""
        self._seen = 0
        self._regret_seconds = 0.0
        self._buckets = [0] * (len(REGRET_EDGES) + 1)

    def note(self, records: Iterable[RequestRecord], *, slo_seconds: float) -> None:
        """Take in finished requests; slo_seconds: what "in time" is."""
        for record in records:
            if record.outcome is not RequestOutcome.OK or record.usage is None:
                continue
            if record.duration_seconds <= slo_seconds:
                tokens = record.usage.prompt + record.usage.completion
                self._good.append((record.ended_at, record.profile, tokens))
                self._tokens[record.profile] += tokens
                if len(self._good) > _WINDOW_REQUESTS:
                    self._forget_oldest()
            served = _served(record)
            if served is None:
                continue
            self._served.setdefault(served.worker, deque(maxlen=_KEPT)).append(served)
            self._seen += 1
            if self._seen % _SAMPLE_EVERY == 0:
                self._waiting.append((record.ended_at, record.model_served, served))

    def samples(
        self,
        workers: Sequence[WorkerView],
        prices: Sequence[PriceEntry],
        currency: str,
        now: UnixSeconds,
    ) -> list[Sample]:
        """Return the regret so far, and what 1,000 tokens in time cost over the last 10 minutes.

        After a start, over the time since: money from before has no tokens here.
        """
        self._judge(workers, now)
        if self._began_at is None:
            self._began_at = now
        seconds = min(_WINDOW_SECONDS, now - self._began_at)
        found = self._histogram()
        while self._good and self._good[0][0] < now - _WINDOW_SECONDS:
            self._forget_oldest()
        self.costs = self._costs(workers, prices, now, seconds)
        for profile, cost in self.costs.items():
            labels = labels_of({"profile": profile, "currency": currency})
            found.append(Sample("ds4_slo_cost_per_thousand_tokens", labels, cost))
        return found

    def _costs(
        self,
        workers: Sequence[WorkerView],
        prices: Sequence[PriceEntry],
        now: UnixSeconds,
        seconds: float,
    ) -> dict[str, float]:
        if seconds < _LEAST_SECONDS:
            return {}
        found, tokens = {}, +self._tokens
        for profile in sorted({it.profile for it in workers} & tokens.keys()):
            paid = [it for it in workers if it.profile == profile and it.phase not in _COSTS_MONEY]
            per_hour = sum(price_at(prices, profile, now, it.url) for it in paid)
            nanos = per_hour * seconds / _HOUR_SECONDS
            found[profile] = nanos / NANOS_PER_UNIT / tokens[profile] * 1000
        return found

    def regret(self) -> Regret:
        """Return the regret since the start."""
        judged = sum(self._buckets)
        mean = self._regret_seconds / judged if judged else None
        return Regret(judged, mean, _quantile(0.95, self._buckets) if judged else None)

    def _histogram(self) -> list[Sample]:
        """Return the regrets since the start."""
        name, below = "ds4_route_regret_seconds", list(accumulate(self._buckets))
        found = [
            Sample(f"{name}_bucket", _le(edge), float(count))
            for edge, count in zip((*REGRET_EDGES, math.inf), below, strict=True)
        ]
        found.append(Sample(f"{name}_sum", (), self._regret_seconds))
        return [*found, Sample(f"{name}_count", (), float(below[-1]))]

    def _forget_oldest(self) -> None:
        _, profile, tokens = self._good.popleft()
        self._tokens[profile] -= tokens

    def _judge(self, workers: Sequence[WorkerView], now: UnixSeconds) -> None:
        due = now - _NEAR_SECONDS
        if not self._waiting or self._waiting[0][0] >= due:
            return
        models = {it.id: frozenset(it.models) for it in workers}
        self._served = {name: it for name, it in self._served.items() if name in models}
        for _ in range(_MOST_A_LOOK):
            if not self._waiting or self._waiting[0][0] >= due:
                return
            _, model, served = self._waiting.popleft()
            regret = self._regret_of(served, model, models)
            if regret is not None:
                self._regret_seconds += regret
                self._buckets[bisect_left(REGRET_EDGES, regret)] += 1

    def _regret_of(
        self, served: Served, model: str, models: Mapping[str, frozenset[str]]
    ) -> float | None:
        """Judge by those that serve the name by which a worker was chosen: of an alias all do."""
        alike = (it for it in self._served if it != served.worker and model in models[it])
        others = {name: self._near(name, served) for name in islice(alike, _MOST_OTHERS)}
        known = [it for answered in others.values() for it in answered]
        known += self._near(served.worker, served)
        return regret_seconds(served, others, per_token=prefill_seconds_per_token(known))

    def _near(self, worker: str, served: Served) -> list[Served]:
        """Return what a worker answered at about the same time."""
        answered = self._served.get(worker, ())
        return [it for it in answered if abs(it.sent_at - served.sent_at) <= _NEAR_SECONDS]


def _le(edge: float) -> Labels:
    return (("le", "+Inf" if edge == math.inf else repr(edge)),)


def _served(record: RequestRecord) -> Served | None:
    """Return what is known of a streamed answer at its worker; None if its times are not known."""
    usage, tried, first = record.usage, record.tried_seconds, record.first_byte_seconds
    if usage is None or tried is None or first is None or not record.stream:
        return None
    return Served(
        worker=record.worker,
        sent_at=record.ended_at - record.duration_seconds + tried,
        first_seconds=first - tried,
        decode_seconds=record.duration_seconds - first,
        computed_tokens=max(0, usage.prompt - usage.cached),
        prompt_tokens=usage.prompt,
        completion_tokens=usage.completion,
    )


def _quantile(share: float, buckets: Sequence[int]) -> float | None:
    """Return where so large a share of the counts lies below, as `histogram_quantile` does."""
    rank, below = share * sum(buckets), 0
    lowest = 0.0
    for edge, count in zip(REGRET_EDGES, buckets, strict=False):
        if count and below + count >= rank:
            return lowest + (edge - lowest) * (rank - below) / count
        below, lowest = below + count, edge
    return None
