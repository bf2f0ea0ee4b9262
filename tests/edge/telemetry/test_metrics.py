from __future__ import annotations

import asyncio
import math
import socket
import subprocess
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families

from ds4watch import __version__
from ds4watch.model.series import Sample, labels_of
from ds4watch.telemetry.metrics import CONTENT_TYPE, Telemetry
from ds4watch.vocabulary.names import EXPOSED, PROCESS_SIGNALS
from ds4watch.vocabulary.signal import Signal, SignalType

WORKER = {"worker": "w1", "profile": "tiny-full", "model": "tiny"}


def sample(name: str, value: float, **labels: str) -> Sample:
    return Sample(name, labels_of(labels), value)


def samples_of(signal: Signal) -> list[Sample]:
    """Make two series of a signal, or one if it has no labels."""
    names = ["a", 'b"\\\n'] if signal.labels else [""]
    found: list[Sample] = []
    for text in names:
        labels = dict.fromkeys(signal.labels, text)
        if signal.type is not SignalType.HISTOGRAM:
            found.append(sample(signal.name, 1.5, **labels))
            continue
        for count, edge in enumerate((*signal.edges, math.inf)):
            le = "+Inf" if edge == math.inf else str(float(edge))
            found.append(sample(f"{signal.name}_bucket", count, **labels, le=le))
        found.append(sample(f"{signal.name}_count", len(signal.edges), **labels))
        found.append(sample(f"{signal.name}_sum", 12.5, **labels))
    return found


@pytest.fixture
def everything() -> Telemetry:
    """Give a page on which each signal there is has series."""
    telemetry = Telemetry()
    kept = {signal.name for signal in PROCESS_SIGNALS}
    telemetry.signals.publish(
        [
            made
            for signal in EXPOSED.values()
            if signal.name not in kept
            for made in samples_of(signal)
        ]
    )
    process = telemetry.process
    for histogram in (process.tick_seconds, process.wave_seconds):
        histogram.observe(0.3)
    process.tick_overruns.inc()
    process.job_failures.labels("prune").inc()
    process.job_last_success.labels("prune").set(1.0)
    process.scrape_failures.labels("timeout").inc()
    process.actions.labels("set_level", "applied").inc()
    process.notifications.labels("webhook", "sent").inc()
    return telemetry


def values_of(page: bytes) -> dict[tuple[str, ...], float]:
    return {
        (
            found.name,
            *(f"{name}={value}" for name, value in sorted(found.labels.items())),
        ): found.value
        for family in text_string_to_metric_families(page.decode())
        for found in family.samples
    }


def test_published_samples_are_exposed_with_type_and_help() -> None:
    telemetry = Telemetry()
    telemetry.signals.publish(
        [
            sample("ds4_queue_depth", 3.0, **WORKER),
            sample("ds4_prompt_tokens_total", 67049.0, **WORKER),
        ]
    )
    page = telemetry.render().decode()
    labels = '{model="tiny",profile="tiny-full",worker="w1"}'
    assert "# TYPE ds4_queue_depth gauge\n" + f"ds4_queue_depth{labels} 3.0\n" in page
    assert (
        "# TYPE ds4_prompt_tokens_total counter\n" + f"ds4_prompt_tokens_total{labels} 67049.0\n"
        in page
    )
    for name in ("ds4_queue_depth", "ds4_prompt_tokens_total"):
        assert f"# HELP {name} {EXPOSED[name].help}\n" in page


def test_what_is_published_next_replaces_what_was() -> None:
    telemetry = Telemetry()
    telemetry.signals.publish([sample("ds4_queue_depth", 3.0, **WORKER)])
    telemetry.signals.publish([sample("ds4_running_requests", 1.0, **WORKER)])
    page = telemetry.render()
    assert b"ds4_running_requests{" in page
    assert b"ds4_queue_depth" not in page


def test_a_signal_without_samples_is_absent() -> None:
    assert b"ds4_gpu_memory_used_bytes" not in Telemetry().render()


def test_every_signal_appears_once_with_its_own_type(everything: Telemetry) -> None:
    page = everything.render().decode()
    types = [line.split()[2:] for line in page.splitlines() if line.startswith("# TYPE")]
    assert sorted(types) == sorted([signal.name, signal.type.value] for signal in EXPOSED.values())


def test_no_series_appears_twice_and_no_birth_times_at_all(everything: Telemetry) -> None:
    lines = [line for line in everything.render().decode().splitlines() if line[0] != "#"]
    series = [line.rpartition(" ")[0] for line in lines]
    assert len(set(series)) == len(series)
    assert not [name for name in series if "_created" in name]


def test_a_histogram_in_samples_is_exposed_as_one_family() -> None:
    telemetry = Telemetry()
    telemetry.signals.publish(samples_of(EXPOSED["ds4_gateway_request_duration_seconds"]))
    families = {
        family.name: family
        for family in text_string_to_metric_families(telemetry.render().decode())
    }
    family = families["ds4_gateway_request_duration_seconds"]
    assert family.type == "histogram"
    assert len(family.samples) == 15 + 1 + 2


