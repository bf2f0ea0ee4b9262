from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ds4watch.cost.key_spending import spent_by_key
from ds4watch.model.key_budget import KeyUse

HOUR = 3600.0


def test_the_money_of_a_busy_worker_is_shared_by_what_was_computed() -> None:
    uses = [
        KeyUse(HOUR, "w", "a", 100, 60, 10),  # 40 + 4 * 10
        KeyUse(HOUR, "w", "b", 20, 0, 0),
        KeyUse(HOUR, "v", "a", 5, 5, 0),  # all of it was cached
        KeyUse(2 * HOUR, "w", "a", 1, 0, 0),
    ]
    busy = {(HOUR, "w"): 1000, (HOUR, "v"): 50, (2 * HOUR, "w"): 7}
    assert spent_by_key(uses, busy) == {"a": {HOUR: 800, 2 * HOUR: 7}, "b": {HOUR: 200}}


USES = st.builds(
    KeyUse,
    st.sampled_from([0.0, HOUR]),
    st.sampled_from("vw"),
    st.sampled_from(["", "a", "b"]),
    *[st.integers(0, 10**9)] * 3,
)


@given(st.lists(USES), st.integers(0, 10**18))
def test_never_is_more_given_out_than_was_spent(uses: list[KeyUse], nanos: int) -> None:
    busy = {(hour, worker): nanos for hour in (0.0, HOUR) for worker in "vw"}
    given_out = sum(sum(hours.values()) for hours in spent_by_key(uses, busy).values())
    assert given_out <= sum(busy.values())
