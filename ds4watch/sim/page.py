"""The metrics page: a template taken from a real vLLM 0.32 worker, filled with meters.

`page.prom` holds that worker's page with all values 0. A histogram's buckets come from it, except
those of token counts, which reach up to the longest context. Of the `http_*` families with labels
it has only the comments: their series appear with the first request.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import accumulate

from ds4watch.sim.meters import Meters

CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"
"""What vLLM 0.32 answers, whatever the Accept header says."""

TOKEN_COUNT_HISTOGRAMS = frozenset(
    {
        "vllm:request_prompt_tokens",
        "vllm:request_generation_tokens",
        "vllm:request_max_num_generation_tokens",
        "vllm:request_params_max_tokens",
        "vllm:request_prefill_kv_computed_tokens",
    }
)
HTTP_FAMILIES = frozenset(
    {
        "http_requests_total",
        "http_requests_created",
        "http_request_size_bytes",
        "http_request_size_bytes_created",
        "http_response_size_bytes",
        "http_response_size_bytes_created",
        "http_request_duration_seconds",
        "http_request_duration_seconds_created",
    }
)
_BUCKET = re.compile(
    r'^(?P<family>\S+?)_bucket\{(?P<before>.*?)le="(?P<edge>[^"]+)"(?P<after>.*)\}$'
)
_FIXED_LABELS = re.compile(r'(engine|model_name)="[^"]*",?')


@lru_cache(maxsize=4096)
def number(value: float) -> str:
    """Format a value as prometheus-client does: `3.0`, `1.5e+09`."""
    text = repr(float(value))
    dot = text.find(".")
    if value > 0 and dot > 6 and "e" not in text:
        mantissa = f"{text[0]}.{text[1:dot]}{text[dot + 1 :]}".rstrip("0.")
        return f"{mantissa}e+{dot - 1:02}"
    return text


def label_value(text: str) -> str:
    """Escape a label's value."""
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def one_two_five(limit: int) -> tuple[float, ...]:
    """Return 1, 2, 5, 10, 20, 50, … up to `limit`: vLLM's buckets of token counts."""
    edges: list[float] = []
    decade = 1
    while decade <= limit:
        edges += [float(step * decade) for step in (1, 2, 5) if step * decade <= limit]
        decade *= 10
    return tuple(edges)


def template() -> str:
    """Return the shipped template."""
    return files("ds4watch.sim").joinpath("page.prom").read_text(encoding="utf-8")


def histogram_edges(text: str, *, max_model_len: int) -> dict[str, tuple[float, ...]]:
    """Return the bucket edges, without +Inf, of every histogram of a template."""
    edges: dict[str, list[float]] = {}
    for line in text.splitlines():
        match = _BUCKET.match(line.rpartition(" ")[0])
        if match and match["edge"] != "+Inf":
            edges.setdefault(match["family"], []).append(float(match["edge"]))
    tokens = one_two_five(max_model_len)
    return {
        family: tokens if family in TOKEN_COUNT_HISTOGRAMS else tuple(bounds)
        for family, bounds in edges.items()
    }


@dataclass(frozen=True, slots=True)
class Slot:
    """A hole in the page: one value, a whole histogram, or the series of an http family."""

    kind: str
    key: str


class Page:
    """A worker's page, compiled once: a format string, and what goes into its holes in order."""

    def __init__(self, text: str, *, replacements: Mapping[str, str], max_model_len: int) -> None:
        for placeholder, value in replacements.items():
            text = text.replace(f"@{placeholder}@", value)
        self.edges = histogram_edges(text, max_model_len=max_model_len)
        lines: list[str] = []
        slots: list[Slot] = []
        for line, slot in _compile(text, self.edges):
            lines.append(line)
            slots += [slot] if slot else []
        self._format = "".join(lines)
        self._slots = tuple(slots)

    @property
    def created_series(self) -> tuple[str, ...]:
        """The series that hold the instant at which another one began."""
        keys = (slot.key for slot in self._slots if slot.kind == "value")
        return tuple(key for key in keys if key.partition("{")[0].endswith("_created"))

    def render(self, meters: Meters, http: Mapping[str, str]) -> bytes:
        """Fill the page; `http` holds the finished lines of each http family."""
        texts: list[str] = []
        for slot in self._slots:
            if slot.kind == "value":
                texts.append(number(meters.values.get(slot.key, 0.0)))
            elif slot.kind == "http":
                texts.append(http.get(slot.key, ""))
            else:
                histogram = meters.histograms[slot.key]
                texts += map(number, accumulate(histogram.counts))
                texts += (number(histogram.count), number(histogram.total))
        return (self._format % tuple(texts)).encode()


def _compile(
    text: str, edges: Mapping[str, tuple[float, ...]]
) -> Iterator[tuple[str, Slot | None]]:
    expanded: set[str] = set()
    for line in text.splitlines():
        if line.startswith("#"):
            yield from _comment(line)
            continue
        series = line.rpartition(" ")[0]
        match = _BUCKET.match(series)
        if match:
            if match["family"] not in expanded:
                expanded.add(match["family"])
                yield _histogram(match, edges[match["family"]])
        elif not _is_of_histogram(series, expanded):
            yield _escape(series) + " %s\n", Slot("value", series_key(series))


def _comment(line: str) -> Iterator[tuple[str, Slot | None]]:
    yield _escape(line) + "\n", None
    _, keyword, family, *_ = line.split(" ")
    if keyword == "TYPE" and family in HTTP_FAMILIES:
        yield "%s", Slot("http", family)


def _histogram(match: re.Match[str], edges: tuple[float, ...]) -> tuple[str, Slot]:
    family, before, after = match["family"], match["before"], match["after"]
    lines = [
        f'{family}_bucket{{{before}le="{edge}"{after}}}' for edge in (*map(number, edges), "+Inf")
    ]
    labels = f"{before}{after.removeprefix(',')}" if before else after.removeprefix(",")
    tail = f"{{{labels}}}" if labels else ""
    lines += [f"{family}_count{tail}", f"{family}_sum{tail}"]
    return "".join(f"{_escape(line)} %s\n" for line in lines), Slot("histogram", family)


def _is_of_histogram(series: str, families: set[str]) -> bool:
    name = series.partition("{")[0]
    return any(name == family + end for end in ("_count", "_sum") for family in families)


def _escape(text: str) -> str:
    return text.replace("%", "%%")


def series_key(series: str) -> str:
    """Return the meter's name of a series: without the labels that all of a worker's share."""
    name, _, labels = series.partition("{")
    if name in {"vllm:cache_config_info", "python_info"}:
        return name
    kept = _FIXED_LABELS.sub("", labels.rstrip("}")).strip(",")
    return f"{name}{{{kept}}}" if kept else name
