"""The `http_*` families: requests by handler, as prometheus-fastapi-instrumentator counts them."""

from __future__ import annotations

from collections import defaultdict
from itertools import accumulate

from ds4watch.sim.meters import Histogram, Meters
from ds4watch.sim.page import label_value, number

EXCLUDED = frozenset({"/metrics", "/health", "/load", "/ping", "/version", "/server_info"})
"""Handlers that the instrumentator leaves out."""

_EDGES = (0.1, 0.5, 1.0)


class _Summary:
    __slots__ = ("count", "created_at", "total")

    def __init__(self, created_at: float) -> None:
        self.count = 0
        self.total = 0
        self.created_at = created_at

    def observe(self, amount: int) -> None:
        self.count += 1
        self.total += amount


class HttpMeter:
    """Counts of finished HTTP requests; handlers are route templates, hence bounded."""

    def __init__(self, meters: Meters) -> None:
        self._meters = meters
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self._totals: dict[tuple[str, str, str], _Summary] = {}
        self._sizes: dict[str, tuple[_Summary, _Summary]] = {}
        self._durations: dict[tuple[str, str], tuple[Histogram, float]] = {}

    def count(
        self,
        handler: str,
        method: str,
        *,
        status: int,
        seconds: float,
        request_bytes: int,
        response_bytes: int,
        now: float,
    ) -> None:
        """Count one request; sizes are Content-Length headers, 0 without one."""
        key = (handler, method, f"{status // 100}xx")
        self._totals.setdefault(key, _Summary(now)).observe(1)
        sizes = self._sizes.setdefault(handler, (_Summary(now), _Summary(now)))
        sizes[0].observe(request_bytes)
        sizes[1].observe(response_bytes)
        histogram, _ = self._durations.setdefault((handler, method), (Histogram(_EDGES), now))
        histogram.observe(seconds)
        self._meters.observe("http_request_duration_highr_seconds", seconds)

    def lines(self) -> dict[str, str]:
        """Return the series of each family, as text ready for the page."""
        out: defaultdict[str, list[str]] = defaultdict(list)
        self._total_lines(out)
        self._size_lines(out)
        self._duration_lines(out)
        return {family: "".join(f"{line}\n" for line in lines) for family, lines in out.items()}

    def _total_lines(self, out: defaultdict[str, list[str]]) -> None:
        for (handler, method, status), total in self._totals.items():
            labels = f'{{handler="{label_value(handler)}",method="{method}",status="{status}"}}'
            out["http_requests_total"].append(f"http_requests_total{labels} {number(total.count)}")
            out["http_requests_created"].append(
                f"http_requests_created{labels} {number(total.created_at)}"
            )

    def _size_lines(self, out: defaultdict[str, list[str]]) -> None:
        for handler, summaries in self._sizes.items():
            labels = f'{{handler="{label_value(handler)}"}}'
            for side, summary in zip(("request", "response"), summaries, strict=True):
                name = f"http_{side}_size_bytes"
                out[name] += [
                    f"{name}_count{labels} {number(summary.count)}",
                    f"{name}_sum{labels} {number(summary.total)}",
                ]
                created = f"{name}_created"
                out[created].append(f"{created}{labels} {number(summary.created_at)}")

    def _duration_lines(self, out: defaultdict[str, list[str]]) -> None:
        name = "http_request_duration_seconds"
        for (handler, method), (histogram, created_at) in self._durations.items():
            first, last = f'handler="{label_value(handler)}"', f'method="{method}"'
            edges = (*map(number, _EDGES), "+Inf")
            counts = accumulate(histogram.counts)
            out[name] += [
                f'{name}_bucket{{{first},le="{edge}",{last}}} {number(count)}'
                for edge, count in zip(edges, counts, strict=True)
            ]
            out[name] += [
                f"{name}_count{{{first},{last}}} {number(histogram.count)}",
                f"{name}_sum{{{first},{last}}} {number(histogram.total)}",
            ]
            out[f"{name}_created"].append(f"{name}_created{{{first},{last}}} {number(created_at)}")
