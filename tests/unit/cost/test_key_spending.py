from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ds4watch.cost.key_spending import spent_by_key
from ds4watch.model.key_budget import KeyUse
from ds4watch.model.usage import Usage

HOUR = 3600.0


def test_the_money_of_a_busy_worker_is_shared_by_what_was_computed() -> None:
    uses = [
        KeyUse(HOUR, "w", "a", Usage(100, 60, 16)),  # 2 * 40 + 5 * 16
        KeyUse(HOUR, "w", "b", Usage(20)),
        KeyUse(HOUR, "v", "a", Usage(5, 5)),  # all of it was cached
        KeyUse(2 * HOUR, "w", "a", Usage(1)),
    ]
    busy = {(HOUR, "w"): 1000, (HOUR, "v"): 50, (2 * HOUR, "w"): 7}
    assert spent_by_key(uses, busy) == {"a": {HOUR: 800, 2 * HOUR: 7}, "b": {HOUR: 200}}


USES = st.builds(
    KeyUse,
    st.sampled_from([0.0, HOUR]),
    st.sampled_from("vw"),
    st.sampled_from(["", "a", "b"]),
    st.builds(Usage, *[st.integers(0, 10**9)] * 3),
)


@given(st.lists(USES), st.integers(0, 10**18))
def test_never_is_more_given_out_than_was_spent(uses: list[KeyUse], nanos: int) -> None:
    busy = {(hour, worker): nanos for hour in (0.0, HOUR) for worker in "vw"}
    given_out = sum(sum(hours.values()) for hours in spent_by_key(uses, busy).values())
    assert given_out <= sum(busy.values())
