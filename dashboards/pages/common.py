"""Variables and queries that several pages have."""

from __future__ import annotations

from dashboards.kit.views import RATE, Variable
from ds4watch.model.worker import WorkerPhase

PROFILE = Variable("profile", "Profile", "ds4_worker_state")
WORKER = Variable("worker", "Worker", "ds4_worker_state")
ONE_WORKER = Variable("worker", "Worker", "ds4_worker_state", is_one=True)
MODEL = Variable("model", "Model", "ds4_gateway_requests_total")
CURRENCY = Variable("currency", "Currency", "ds4_cost_per_hour")

CHOSEN = '{profile=~"$profile",worker=~"$worker"}'
"""The workers that the viewer chose."""

REQUESTS = "ds4_gateway_requests_total"
DURATIONS = "ds4_gateway_request_duration_seconds"
ALL_REQUESTS = f"sum(rate({REQUESTS}{RATE}))"
NVML = "where no GPU is read: without NVML, and without an exporter among the targets"


def phase(selector: str) -> str:
    """Return the code of the phase that each of these workers is in."""
    terms = (
        f'{it.code} * (ds4_worker_state{{{selector},state="{it.value}"}} == 1)'
        for it in WorkerPhase
    )
    return f"max by (worker) ({' or '.join(terms)})"


def answer_time(quantile: float) -> str:
    """Return a quantile of the time from a request's arrival at the gateway to its end."""
    return f"histogram_quantile({quantile}, sum by (le) (rate({DURATIONS}_bucket{RATE})))"


def share(part: str, whole: str) -> str:
    """Return a share of all, 0 where the part has no series yet."""
    return f"({part} or vector(0)) / {whole}"


FAILED_SHARE = share(f'sum(rate({REQUESTS}{{outcome=~"upstream_error|shed"}}{RATE}))', ALL_REQUESTS)
RETRY_SHARE = share(f"sum(rate(ds4_retry_count_total{RATE}))", ALL_REQUESTS)
WAITING = "sum(ds4_queue_depth unless on (worker) ds4_gauges_stale == 1)"
LEVEL = "max by (pool) (ds4_degradation_level)"
FIRING = 'sum by (severity) (ds4_alerts{state="firing",severity!="none"})'
