from __future__ import annotations

from ds4watch.engine.gateway_signals import gateway_samples
from ds4watch.fleet.board import GatewayView


def told(name: str, **more: object) -> GatewayView:
    return GatewayView(name, 1, 1, inflight=0, **more)  # type: ignore[arg-type]


def test_what_the_gateways_tell_is_added_up() -> None:
    one = told("g0", aside={"a": "slow", "b": "errors"}, long_open=2, long_sessions=(30, 1))
    two = told("g1", aside={"a": "slow"}, long_waiting=5, long_sessions=(10, 3))
    silent = GatewayView("g2", 1, 1)
    found = {(it.name, it.labels): it.value for it in gateway_samples([one, two, silent])}
    assert found == {
        ("ds4_gateway_set_aside", (("reason", "slow"), ("worker", "a"))): 2.0,
        ("ds4_gateway_set_aside", (("reason", "errors"), ("worker", "b"))): 1.0,
        ("ds4_gateway_long_requests", (("state", "open"),)): 2.0,
        ("ds4_gateway_long_requests", (("state", "waiting"),)): 5.0,
        ("ds4_session_error_ratio", ()): 0.1,
    }


def test_without_conversations_there_is_no_ratio_and_without_gateways_nothing() -> None:
    assert "ds4_session_error_ratio" not in {it.name for it in gateway_samples([told("g0")])}
    assert gateway_samples([]) == gateway_samples([GatewayView("g0", 1, 1)]) == []
