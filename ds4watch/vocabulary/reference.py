"""The reference of all metrics, made from the vocabulary; docs/metrics.md is this."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ds4watch.vocabulary.devices import DEVICE_MEANINGS, MIG_IS_ON, OF_AN_INSTANCE, XID
from ds4watch.vocabulary.engines import BY_ENGINE, ENGINES
from ds4watch.vocabulary.names import (
    FLEET_SIGNALS,
    GPU_SIGNALS,
    PROCESS_SIGNALS,
    ROUTER_SIGNALS,
    TARGET_SERIES,
    WORKER_SIGNALS,
)
from ds4watch.vocabulary.routers import ROUTER_MEANINGS
from ds4watch.vocabulary.signal import Signal, SignalType
from ds4watch.vocabulary.table import RATIO, Engine, Meaning, Source
from ds4watch.vocabulary.windows import RATIOS

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

Read from the worker's page. Names are given without the prefix (`vllm:` and `sglang:`, or what Ray
Serve and KServe make of them), and with `_total`, which some leave out. Where there are several,
the first that the page has is used, alone: engines rename their metrics between versions. `model`
is the name on that page. A page of an engine that has none of them gives no sample of the metric,
but one of `ds4_vocabulary_missing`; a page without any engine one of `ds4_engine_reported`.

Several engines behind one API server (data parallel) are added up, or the fullest counts; what
begins with `ds4_engine_` and has the label `engine` keeps them apart, on pages that show several.

A page that has a metric under its name here, as our vLLM plugin writes it, is taken at its word.
"""
_GPUS = """
## Of GPUs

From NVML where ds4watch runs, and from the pages of DCGM and nvidia-smi exporters among the
targets; those have the label `host`. `mig` is a MIG instance: its UUID from NVML, its number from
DCGM.
"""
_ROUTERS = """
## Of routers

From the pages of routers among the targets; `router` is the target's name.
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
    ("ds4_vocabulary_", "comparing the page with this list"),
    ("ds4_engines", "the engine label on the page"),
    ("ds4_engine_reported", "whether the page has any metric of this list"),
    ("ds4_gauges_stale", "gauges and counters of the last 60 s"),
    ("ds4_lora_", "`lora_requests_info` with the newest value"),
    ("ds4_worker_alert", "the alerts of the last tick"),
    ("ds4_alerts", "the alerts of the last tick"),
    ("ds4_worker_", "the supervisor"),
    ("ds4_profile_startup", "the supervisor"),
    ("ds4_hot_workers", "the supervisor"),
    ("ds4_forecast_", "arrivals at the gateways, four weeks of them"),
    ("ds4_provisioning_", "provisioning"),
    ("ds4_cost_", "the price list and the ledger"),
    ("ds4_context_", "the gateways' records"),
    ("ds4_key_budget_", "the ledger and the budgets of keys"),
    ("ds4_model_budget_", "the ledger and the budgets of models"),
    ("llm_", "the price list and the ledger"),
    ("ds4_actions_attention", "the policy's actions on workers"),
    ("ds4_degradation_level", "the service policy in force"),
    ("ds4_gateway_inflight", "the gateways, asked each tick"),
    ("ds4_output_filter_", "the gateways, asked each tick"),
    ("ds4_answer", "the gateways, asked each tick"),
    ("ds4_gateway_set_aside", "the gateways, asked each tick"),
    ("ds4_gateway_long", "the gateways, asked each tick"),
    ("ds4_session_", "the gateways, asked each tick"),
    ("ds4_gateway_wait", "the gateways, asked each tick"),
    ("ds4_gateway_shed", "the gateways, asked each tick"),
    ("ds4_gateway_abnormal", "the gateways, asked each tick"),
    ("ds4_gateway_degraded", "the gateways, asked each tick"),
    ("ds4_gateway_", "the gateways' spools"),
    ("ds4_retry_", "the gateways' spools"),
    ("ds4_quantization_error", "log-probabilities of fixed prompts, asked of both workers"),
    ("ds4_quality_accuracy", "golden questions, asked of both workers"),
    ("ds4_route_regret", "the gateways' spools"),
    ("ds4_slo_cost", "the gateways' spools and the price list"),
    ("ds4_start_check", "what workers answered at their starts"),
    ("ds4_quality_class", "golden questions, asked of both workers"),
    ("ds4_quality_measured", "the runs of both"),
    ("ds4_rule_", "the evaluation of rules"),
    ("ds4_samples_", "the live buffer"),
    ("ds4_scrapes_left_out", "the scraper"),
    ("ds4_store_set_aside", "both stores"),
    ("ds4_store_", "the sample store"),
    ("ds4_source_", "the server that evaluates rules"),
)
"""By the beginning of the name, the first that fits."""
_DERIVED = "counters of the last 60 s"
_FROM_COUNTERS = frozenset(name for name, _, _ in RATIOS)


def render_metrics() -> str:
    """Return the whole of docs/metrics.md."""
    return "".join(
        (
            _INTRO,
            f"{_WORKERS}\n{_table(WORKER_SIGNALS, worker_origin)}",
            f"{_GPUS}\n{_table(GPU_SIGNALS, device_origin)}",
            f"{_ROUTERS}\n{_table(ROUTER_SIGNALS, router_origin)}",
            f"{_FLEET}\n{_table(FLEET_SIGNALS, origin)}",
            f"{_PROCESS}\n{_table(PROCESS_SIGNALS)}",
            f"{_TARGETS}\n{_table(TARGET_SERIES)}",
        )
    )


def worker_origin(name: str) -> str:
    """Return the series that a worker's signal is read from, in order of preference."""
    whole = {apart: signal for signal, apart in BY_ENGINE.items()}.get(name, name)
    told = [f"{engine.name}: {text}" for engine in ENGINES if (text := _from(whole, engine))]
    if name == "ds4_cache_block_tokens":
        told.insert(0, "vllm: `block_size` of `cache_config_info`")
    if name == "ds4_gpu_memory_granted_ratio":
        told.insert(0, "vllm: `gpu_memory_utilization` of `cache_config_info`")
    derived = [_DERIVED] if name in _FROM_COUNTERS else []
    return "; ".join([*derived, *told]) or origin(name)


