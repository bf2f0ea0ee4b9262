"""Pools with a ladder of their own: who is asked for what, and what gateways are told of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ds4watch.model.action import Hold
from ds4watch.model.alert import AlertPhase, AlertState
from ds4watch.model.errors import ConfigError
from ds4watch.model.series import labels_of
from ds4watch.model.service_policy import Limits, PoolLevel, ServicePolicy
from ds4watch.policy.ladder import LadderState, decide, demand
from ds4watch.policy.policyfile import load_policy
from ds4watch.policy.pools import is_about, ladder_pools, spread, with_pools
from tests.unit.policy.worlds import view

TEXT = """\
pools:
  default:
    ladder: [{name: short, max_tokens_cap: 32}, {name: shorter, max_tokens_cap: 8}]
  chat:
    profiles: [big]
    ladder: [{name: brief, max_tokens_cap: 16}]
  grouped: {profiles: [small]}
bindings:
  - {match: {alertname: Queue}, level: 2}
  - {match: {alertname: Queue}, pool: chat, level: 1}
"""
POLICY = load_policy(TEXT, "policy.yml")


def queue(**labels: str) -> AlertState:
    named = labels_of({"alertname": "Queue", **labels})
    return AlertState("r", named, AlertPhase.FIRING, active_at=0.0, value=80.0, fired_at=5.0)


def test_pools_without_a_ladder_are_under_that_of_the_default() -> None:
    assert ladder_pools(POLICY) == ("default", "chat")
    assert ladder_pools(load_policy("pools: {}\n", "policy.yml")) == ("default",)


@pytest.mark.parametrize(
    ("labels", "default", "chat"),
    [
        ({}, 2, 1),
        ({"profile": "big"}, 0, 1),
        ({"profile": "small"}, 2, 0),
        ({"profile": "unheard-of"}, 2, 0),
        ({"pool": "chat"}, 0, 1),
        ({"pool": "default"}, 2, 0),
        ({"pool": "chat", "profile": "small"}, 0, 0),
    ],
)
def test_an_alert_asks_only_of_the_pool_that_it_is_about(
    labels: dict[str, str], default: int, chat: int
) -> None:
    alerts = [queue(**labels)]
    assert demand("default", POLICY, alerts).level == default
    assert demand("chat", POLICY, alerts).level == chat
    assert is_about(POLICY, "chat", labels) is bool(chat)


def test_each_pool_is_decided_by_its_own_state_and_plans_have_its_name() -> None:
    found = [
        decide(
            LadderState(pool, version=6),
            POLICY,
            [queue(profile="big")],
            holds=(),
            in_flight=False,
            unconfirmed=False,
            now=10.0,
        )
        for pool in ladder_pools(POLICY)
    ]
    assert found[0].plan is None
    assert found[1].plan is not None
    assert (found[1].plan.id, found[1].plan.target) == ("set_level:chat:7", "chat")


def test_gateways_are_told_of_new_pools_at_once_and_a_level_in_force_stays() -> None:
    fresh = with_pools(ServicePolicy(version=4, level=1), POLICY)
    assert fresh == ServicePolicy(version=5, level=1, pools=(PoolLevel("chat", ("big",)),))
    assert with_pools(fresh, POLICY) is fresh
    up = fresh.with_level("chat", replace(fresh.of_pool("chat"), level=1, version=6))
    wider = load_policy(TEXT.replace("[big]", "[big, bigger]"), "policy.yml")
    after = with_pools(up, wider)
    assert (after.version, after.levels) == (7, {"default": 1, "chat": 1})
    assert after.pools[0].profiles == ("big", "bigger")


def test_the_level_of_a_pool_that_the_file_has_no_more_is_let_go() -> None:
    before = ServicePolicy(version=4, pools=(PoolLevel("gone", ("big",), level=3),))
    after = with_pools(before, load_policy("pools: {}\n", "policy.yml"))
    assert after == ServicePolicy(version=5)


def test_a_policy_with_pools_is_read_as_it_was_written_and_one_from_before_has_none() -> None:
    tight = Limits(max_tokens_cap=8)
    pool = PoolLevel("chat", ("big",), 1, "brief", tight, (Limits(), tight), "why", 9.0, "id")
    policy = ServicePolicy(version=3, pools=(pool,))
    assert ServicePolicy.from_json(policy.as_json()) == policy
    older = {name: it for name, it in policy.as_json().items() if name != "pools"}
    assert ServicePolicy.from_json(older) == ServicePolicy(version=3)


@pytest.mark.parametrize(
    ("pools", "message"),
    [
        ("  a:\n    ladder: [{name: x}]\n", "pool 'a' has a ladder and names no profile"),
        (
            "  a: &p {profiles: [p], ladder: [{name: x}]}\n  b: *p\n",
            "profile 'p' is of pool 'a', which has a ladder too",
        ),
        (
            "  a:\n    profiles: [p]\n    ladder: [{name: x, max_inflight: 3}]\n",
            "holds for the whole gateway, not for one pool",
        ),
    ],
)
def test_a_ladder_that_cannot_be_a_pools_is_told_with_its_line(pools: str, message: str) -> None:
    with pytest.raises(ConfigError, match=r"policy\.yml:\d") as told:
        load_policy("pools:\n" + pools, "policy.yml")
    assert message in str(told.value)


@pytest.mark.parametrize(
    ("target", "held"),
    [
        ("chat", ["big-0"]),
        ("grouped", ["small-0"]),
        ("default", ["big-0", "small-0", "else-0"]),
        ("big-0", []),  # it is one of a worker already
        ("nobody", []),
    ],
)
def test_a_hold_on_a_pool_is_one_on_each_of_its_workers(target: str, held: list[str]) -> None:
    workers = [view(f"{it}-0", profile=it) for it in ("big", "small", "else")]
    hold = Hold(target, 10.0, "ann", "hands off", 0.0)
    found = spread(POLICY, [hold], workers)
    assert found[0] == hold
    assert [it.target for it in found[1:]] == held
    assert {it.who for it in found} == {"ann"}
    assert spread(load_policy("pools: {}\n", "policy.yml"), [hold], workers)[0] == hold
