from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ds4watch.model.errors import ConfigError
from ds4watch.model.usage import Usage
from ds4watch.sim.faults import (
    Fault,
    Faults,
    FaultSwitch,
    parse_fault,
    spoil,
    with_longer_queue,
)
from ds4watch.sim.load import LoadSettings, LoadSummary, check, prompt, usage_of
from ds4watch.sim.settings import ServerSettings, SimSettings
from ds4watch.sim.settings import check as check_sim


@pytest.mark.parametrize(
    "url",
    ["http://10.0.0.1:8400", "http://example.org", "https://0.0.0.0:1", "8400", "ftp://127.0.0.1"],
)
def test_load_goes_to_this_machine_only(url: str) -> None:
    with pytest.raises(ConfigError, match="loopback"):
        check(LoadSettings(url=url))


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1"])
def test_loopback_by_any_name_is_taken(url: str) -> None:
    check(LoadSettings(url=url))


@pytest.mark.parametrize(
    ("bad", "flag"),
    [
        ({"concurrency": 513}, "--concurrency"),
        ({"concurrency": 0}, "--concurrency"),
        ({"seconds": 601.0}, "--seconds"),
        ({"requests": 100_001}, "--requests"),
        ({"shared_prefix_ratio": 1.5}, "--shared-prefix-ratio"),
    ],
)
def test_what_would_be_too_much_is_named_by_its_option(bad: dict[str, int], flag: str) -> None:
    with pytest.raises(ConfigError, match=flag):
        check(replace(LoadSettings(), **bad))  # type: ignore[arg-type]


@pytest.mark.parametrize("ratio", [0.0, 0.5, 1.0])
def test_prompts_share_their_beginning_and_then_part(ratio: float) -> None:
    settings = LoadSettings(prompt_tokens=80, shared_prefix_ratio=ratio)
    one, two = prompt(settings, 1), prompt(settings, 2)
    shared = round(80 * ratio)
    assert len(one) == len(two) == 80
    assert one[:shared] == two[:shared]
    assert one[shared:][:1] != two[shared:][:1] or ratio == 1
    assert one == prompt(settings, 1)


def test_usage_is_read_from_a_body_and_from_the_last_event_of_a_stream() -> None:
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 4},
    }
    body = json.dumps({"usage": usage}).encode()
    expected = Usage(prompt=9, cached=4, completion=3)
    assert usage_of(body, stream=False) == expected
    events = b'data: {"choices":[1]}\n\ndata: ' + body + b"\n\ndata: [DONE]\n\n"
    assert usage_of(events, stream=True) == expected
    for broken in (b"", b'data: {"choices":[1]}\n\n', b'data: {"error": {}}\n\n'):
        assert usage_of(broken, stream=True) is None


@pytest.mark.parametrize(
    ("latencies", "p50", "p95"),
    [([], None, None), ([3.0], 3.0, 3.0), ([float(n) for n in range(100, 0, -1)], 50.0, 95.0)],
)
def test_percentiles(latencies: list[float], p50: float | None, p95: float | None) -> None:
    summary = LoadSummary(latencies_seconds=latencies)
    assert (summary.percentile(50), summary.percentile(95)) == (p50, p95)


def test_a_fault_is_named_with_or_without_a_value() -> None:
    assert parse_fault("slow") == FaultSwitch(Fault.SLOW, 10.0)
    assert parse_fault("slow=2.5") == FaultSwitch(Fault.SLOW, 2.5)
    for wrong in ("slo", "slow=0", "slow=x", "http_500=2"):
        with pytest.raises(ConfigError, match="known: hang"):
            parse_fault(wrong)


def test_a_share_of_requests_fails_evenly() -> None:
    faults = Faults((FaultSwitch(Fault.HTTP_500, 0.25),))
    assert [faults.next_request_fails() for _ in range(8)].count(True) == 2
    faults.set(FaultSwitch(Fault.HTTP_500, 0.25), on=False)
    assert not any(faults.next_request_fails() for _ in range(8))


def test_spoilt_pages() -> None:
    page = b"\n".join(b"line %d" % number for number in range(12))
    assert spoil(Fault.METRICS_EMPTY, page) == b""
    waiting = b'\nvllm:num_requests_waiting{engine="0",model_name="sim"} '
    assert with_longer_queue(b"a 1" + waiting + b"3.0\nb 2", 60.0) == (
        b"a 1" + waiting + b"63.0\nb 2"
    )
    assert spoil(Fault.HALF_METRICS, page) == page[: len(page) // 2]
    assert b"not a number" in spoil(Fault.MALFORMED_METRICS, page)


def test_a_cache_too_small_for_one_request_is_refused_at_start() -> None:
    with pytest.raises(ConfigError, match="would not fit"):
        check_sim(SimSettings(kv_blocks=10, block_size=16), ServerSettings())
    with pytest.raises(ConfigError, match="65535"):
        check_sim(SimSettings(), ServerSettings(port=65000, count=1000))