def device_origin(name: str) -> str:
    """Return the series of GPU exporters that a signal is read from."""
    told = _sources(it for it in (*DEVICE_MEANINGS, OF_AN_INSTANCE, MIG_IS_ON) if it.signal == name)
    return told if name == XID else f"NVML; or {told}"


def router_origin(name: str) -> str:
    """Return the series of routers that a signal is read from."""
    return _sources(meaning for meaning in ROUTER_MEANINGS if meaning.signal == name)


def _from(signal: str, engine: Engine) -> str:
    return _sources(meaning for meaning in engine.meanings if meaning.signal == signal)


def _sources(meanings: Iterable[Meaning]) -> str:
    told = (_told(source, meaning) for meaning in meanings for source in meaning.sources)
    return "; or ".join(dict.fromkeys(told))


def origin(name: str) -> str:
    """Return where a signal that is not on a worker's page comes from; empty if nobody said."""
    return next((text for start, text in _ORIGINS if name.startswith(start)), "")


def _told(source: Source, meaning: Meaning) -> str:
    added = " + ".join(f"`{pick.name}`" for pick in source.add)
    subtracted = "".join(f" − `{pick.name}`" for pick in source.subtract)  # noqa: RUF001 - minus
    if source.offset and meaning.upper == RATIO:
        added = f"1 − {added}"  # noqa: RUF001 - minus
    picked = [
        f" where {pick.label} is {' or '.join(pick.values)}" for pick in source.add if pick.label
    ]
    given = " (prefix caching off)" if source.given else ""
    return f"{added}{subtracted}{''.join(picked)}{given}{_versions(source)}"


def _versions(source: Source) -> str:
    told = [f"since {source.since}"] if source.since else []
    told += [f"until {source.until}"] if source.until else []
    return f" ({', '.join(told)})" if told else ""


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
