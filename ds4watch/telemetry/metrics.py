"""What ds4watch says of itself and its fleet on /metrics, in Prometheus' text format 0.0.4."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import product

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from ds4watch import __version__
from ds4watch.model.action import ActionKind, ActionStatus
from ds4watch.model.series import Labels, Sample, labels_of
from ds4watch.vocabulary.names import EXPOSED, signal_of
from ds4watch.vocabulary.signal import Signal, SignalType

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""Content-Type of what `render` returns."""

log = logging.getLogger(__name__)

_ENDS = (ActionStatus.APPLIED, ActionStatus.FAILED, ActionStatus.UNKNOWN)


class ProcessMetrics:
    """The figures that ds4watch keeps about itself; parts increase them as they go."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.tick_seconds = _histogram("ds4_tick_seconds", registry)
        self.wave_seconds = _histogram("ds4_wave_seconds", registry)
        self.tick_overruns = _counter("ds4_tick_overruns_total", registry)
        self.scrapes = _counter("ds4_scrapes_total", registry)
        self.scrape_failures = _counter("ds4_scrape_failures_total", registry)
        self.discovery_targets = _gauge("ds4_discovery_targets", registry)
        self.discovery_failures = _counter("ds4_discovery_failures_total", registry)
        self.gpu_leftover = _gauge("ds4_gpu_leftover_bytes", registry)
        self.job_failures = _counter("ds4_job_failures_total", registry)
        self.job_last_success = _gauge("ds4_job_last_success_timestamp_seconds", registry)
        self.actions = _counter("ds4_actions_total", registry)
        self.notifications = _counter("ds4_notifications_total", registry)
        self.outbox_waiting = _gauge("ds4_outbox_groups", registry)
        self.outbox_oldest = _gauge("ds4_outbox_oldest_seconds", registry)
        self.notify_up = _gauge("ds4_notify_channel_up", registry)
        self.notify_commands = _counter("ds4_notify_commands_total", registry)
        self.external_left_out = _counter("ds4_external_alerts_left_out_total", registry)
        self.heartbeat = _gauge("ds4_heartbeat_last_success_timestamp_seconds", registry)
        self.leader = _gauge("ds4_leader", registry)
        build = EXPOSED["ds4_build_info"]
        info = Gauge(build.name, build.help, build.labels, registry=registry)
        info.labels(__version__).set(1)
        self._registry = registry
        for kind, status in product(ActionKind, _ENDS):
            # From the start, or the first of each kind would be a series and no increase.
            self.actions.labels(kind.value, status.value)

    def samples(self) -> list[Sample]:
        """Return the figures as they stand, as they are on the page."""
        return [
            Sample(it.name, labels_of(it.labels), it.value)
            for family in self.families()
            for it in family.samples
        ]

    def families(self) -> Iterator[Metric]:
        """Yield each family, without the birth times that the library adds to counters."""
        for family in self._registry.collect():
            created = f"{family.name}_created"
            family.samples = [sample for sample in family.samples if sample.name != created]
            yield family


class SignalCollector(Collector):
    """Exposes the samples last published, with type and help from the vocabulary.

    A series that no signal is named after, or that appears twice, is left out: one such line makes
    Prometheus refuse the whole page.
    """

    def __init__(self) -> None:
        self._samples: Iterable[Sample] = ()
        self._told: set[str] = set()

    def publish(self, samples: Iterable[Sample]) -> None:
        """Replace what is exposed; it is gone through when somebody asks, each time anew."""
        self._samples = samples

    def collect(self) -> Iterator[Metric]:
        """Yield a family for each signal that has samples."""
        families: dict[str, list[Sample]] = {}
        seen: set[tuple[str, Labels]] = set()
        for sample in self._samples:
            signal = signal_of(sample.name)
            series = (sample.name, sample.labels)
            if signal is None or series in seen:
                self._tell(sample.name, "appears twice" if signal else "is not in the vocabulary")
                continue
            seen.add(series)
            families.setdefault(signal.name, []).append(sample)
        for name in sorted(families):
            yield _family(EXPOSED[name], families[name])

    def _tell(self, name: str, what: str) -> None:
        if name not in self._told:
            self._told.add(name)
            log.error("series %s %s; it is not exposed, a fault of ds4watch", name, what)


class Telemetry:
    """The page at /metrics: what ds4watch keeps about itself, and the signals of the fleet."""

    def __init__(self) -> None:
        self.process = ProcessMetrics(CollectorRegistry(auto_describe=False))
        self.signals = SignalCollector()
        self._page = _Page(self.process, self.signals)

    def render(self) -> bytes:
        """Return the page. Its Content-Type is CONTENT_TYPE."""
        return generate_latest(self._page)


class _Page(Collector):
    """Both halves of the page, one after the other."""

    def __init__(self, process: ProcessMetrics, signals: SignalCollector) -> None:
        self._process = process
        self._signals = signals

    def collect(self) -> Iterable[Metric]:
        yield from self._process.families()
        yield from self._signals.collect()


def _family(signal: Signal, samples: Sequence[Sample]) -> Metric:
    name = signal.name
    if signal.type is SignalType.COUNTER:
        name = name.removesuffix("_total")  # the library's families are named without it
    family = Metric(name, signal.help, signal.type.value)
    for sample in samples:
        family.add_sample(sample.name, dict(sample.labels), sample.value)
    return family


def _counter(name: str, registry: CollectorRegistry) -> Counter:
    signal = EXPOSED[name]
    return Counter(signal.name, signal.help, signal.labels, registry=registry)


def _gauge(name: str, registry: CollectorRegistry) -> Gauge:
    signal = EXPOSED[name]
    return Gauge(signal.name, signal.help, signal.labels, registry=registry)


def _histogram(name: str, registry: CollectorRegistry) -> Histogram:
    signal = EXPOSED[name]
    return Histogram(
        signal.name, signal.help, signal.labels, registry=registry, buckets=signal.edges
    )
