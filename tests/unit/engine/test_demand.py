"""Which models requests found nobody for, by the counters that gateways tell."""

from __future__ import annotations

from ds4watch.engine.warm_pool import Demand
from ds4watch.fleet.board import GatewayView


def gateway(pid: int = 1, **unserved: int) -> GatewayView:
    return GatewayView("g0", pid, 0, unserved=unserved)


def test_a_model_is_asked_for_while_its_count_rises_and_a_moment_longer() -> None:
    demand = Demand()
    assert demand.note([gateway()], 0.0) == frozenset()
    assert demand.note([gateway(m=1)], 1.0) == {"m"}
    assert demand.note([gateway(m=1)], 10.0) == {"m"}
    assert demand.note([gateway(m=1)], 11.0) == frozenset()
    assert demand.note([gateway(m=2)], 12.0) == {"m"}


def test_a_gateway_that_began_anew_counts_from_nothing() -> None:
    demand = Demand()
    demand.note([gateway(m=5)], 0.0)
    assert demand.note([gateway(2)], 60.0) == frozenset()
    assert demand.note([gateway(2, m=1)], 61.0) == {"m"}
