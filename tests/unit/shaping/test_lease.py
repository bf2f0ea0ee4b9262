from __future__ import annotations

from dataclasses import replace

import pytest

from ds4watch.model.service_policy import Limits, PoolLevel, ServicePolicy
from ds4watch.shaping.lease import lapsed

LADDER = (Limits(), Limits(max_tokens_cap=64), Limits(max_tokens_cap=16))
POLICY = ServicePolicy(
    version=3,
    level=2,
    level_name="tight",
    limits=LADDER[2],
    ladder=LADDER,
    excluded_workers=("bad",),
    lease_seconds=100,
)


@pytest.mark.parametrize(
    ("silent", "level", "cap"),
    [(0, 2, 16), (99, 2, 16), (100, 1, 64), (199, 1, 64), (200, 0, None), (1e9, 0, None)],
)
def test_a_level_is_taken_back_for_each_lease_without_a_daemon(
    silent: float, level: int, cap: int | None
) -> None:
    after = lapsed(POLICY, silent)
    assert (after.level, after.limits.max_tokens_cap) == (level, cap)
    assert after.excluded_workers == ("bad",)
    assert after.version == 3


def test_a_policy_at_level_zero_or_without_a_lease_stays() -> None:
    assert lapsed(ServicePolicy(), 1e9) == ServicePolicy()
    endless = replace(POLICY, lease_seconds=0)
    assert lapsed(endless, 1e9) is endless


def test_a_ladder_with_missing_rungs_falls_to_no_limits() -> None:
    after = lapsed(replace(POLICY, ladder=()), 100)
    assert (after.level, after.limits) == (1, Limits())


def test_the_level_of_each_pool_is_taken_back_by_itself() -> None:
    own = PoolLevel("chat", ("big",), 1, "brief", LADDER[1], LADDER[:2])
    after = lapsed(replace(POLICY, level=0, pools=(own,)), 100)
    assert after.levels == {"default": 0, "chat": 0}
    assert after.pools[0].limits == Limits()
    after = lapsed(replace(POLICY, pools=(own,)), 100)
    assert after.levels == {"default": 1, "chat": 0}
