"""The reference of all metrics, made from the vocabulary; docs/metrics.md is this."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ds4watch.vocabulary.names import (
    FLEET_SIGNALS,
    PROCESS_SIGNALS,
    TARGET_SERIES,
    WORKER_SIGNALS,
    Signal,
    SignalType,
)
from ds4watch.vocabulary.table import MEANINGS, Source

_INTRO = """\
# Metrics

<!-- Made by `ds4watch config metrics`; change the vocabulary, not this file. -->

Everything ds4watch knows has one name here, whatever the engine's version calls it. These names
stand in rules, in dashboards, in `ds4watch status`, and on `/metrics` of the admin API, which a
Prometheus can scrape:

```yaml
scrape_configs:
  - job_name: ds4watch
    static_configs:
      - targets: ["127.0.0.1:9464"]
```

A series that is absent is not reported, which is not zero. Rules also see each worker's own series,
as on its page. Names end in their unit: `_seconds`, `_bytes`, `_ratio` (0 to 1), `_total` for what
only rises.
"""
_WORKERS = """
## Of each worker

Read from the worker's page. Names are given without the prefix (`vllm:`, or what Ray Serve and
KServe make of it). Where there are several, the first that the page has is used: vLLM renames its
metrics between versions. `model` is the name on that page. A page that has none of them gives no
sample of the metric, but one of `ds4_vocabulary_missing`.
"""
_FLEET = """
## Of the fleet
"""
_PROCESS = """
## Of ds4watch itself
"""
_TARGETS = """
## Of each scrape

For rules only, with `job` and `instance` as labels too. They are not on `/metrics`: the Prometheus
that scrapes it writes its own.
"""
_ORIGINS = (
    ("ds4_vocabulary_missing", "comparing the page with this list"),
    ("ds4_worker_state", "the supervisor"),
    ("ds4_cost_", "the price list and the ledger"),
    ("ds4_degradation_level", "the service policy in force"),
    ("ds4_gateway_inflight", "the gateways, asked each tick"),
    ("ds4_gateway_", "the gateways' spools"),
    ("ds4_retry_", "the gateways' spools"),
    ("ds4_quantization_error", "log-probabilities of fixed prompts, asked of both workers"),
    ("ds4_rule_", "the evaluation of rules"),
    ("ds4_gpu_", "NVML"),
    ("ds4_samples_", "the live buffer"),
    ("ds4_store_", "the sample store"),
)
"""By the beginning of the name, the first that fits."""
_DERIVED = "counters of the last 60 s"


def render_metrics() -> str:
    """Return the whole of docs/metrics.md."""
    return "".join(
        (
            _INTRO,
            f"{_WORKERS}\n{_table(WORKER_SIGNALS, worker_origin)}",
            f"{_FLEET}\n{_table(FLEET_SIGNALS, origin)}",
            f"{_PROCESS}\n{_table(PROCESS_SIGNALS)}",
            f"{_TARGETS}\n{_table(TARGET_SERIES)}",
        )
    )


def worker_origin(name: str) -> str:
    """Return the vLLM series that a worker's signal is read from, in order of preference."""
    for meaning in MEANINGS:
        if meaning.signal == name:
            return "; or ".join(dict.fromkeys(_told(source) for source in meaning.sources))
    return origin(name) or _DERIVED


def origin(name: str) -> str:
    """Return where a signal that is not on a worker's page comes from; empty if nobody said."""
    return next((text for start, text in _ORIGINS if name.startswith(start)), "")


def _told(source: Source) -> str:
    added = " + ".join(f"`{pick.name}`" for pick in source.add)
    subtracted = "".join(f" − `{pick.name}`" for pick in source.subtract)  # noqa: RUF001 - minus
    picked = [
        f" where {pick.label} is {' or '.join(pick.values)}" for pick in source.add if pick.label
    ]
    given = " (prefix caching off)" if source.given else ""
    return f"{added}{subtracted}{''.join(picked)}{given}"


def _table(signals: Iterable[Signal], origin_of: Callable[[str], str] | None = None) -> str:
    heads = ["Name", "Type", "Labels", "Meaning", *(["From"] if origin_of else [])]
    rows = [heads, ["---"] * len(heads)]
    for signal in signals:
        row = [
            f"`{signal.name}`",
            signal.type.value,
            ", ".join(f"`{label}`" for label in signal.labels),
            signal.help + _edges(signal),
        ]
        rows.append([*row, origin_of(signal.name)] if origin_of else row)
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _edges(signal: Signal) -> str:
    if signal.type is not SignalType.HISTOGRAM:
        return ""
    return f" Buckets at {', '.join(f'{edge:g}' for edge in signal.edges)}."
