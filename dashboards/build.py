"""Makes the Grafana dashboards of this folder: python dashboards/build.py.

They run on ds4watch itself, or unchanged on a Prometheus that scrapes it. The JSON is committed, so
that nobody needs the SDK to use it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from grafana_foundation_sdk.builders import (
    common,
    dashboard,
    prometheus,
    stat,
    timeseries,
)
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    LegendDisplayMode,
    LegendPlacement,
    StackingMode,
    TooltipDisplayMode,
)
from grafana_foundation_sdk.models.dashboard import DataSourceRef, GridPos

FOLDER = Path(__file__).resolve().parent
SOURCE = DataSourceRef(type_val="prometheus", uid="${source}")
GRID_COLUMNS = 24
ANSWER_TIMES = "sum by (le) (rate(ds4_gateway_request_duration_seconds_bucket[1m]))"
STAT_ROWS, GRAPH_ROWS = 4, 8


class View(NamedTuple):
    """One panel: title, unit, what it tells, and (query, legend) pairs."""

    title: str
    unit: str
    text: str
    queries: tuple[tuple[str, str], ...]
    stacked: bool = False


STATS = (
    View(
        "Level in force",
        "none",
        "Degradation level; 0 is normal service.",
        (("max by (pool) (ds4_degradation_level)", "{{pool}}"),),
    ),
    View(
        "Workers ready",
        "none",
        "Workers that take requests.",
        (('sum(ds4_worker_state{state="ready"})', "ready"),),
    ),
    View(
        "Cost an hour",
        "none",
        "Price of an hour of the workers that run now.",
        (("sum by (currency) (ds4_cost_per_hour)", "{{currency}}"),),
    ),
    View(
        "Cost so far",
        "none",
        "Money spent, from the ledger.",
        (("sum by (currency) (ds4_cost_spent_total)", "{{currency}}"),),
    ),
)

GRAPHS = (
    View(
        "Workers by state",
        "none",
        "Each worker is in one state.",
        (("sum by (state) (ds4_worker_state) > 0", "{{state}}"),),
        stacked=True,
    ),
    View(
        "Queue",
        "none",
        "Requests that wait in the engine, and those in the running batch.",
        (
            ("sum by (worker) (ds4_queue_depth)", "{{worker}} waiting"),
            ("sum by (worker) (ds4_running_requests)", "{{worker}} running"),
        ),
    ),
    View(
        "Tokens a second",
        "none",
        "Over 60 s; absent without traffic. Prompt tokens include cached ones.",
        (("sum by (worker, kind) (ds4_tokens_per_second)", "{{worker}} {{kind}}"),),
    ),
    View(
        "Cache misses",
        "percentunit",
        "Prompt tokens that were not in the cache, of all, over 60 s.",
        (("max by (worker) (ds4_cache_miss_ratio)", "{{worker}}"),),
    ),
    View(
        "Prefill share",
        "percentunit",
        "Prefill's share of the tokens worked on, and of the time, over 60 s.",
        (
            ("max by (worker) (ds4_prefill_token_ratio)", "{{worker}} of tokens"),
            ("max by (worker) (ds4_prefill_time_ratio)", "{{worker}} of time"),
        ),
    ),
    View(
        "KV cache in use",
        "percentunit",
        "The fullest engine of each worker.",
        (("max by (worker) (ds4_kv_usage_ratio)", "{{worker}}"),),
    ),
    View(
        "Answer time at the gateway",
        "s",
        "From a request's arrival to its end; estimated within a bucket.",
        tuple(
            (f"histogram_quantile({quantile}, {ANSWER_TIMES})", f"p{quantile * 100:.0f}")
            for quantile in (0.5, 0.95)
        ),
    ),
    View(
        "Requests a second at the gateway",
        "reqps",
        "By how they ended, and the attempts given up for another worker.",
        (
            ("sum by (outcome) (rate(ds4_gateway_requests_total[1m]))", "{{outcome}}"),
            ("sum by (reason) (rate(ds4_retry_count_total[1m]))", "retry: {{reason}}"),
        ),
    ),
    View(
        "Quantization error",
        "none",
        "Divergence of a quantized profile from its reference.",
        (
            (
                "max by (profile, reference, metric) (ds4_quantization_error)",
                "{{profile}} against {{reference}}, {{metric}}",
            ),
        ),
    ),
    View(
        "GPU memory in use",
        "percentunit",
        "Absent where NVML does not tell.",
        (("ds4_gpu_memory_used_bytes / ds4_gpu_memory_total_bytes", "GPU {{gpu}}"),),
    ),
)


def fleet() -> dashboard.Dashboard:
    """Return the fleet overview."""
    made = (
        dashboard.Dashboard("ds4watch fleet")
        .uid("ds4watch-fleet")
        .description("The fleet at a glance: state, load, tokens, cost, and the level in force.")
        .tags(["ds4watch", "vllm"])
        .refresh("5s")
        .time("now-15m", "now")
        .timezone("browser")
        .readonly()
        .with_variable(dashboard.DatasourceVariable("source").label("Source").type("prometheus"))
    )
    for index, view in enumerate(STATS):
        made.with_panel(_stat(view, _place(index, per_row=4, top=0, height=STAT_ROWS)))
    for index, view in enumerate(GRAPHS):
        made.with_panel(_graph(view, _place(index, per_row=2, top=STAT_ROWS, height=GRAPH_ROWS)))
    return made


def rendered(made: dashboard.Dashboard) -> str:
    """Return a dashboard as the JSON that Grafana imports."""
    return json.dumps(made.build(), cls=JSONEncoder, indent=2, sort_keys=True) + "\n"


def _place(index: int, *, per_row: int, top: int, height: int) -> GridPos:
    width = GRID_COLUMNS // per_row
    row, column = divmod(index, per_row)
    return GridPos(h=height, w=width, x=column * width, y=top + row * height)


def _stat(view: View, place: GridPos) -> stat.Panel:
    panel = stat.Panel().title(view.title).description(view.text).unit(view.unit)
    panel.datasource(SOURCE).grid_pos(place).no_value("no data")
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    _add_queries(panel, view)
    return panel


def _graph(view: View, place: GridPos) -> timeseries.Panel:
    panel = timeseries.Panel().title(view.title).description(view.text).unit(view.unit)
    panel.datasource(SOURCE).grid_pos(place).min(0).fill_opacity(10)
    panel.legend(
        common.VizLegendOptions()
        .display_mode(LegendDisplayMode.LIST)
        .placement(LegendPlacement.BOTTOM)
        .show_legend(show_legend=True)
    )
    panel.tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI))
    if view.stacked:
        panel.stacking(common.StackingConfig().mode(StackingMode.NORMAL))
    _add_queries(panel, view)
    return panel


def _add_queries(panel: Any, view: View) -> None:
    for letter, (expression, legend) in zip("ABCDEF", view.queries, strict=False):
        query = prometheus.Dataquery().expr(expression).legend_format(legend).ref_id(letter)
        panel.with_target(query.datasource(SOURCE))


def main() -> None:
    """Write every dashboard beside this file."""
    (FOLDER / "fleet.json").write_text(rendered(fleet()))


if __name__ == "__main__":
    main()
