from __future__ import annotations

import re

import pytest

from ds4watch.vocabulary.names import EXPOSED, signal_of
from ds4watch.vocabulary.signal import Signal, SignalType


@pytest.mark.parametrize("signal", EXPOSED.values(), ids=lambda signal: str(signal.name))
def test_names_follow_the_rules_of_prometheus(signal: Signal) -> None:
    assert re.fullmatch(r"(ds4|llm)_[a-z][a-z0-9_]*", signal.name)  # llm: OpenCost's
    assert signal.name.endswith("_total") == (signal.type is SignalType.COUNTER)
    assert signal.help.endswith(".") or signal.help.startswith("1")
    assert bool(signal.edges) == (signal.type is SignalType.HISTOGRAM)
    assert list(signal.edges) == sorted(signal.edges)
    assert len(set(signal.labels)) == len(signal.labels)


@pytest.mark.parametrize(
    ("series", "signal"),
    [
        ("ds4_queue_depth", "ds4_queue_depth"),
        ("ds4_gateway_request_duration_seconds_bucket", "ds4_gateway_request_duration_seconds"),
        ("ds4_gateway_request_duration_seconds_sum", "ds4_gateway_request_duration_seconds"),
        ("ds4_gateway_request_duration_seconds_count", "ds4_gateway_request_duration_seconds"),
        ("ds4_queue_depth_count", None),
        ("vllm:num_requests_running", None),
        ("", None),
    ],
)
def test_a_series_belongs_to_its_signal(series: str, signal: str | None) -> None:
    found = signal_of(series)
    assert (found.name if found else None) == signal


def test_a_bucket_edge_lies_at_the_1200_ms_that_rules_ask_about() -> None:
    assert 1.2 in EXPOSED["ds4_gateway_request_duration_seconds"].edges
