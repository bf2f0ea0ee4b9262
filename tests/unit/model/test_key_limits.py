from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.model.key_limits import KeyLimits
from ds4watch.model.service_policy import ApiKey

RATES = st.none() | st.integers(1, 10**9)


@given(
    st.builds(
        KeyLimits,
        requests_per_minute=RATES,
        tokens_per_minute=RATES,
        concurrency=RATES,
        models=st.lists(st.text(max_size=9)).map(tuple),
        priority=st.none() | st.integers(0, 9),
        work_class=st.text(max_size=9),
        may_refuse_degrading=st.booleans(),
    )
)
def test_a_keys_limits_survive_the_way_through_json(limits: KeyLimits) -> None:
    key = ApiKey("team-a", "00" * 32, limits)
    assert ApiKey.from_json(json.loads(json.dumps(key.as_json()))) == key


@pytest.mark.parametrize(
    "odd",
    [
        {"requests_per_minute": 0},
        {"tokens_per_minute": "9"},
        {"concurrency": True},
        {"priority": 10},
        {"work_class": 5},
        {"may_refuse_degrading": "no"},
        {"models": 5},
    ],
)
def test_limits_out_of_bounds_are_refused(odd: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        KeyLimits.from_json(odd)


def test_a_key_of_an_older_daemon_has_no_limits() -> None:
    assert ApiKey.from_json({"name": "a", "sha256": "b", "newer": 1}).limits == KeyLimits()
