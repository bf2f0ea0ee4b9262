from __future__ import annotations

from pathlib import Path

import pytest

from ds4watch.vocabulary.known import KnownMetrics

PAGES = Path(__file__).resolve().parents[2] / "data" / "metrics"
NOT_WORTH_A_RULE = "_created"


@pytest.mark.parametrize("name", ["vllm-0.32-cpu-loaded.prom", "vllm-v06-idle-hitrate-minus1.prom"])
def test_every_series_of_an_engine_page_is_known(name: str) -> None:
    lines = (PAGES / name).read_text().splitlines()
    names = {line.split("{")[0].split()[0] for line in lines if line and line[0] != "#"}
    known = KnownMetrics()
    assert not {it for it in names if not it.endswith(NOT_WORTH_A_RULE) and not known.is_known(it)}


def test_a_slip_of_the_pen_is_not_known_and_has_a_neighbour() -> None:
    known = KnownMetrics()
    assert not known.is_known("vllm:num_request_waiting")
    assert known.nearest("vllm:num_request_waiting") == "vllm:num_requests_waiting"
    assert known.nearest("node_load1") is None
