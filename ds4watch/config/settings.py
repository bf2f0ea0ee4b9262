"""The settings tree of `ds4watch.yml`: every key optional, every unit in its name."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, SecretStr, model_validator

from ds4watch.config.admission import AdmissionSettings
from ds4watch.config.batching import BatchingSettings
from ds4watch.config.compression import CompressionSettings
from ds4watch.config.cost import CostSettings
from ds4watch.config.external import ExtraWorker
from ds4watch.config.gateway_clients import ClientSettings
from ds4watch.config.gateway_security import IntakeSettings, SignatureSettings
from ds4watch.config.notify import NotifySettings
from ds4watch.config.provisioning import ProvisioningSettings
from ds4watch.config.routing import RoutingSettings
from ds4watch.config.scrape import ScrapeGroup
from ds4watch.config.section import Port, Seconds, Section
from ds4watch.config.source import SourceSettings


class AdminSettings(Section):
    """The admin API, the status page, /metrics."""

    host: str = Field("127.0.0.1", description="Address to bind; loopback unless TLS is in front.")
    port: Port = Field(9464, description="Port of the admin API.")
    tls_certificate: str | None = Field(
        None,
        pattern=r"^/",
        description="Certificate and its chain, in PEM; absolute. With `tls_key`: https is served.",
    )
    tls_key: str | None = Field(None, pattern=r"^/", description="Its key, in PEM; absolute.")

    @property
    def scheme(self) -> str:
        """How the admin API is reached."""
        return "https" if self.tls_certificate is not None else "http"


class RunBy(StrEnum):
    """Who starts the gateway processes."""

    DAEMON = "daemon"
    SYSTEMD = "systemd"


class GatewaySettings(Section):
    """The OpenAI-compatible gateway."""

    host: str = Field("127.0.0.1", description="Address to bind.")
    port: Port = Field(8400, description="Port that clients use.")
    processes: int = Field(1, ge=1, le=64, description="Gateway processes sharing the port.")
    run_by: RunBy = Field(
        RunBy.DAEMON,
        description="Who starts the gateway processes: daemon, or systemd as units of their own "
        "(`ds4watch install --systemd`).",
    )
    max_inflight: int = Field(1024, ge=1, description="Requests in flight before shedding (503).")
    max_connections: int = Field(
        10_000,
        ge=1,
        description="Connections of clients open at each process; over it they get a 503 and are "
        "closed. Less if the limit on open files asks for it.",
    )
    max_body_bytes: int = Field(8 << 20, ge=1024, description="Largest request body accepted.")
    connect_timeout_seconds: Seconds = Field(2.0, description="Time to reach a worker.")
    tls_ca_file: str | None = Field(
        None,
        description="Certificates (PEM) of the authorities that HTTPS workers are trusted by; the "
        "system's, or those in `SSL_CERT_FILE` of the environment, if not given.",
    )
    request_timeout_seconds: Seconds = Field(
        600.0,
        description="Time for one whole answer of a worker; then another is tried, if that is "
        "less than `routing.retry_within_seconds` and nothing has reached the client.",
    )
    max_attempts: int = Field(3, ge=1, le=10, description="Workers tried for one request.")
    retry_budget_ratio: float = Field(
        0.1, ge=0, le=1, description="Retries as a share of requests, at most (a floor of 10)."
    )
    wake_wait_seconds: float = Field(
        20.0,
        ge=0,
        description="Time for which a request waits for a worker that is woken or warmed up, if "
        "no other serves its model.",
    )
    drain_seconds: Seconds = Field(30.0, description="Time for open requests at a stop.")
    require_key: bool = Field(
        default=False, description="Ask for a key on loopback too, and though there be none yet."
    )
    intake: IntakeSettings = IntakeSettings()
    signature: SignatureSettings = SignatureSettings()
    output_filter: str | None = Field(
        None,
        description="File of rules that answers are filtered by (docs/security.md); read anew "
        "when it changes.",
    )
    score_every: int = Field(
        20,
        ge=0,
        description="One of so many answers is scored for signs of a broken model; 0: none.",
    )
    lease_seconds: Seconds = Field(
        600.0, description="Without a daemon for so long, limits are taken back level by level."
    )
    clients: ClientSettings = ClientSettings()
    routing: RoutingSettings = RoutingSettings()
    admission: AdmissionSettings = AdmissionSettings()
    batching: BatchingSettings = BatchingSettings()
    compression: CompressionSettings = CompressionSettings()


class ScrapeSettings(Section):
    """How workers are watched."""

    interval_seconds: Seconds = Field(1.0, description="Time between two waves of scrapes.")
    timeout_seconds: Seconds = Field(5.0, description="Time after which one scrape has failed.")
    max_body_bytes: int = Field(16 << 20, ge=1024, description="Largest metrics page accepted.")
    concurrency: int = Field(256, ge=1, description="Scrapes in flight at once.")
    groups: tuple[ScrapeGroup, ...] = Field((), description="Targets that somebody else runs.")


class StoreSettings(Section):
    """The history."""

    url: SecretStr | None = Field(
        None,
        description="PostgreSQL database for the history, as postgresql://user@host:5432/db; "
        "SQLite files in the state folder if not given.",
    )
    retention_hours: float = Field(48.0, gt=0, description="Age at which samples are deleted.")
    audit_retention_days: float = Field(
        90.0,
        gt=0,
        description="Age at which audit, alert events, ended actions, messages, holds and quality "
        "runs are deleted.",
    )
    ledger_retention_days: float = Field(
        1096.0,
        ge=1,
        description="Age at which hours of requests and cost are added up to one row; sums stay.",
    )
    minute_retention_days: float = Field(
        30.0, gt=0, description="Age at which the minutes rolled up from samples are deleted."
    )
    hour_retention_days: float = Field(
        400.0, gt=0, description="Age at which the hours rolled up from those are deleted."
    )
    live_window_seconds: Seconds = Field(
        900.0, description="What rules see of the past in full; beyond it a sample every 15 s."
    )
    live_budget_bytes: int = Field(
        256 << 20, ge=1 << 20, description="Memory for the samples that rules see, at most."
    )
    lease_seconds: float = Field(
        15.0,
        ge=5,
        le=600,
        description="Of several daemons on one PostgreSQL database one acts. It renews its lease "
        "five times in so long; another takes over once it has run out.",
    )


class WorkerSettings(Section):
    """Workers of one profile."""

    profile: str = Field(description="Name of a profile file, without .yml.")
    count: int = Field(1, ge=0, le=256, description="How many to keep running.")
    spare: int = Field(
        0,
        ge=0,
        le=256,
        description="How many of those are started only when too few are ready, or load asks.",
    )

    @model_validator(mode="after")
    def _spares_are_among_the_workers(self) -> WorkerSettings:
        if self.spare > self.count:
            message = f"{self.spare} of {self.count} workers cannot be spare"
            raise ValueError(message)
        return self


class RollingSettings(Section):
    """How `ds4watch fleet apply` goes about a change of the fleet."""

    surge: int = Field(
        1, ge=0, le=1, description="Workers more than usual while changing; with 0 one is missing."
    )
    canary_ratio: float = Field(
        0.1,
        gt=0,
        le=1,
        description="Share of its models' requests that the first worker of a new version gets "
        "while it is watched, at most.",
    )
    settle_seconds: Seconds = Field(10.0, description="Time before a new worker is watched.")
    watch_seconds: Seconds = Field(60.0, description="Time for which it is watched, at least.")
    watch_max_seconds: Seconds = Field(
        600.0, description="Time after which it is not watched any more, with however few requests."
    )
    min_requests: int = Field(
        30, ge=1, description="Requests to new workers before they are compared with the old."
    )
    error_margin_ratio: float = Field(
        0.01, ge=0, le=1, description="Share of failed requests above the old that is borne."
    )
    latency_margin_ratio: float = Field(
        0.5,
        ge=0,
        description="By how much the 95th percentile of latency and of the time to first token "
        "may rise.",
    )
    quality_margin_nats: float = Field(
        0.1,
        ge=0,
        description="By how much log-probabilities may move away from the reference's, or without "
        "a reference from the old version's.",
    )


class BackendKind(StrEnum):
    """Who runs the workers."""

    LOCAL = "local"
    SYSTEMD = "systemd"
    RAY = "ray"


class Bus(StrEnum):
    """Which systemd starts units."""

    SYSTEM = "system"
    USER = "user"


class SystemdSettings(Section):
    """Workers as transient units of systemd."""

    bus: Bus | None = Field(
        None,
        description="system or user; the user's if ds4watch runs in a session of one other than "
        "root, else the system's.",
    )
    memory_max_bytes: int | None = Field(
        None, ge=1 << 20, description="Memory of one worker; over it systemd ends it (MemoryMax)."
    )
    slice: str | None = Field(
        None, pattern=r"^[a-zA-Z0-9_.-]+\.slice$", description="Slice that the units are put in."
    )


class RaySettings(Section):
    """Workers on a Ray cluster, through its Jobs API."""

    url: str = Field(
        "http://127.0.0.1:8265", pattern=r"^https?://", description="Address of Ray's dashboard."
    )
    token: SecretStr | None = Field(
        None, description="Token of a cluster that wants one. Default: $RAY_AUTH_TOKEN."
    )
    python: str = Field("python3", description="Interpreter on the nodes that has vLLM.")
    has_gpu: bool = Field(default=True, description="Whether workers run on GPUs there.")
    cpus: float = Field(1.0, gt=0, description="CPUs reserved for each worker.")
    first_port: Port = Field(8101, description="Workers get the first free ports of their node.")


class FleetSettings(Section):
    """What is run, and how it is tended."""

    backend: BackendKind = Field(
        BackendKind.LOCAL,
        description="Who runs the workers: local (processes of this machine), systemd, ray.",
    )
    systemd: SystemdSettings = SystemdSettings()
    ray: RaySettings = RaySettings()

    workers: tuple[WorkerSettings, ...] | None = Field(
        None, description="What to run; the tiny-full and tiny-quantized pair if not given."
    )
    external: tuple[ExtraWorker, ...] = Field((), description="Workers run by somebody else.")
    profiles_dir: str | None = Field(
        None, description="Folder of profiles, looked into before the shipped ones."
    )
    vllm_python: str | None = Field(
        None,
        description="Interpreter that has vLLM. Default: $DS4WATCH_VLLM_PYTHON, else "
        ".venv-vllm/bin/python beside the configuration or in the working folder.",
    )
    first_port: Port = Field(8101, description="Workers get the first free ports from here.")
    canary_interval_seconds: Seconds = Field(
        10.0, description="A worker without progress for so long has to answer a canary."
    )
    canary_timeout_seconds: Seconds = Field(30.0, description="Time for a canary's answer.")
    start_timeout_seconds: Seconds = Field(600.0, description="Time from start to ready.")
    stop_grace_seconds: Seconds = Field(
        15.0,
        description="Time from SIGTERM to SIGKILL; 5 s over a worker's own --shutdown-timeout at "
        "least.",
    )
    restart_backoff_seconds: Seconds = Field(2.0, description="First wait before a restart.")
    restart_backoff_max_seconds: Seconds = Field(120.0, description="Longest such wait.")
    drain_seconds: Seconds = Field(
        120.0, description="Time for a worker's open requests before it sleeps, stops or restarts."
    )
    min_hot: int = Field(
        2,
        ge=0,
        le=256,
        description="Workers that are kept ready, as far as there are so many, whatever is changed "
        "or cared for.",
    )
    sleep_after_seconds: Seconds | None = Field(
        None,
        description="A worker beyond those that is idle for so long is put to sleep, if its "
        "profile says `sleep`; never if not given.",
    )
    sleep_trial_days: float = Field(
        7.0, ge=0, description="For so long after the install that is only told, not done."
    )
    wake_waiting: float = Field(
        4.0, gt=0, description="Requests waiting for each ready worker that wake a sleeper."
    )
    wake_kv_usage_ratio: float = Field(
        0.85, gt=0, le=1, description="Use of the ready workers' KV cache that wakes a sleeper."
    )
    wake_hold_seconds: Seconds = Field(
        300.0, description="What was woken or started for need stays ready for so long."
    )
    rewarm_after_seconds: Seconds | None = Field(
        None,
        description="While all is quiet, a ready worker idle for so long is warmed up again; "
        "never if not given.",
    )
    quarantine_after: int = Field(
        5, ge=1, le=100, description="Failures in a row after which a worker is not started again."
    )
    quarantine_window_seconds: Seconds = Field(
        21_600.0, description="Failures in a row that took longer than this are no crash loop."
    )
    rolling: RollingSettings = RollingSettings()


class CareSettings(Section):
    """Periodic care of workers that wear: drained, then reset or started anew, one at a time."""

    interval_seconds: Seconds = Field(1800.0, description="Time between two rounds.")
    dry_run: bool | None = Field(
        None, description="Only tell what would be done; if not given, in an install's first week."
    )
    memory_good_seconds: Seconds = Field(
        86_400.0,
        description="A worker that was given less memory is tried with one step less of it then.",
    )


class QualitySettings(Section):
    """How answers are watched: the quantization error, golden questions, the check of a start."""

    interval_seconds: Seconds = Field(600.0, description="Time between two measurements.")
    max_age_seconds: Seconds = Field(3600.0, description="A result older than this is absent.")
    golden_sets: tuple[str, ...] | None = Field(
        None,
        description="Files of golden questions, or patterns, from this file's folder; the shipped "
        "serving/golden/mathematics-500.jsonl and tasks-120.jsonl if not given.",
    )
    golden_at: str | None = Field(
        "03:30",
        pattern=r"^([01]\d|2[0-3]):[0-5]\d$",
        description="Time of day (UTC, off-peak) at which golden questions are asked of each "
        "quantized profile and its reference, if both have a ready worker; null: never.",
    )
    golden_questions: int = Field(
        200, ge=1, le=20_000, description="So many of them are asked then, the same ones each day."
    )
    golden_at_once: int = Field(
        2,
        ge=1,
        le=32,
        description="So many golden questions at most are asked at the same time, each of a worker "
        "of its own: two ask both of a pair at once.",
    )
    golden_max_age_seconds: Seconds = Field(
        172_800.0, description="A loss of accuracy older than this is absent."
    )
    slo_seconds: Seconds = Field(
        1.2,
        description="A request that was answered within it came in time, for "
        "ds4_slo_cost_per_thousand_tokens.",
    )
    start_check: bool = Field(
        default=True,
        description="A started worker answers two fixed prompts; if tokens or log-probabilities "
        "are not what its profile gave before on the same engine and GPUs, it is quarantined and "
        "gets no request.",
    )


class Settings(Section):
    """The whole of `ds4watch.yml`."""

    state_dir: str | None = Field(
        None,
        description="Folder of databases, logs and sockets. Default: $STATE_DIRECTORY, else "
        "$XDG_STATE_HOME/ds4watch, else ~/.local/state/ds4watch.",
    )
    rules: tuple[str, ...] | None = Field(
        None, description="Rule files or patterns; the shipped rules/*.yml if not given."
    )
    policy: str | None = Field(None, description="Policy file; the shipped one if not given.")
    admin: AdminSettings = AdminSettings()
    gateway: GatewaySettings = GatewaySettings()
    scrape: ScrapeSettings = ScrapeSettings()
    source: SourceSettings = SourceSettings()
    store: StoreSettings = StoreSettings()
    fleet: FleetSettings = FleetSettings()
    care: CareSettings = CareSettings()
    provisioning: ProvisioningSettings = ProvisioningSettings()
    cost: CostSettings = CostSettings()
    notify: NotifySettings = NotifySettings()
    quality: QualitySettings = QualitySettings()