def test_process_metrics_count_from_nought_and_tell_the_version(everything: Telemetry) -> None:
    found = values_of(everything.render())
    assert found["ds4_build_info", f"version={__version__}"] == 1
    assert found["ds4_actions_total", "kind=set_level", "status=applied"] == 1
    assert found["ds4_scrape_failures_total", "reason=timeout"] == 1
    assert found["ds4_tick_seconds_count",] == 1
    assert values_of(Telemetry().render())["ds4_tick_overruns_total",] == 0


def test_two_pages_in_one_process_do_not_know_each_other() -> None:
    one, other = Telemetry(), Telemetry()
    one.process.tick_overruns.inc()
    assert values_of(other.render())["ds4_tick_overruns_total",] == 0


@pytest.mark.parametrize(
    ("published", "told"),
    [
        ([sample("ds4_queue_depth", 1.0), sample("ds4_queue_depth", 2.0)], "appears twice"),
        ([sample("ds4_queue_depth", 1.0), sample("nonsense", 2.0)], "not in the vocabulary"),
    ],
)
def test_a_faulty_series_is_left_out_and_told_once(
    published: Sequence[Sample], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    telemetry = Telemetry()
    telemetry.signals.publish(published)
    page = telemetry.render()
    assert telemetry.render() == page
    assert values_of(page)["ds4_queue_depth",] == 1.0
    assert b"nonsense" not in page
    assert caplog.text.count(told) == 1


@pytest.mark.prometheus
@pytest.mark.needs("promtool")
def test_promtool_has_nothing_to_say_of_the_page(everything: Telemetry) -> None:
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input=everything.render(),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.fixture
async def exposed(everything: Telemetry) -> AsyncIterator[int]:
    """Serve the page; give the port."""

    async def page(_: web.Request) -> web.Response:
        return web.Response(body=everything.render(), headers={"Content-Type": CONTENT_TYPE})

    application = web.Application()
    application.router.add_get("/metrics", page)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield runner.addresses[0][1]
    await runner.cleanup()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
async def prometheus(exposed: int, tmp_path: Path) -> AsyncIterator[tuple[str, Path]]:
    """Run a Prometheus that scrapes the page four times a second; give its address and log."""
    program = "prometheus"
    (tmp_path / "prometheus.yml").write_text(
        "global: {scrape_interval: 250ms, scrape_timeout: 250ms}\n"
        "scrape_configs:\n"
        "- job_name: ds4watch\n"
        f"  static_configs: [{{targets: ['127.0.0.1:{exposed}']}}]\n"
    )
    port = free_port()
    with (tmp_path / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            program,
            f"--config.file={tmp_path / 'prometheus.yml'}",
            f"--storage.tsdb.path={tmp_path / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=debug",
            stdout=log,
            stderr=log,
        )
    yield f"http://127.0.0.1:{port}", tmp_path / "log"
    process.terminate()
    await process.wait()


async def ask(address: str, query: str) -> list[tuple[dict[str, str], float]]:
    async with aiohttp.ClientSession() as session:
        for _ in range(100):
            try:
                async with session.get(
                    f"{address}/api/v1/query", params={"query": query}
                ) as answer:
                    result = (await answer.json())["data"]["result"]
            except (aiohttp.ClientError, KeyError):
                result = []
            if result:
                return [(found["metric"], float(found["value"][1])) for found in result]
            await asyncio.sleep(0.1)
    pytest.fail(f"Prometheus has no answer to {query}")


@pytest.mark.needs("prometheus")
@pytest.mark.prometheus
async def test_a_real_prometheus_scrapes_the_page_without_a_warning_and_knows_its_types(
    prometheus: tuple[str, Path], everything: Telemetry
) -> None:
    address, log = prometheus
    ((_, scrapes),) = await ask(address, "count_over_time(up[1m]) >= 3")
    ((_, lowest),) = await ask(address, "min_over_time(up[1m])")
    ((_, stored),) = await ask(address, "scrape_samples_post_metric_relabeling")
    assert scrapes >= 3
    assert lowest == 1
    assert stored == len(values_of(everything.render()))
    odd = [
        line
        for line in log.read_text().splitlines()
        if "scrape" in line and ("level=warn" in line or "level=error" in line or "err=" in line)
    ]
    assert odd == []
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{address}/api/v1/metadata") as answer,
    ):
        told = {name: entry[0]["type"] for name, entry in (await answer.json())["data"].items()}
    assert told == {signal.name: signal.type.value for signal in EXPOSED.values()}


def test_what_the_store_is_given_of_ourselves_is_what_the_page_shows() -> None:
    telemetry = Telemetry()
    telemetry.process.scrape_failures.labels("timeout").inc()
    telemetry.process.tick_seconds.observe(0.3)
    given = {
        (it.name, *(f"{name}={value}" for name, value in it.labels)): it.value
        for it in telemetry.process.samples()
    }
    assert given == values_of(telemetry.render())


def test_how_actions_end_is_counted_from_zero_so_that_the_first_is_an_increase() -> None:
    values = values_of(Telemetry().render())
    assert values["ds4_actions_total", "kind=set_level", "status=applied"] == 0
