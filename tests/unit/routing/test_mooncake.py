"""Conversations find what is cached of them: the Mooncake trace, with simulated caches."""

from __future__ import annotations

from pathlib import Path

import pytest

from ds4watch.config.routing import RoutingSettings
from tests.unit.routing.mooncake import (
    Played,
    Turn,
    least_load,
    ours,
    played,
    read_trace,
    round_robin,
)

ROOT = Path(__file__).resolve().parents[3]
HEAD = ROOT / "tests" / "data" / "traces" / "mooncake-conversation-head.jsonl"
WHOLE = ROOT.parent / "shared" / "traces" / "mooncake-conversation.jsonl"
NAMES = [f"w{at}" for at in range(8)]
UNSPLIT = RoutingSettings(long_tokens=None)


def results(trace: list[Turn], blocks: int) -> dict[str, Played]:
    found = {
        "round robin": played(trace, NAMES, blocks, round_robin(NAMES)),
        "least load": played(trace, NAMES, blocks, least_load(NAMES)),
        "ours": played(trace, NAMES, blocks, ours(NAMES, UNSPLIT)),
        "ours, long ones apart": played(trace, NAMES, blocks, ours(NAMES, RoutingSettings())),
        "one cache as large as all": played(trace, ["w0"], 8 * blocks, lambda *_: "w0"),
        "one infinite cache": played(trace, ["w0"], None, lambda *_: "w0"),
    }
    for name, it in found.items():
        print(f"{name}: {it.hit_ratio:.1%} found, busiest {it.busiest_ratio:.2f} of the mean")
    return found


@pytest.mark.parametrize("blocks", [1000, 4000])
def test_more_is_found_in_the_caches_than_by_round_robin_or_least_load(blocks: int) -> None:
    found = results(list(read_trace(HEAD)), blocks)
    others = max(found["round robin"].hit_ratio, found["least load"].hit_ratio)
    assert found["ours"].hit_ratio > 1.8 * others
    assert found["ours, long ones apart"].hit_ratio > 1.5 * others
    assert found["ours"].busiest_ratio < 1.5


def test_on_the_whole_trace_nearly_all_is_found_that_can_be() -> None:
    if not WHOLE.exists():
        pytest.skip("the whole Mooncake trace is not here")
    found = results(list(read_trace(WHOLE)), 8000)
    others = max(found["round robin"].hit_ratio, found["least load"].hit_ratio)
    assert found["ours"].hit_ratio > 2.5 * others
    assert found["ours"].hit_ratio > 0.95 * found["one infinite cache"].hit_ratio
    assert found["ours"].busiest_ratio < 1.25
