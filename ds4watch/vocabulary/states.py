"""The names of what ds4watch says of the states of workers, and of how many are ready."""

from __future__ import annotations

from ds4watch.vocabulary.signal import counter, gauge

STATE_SIGNALS = (
    gauge(
        "ds4_worker_state",
        "1 for the state a worker is in, 0 for the others.",
        "worker",
        "profile",
        "state",
    ),
    counter(
        "ds4_worker_state_seconds_total",
        "Time a worker was in a state since the daemon's start.",
        "worker",
        "profile",
        "state",
    ),
    gauge(
        "ds4_worker_state_since_seconds",
        "For how long a worker is in the state that it is in.",
        "worker",
        "profile",
    ),
    gauge(
        "ds4_worker_memory_steps",
        "Steps down that a worker was started with since it died for want of memory; see"
        " docs/memory.md.",
        "worker",
        "profile",
    ),
    counter(
        "ds4_worker_oom_total",
        "Deaths for want of memory since the daemon's start, by what was short and when.",
        "worker",
        "kind",
    ),
    gauge(
        "ds4_profile_startup_seconds",
        "Usual time from process start to ready, warm-up included: the median of the last 10.",
        "profile",
    ),
    gauge(
        "ds4_worker_standstill_seconds",
        "Time for which requests are in a ready worker's engine and nothing but canaries moves it;"
        " 0 if it moves or is idle, absent if its load is not known.",
        "worker",
        "profile",
    ),
    gauge(
        "ds4_worker_failure_info",
        "1 for each worker that is down, with the cause and what it was doing.",
        "worker",
        "profile",
        "why",
    ),
    gauge(
        "ds4_forecast_requests_per_second",
        "Requests expected at the peak until a worker that is called now would be ready; absent"
        " without two days of history.",
        "profile",
    ),
    gauge(
        "ds4_forecast_requests_per_second_low",
        "Lower end of the forecast's interval; inside it is provisioning.coverage_ratio of time.",
        "profile",
    ),
    gauge(
        "ds4_forecast_requests_per_second_high",
        "Upper end of that interval; workers are provided for it.",
        "profile",
    ),
    gauge(
        "ds4_forecast_lead_seconds",
        "Time before it is needed at which a worker has to be called: the 95th percentile of the"
        " last starts, or of waking where sleepers are left.",
        "profile",
    ),
    gauge(
        "ds4_provisioning_workers",
        "Workers by kind: wanted, hot (ready), starting (called or on their way).",
        "profile",
        "kind",
    ),
    gauge("ds4_provisioning_dry_run", "1 while provisioning only tells what it would do, else 0."),
    gauge("ds4_hot_workers", "Workers that are ready."),
    gauge(
        "ds4_hot_workers_missing",
        "Workers that would have to be ready and are not: fleet.min_hot (or all, where there are"
        " fewer) less those ready.",
    ),
    gauge(
        "ds4_worker_warmup_seconds",
        "Time that a worker's last warm-up took.",
        "worker",
        "profile",
    ),
    gauge(
        "ds4_worker_warmup_age_seconds",
        "Time since our last warm-up of a worker ended, 0 while it is warmed up; absent without one"
        " since the daemon's start. What it computes of late may be ours.",
        "worker",
        "profile",
    ),
)
