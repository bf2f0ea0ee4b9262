"""What is booked of a request is what its readers know as a record."""

from __future__ import annotations

import json
from dataclasses import fields

from hypothesis import given
from hypothesis import strategies as st

from ds4watch.gateway.call import Call
from ds4watch.model.usage import RequestOutcome, RequestRecord, RetryReason, Usage

COUNTS = st.integers(0, 2**70)
SECONDS = st.floats(0, 1e9)
TEXTS = st.text(alphabet=st.characters(), max_size=20)


@given(
    names=st.tuples(TEXTS, TEXTS, TEXTS, TEXTS, TEXTS, TEXTS),
    times=st.tuples(SECONDS, SECONDS, SECONDS, st.none() | SECONDS),
    usage=st.none() | st.builds(Usage, COUNTS, COUNTS, COUNTS),
    outcome=st.sampled_from(RequestOutcome),
    flags=st.tuples(st.booleans(), st.booleans()),
    lists=st.tuples(
        st.lists(TEXTS, max_size=2),
        st.lists(st.tuples(TEXTS, st.sampled_from(RetryReason)), max_size=2),
    ),
)
def test_a_line_is_read_as_the_record_that_it_stands_for(
    names: tuple[str, ...],
    times: tuple[float, float, float, float | None],
    usage: Usage | None,
    outcome: RequestOutcome,
    flags: tuple[bool, bool],
    lists: tuple[list[str], list[tuple[str, RetryReason]]],
) -> None:
    started_at, now, ended_at, first = times
    call = Call(
        id=names[0], path=names[1], started_at=started_at, key=names[2], model_asked=names[3],
        model_served=names[4], worker=names[5], stream=flags[0], first_byte_at=first, usage=usage,
        estimated=flags[1], level=3, degraded=tuple(lists[0]), retries=lists[1],
        profile=names[0], work_class=names[1], filter=names[2], choices=2,
        first_tried_at=first, tried_at=first,
    )  # fmt: skip
    call.end(207, outcome)
    line = call.line(gateway="g0", seq=7, now=now, ended_at=ended_at)
    lasted = None if first is None else round(first - started_at, 6)
    assert line.count(b"\n") == 1
    assert line.endswith(b"}\n")
    by_the_daemon = {"again_tokens"}
    assert set(json.loads(line)) == {it.name for it in fields(RequestRecord)} - by_the_daemon
    assert RequestRecord.from_json(json.loads(line)) == RequestRecord(
        id=names[0], gateway="g0", seq=7, ended_at=round(ended_at, 6), key=names[2], path=names[1],
        model_asked=names[3], model_served=names[4], worker=names[5], status=207, outcome=outcome,
        stream=flags[0], duration_seconds=round(now - started_at, 6),
        queue_seconds=lasted, tried_seconds=lasted, first_byte_seconds=lasted, usage=usage,
        estimated=flags[1], level=3, degraded=tuple(lists[0]), retries=tuple(lists[1]),
        profile=names[0], work_class=names[1], filter=names[2], choices=2,
    )  # fmt: skip
