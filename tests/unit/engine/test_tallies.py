from __future__ import annotations

from dataclasses import replace

from ds4watch.engine.tallies import Tallies
from ds4watch.fleet.rolling_watch import Answered
from ds4watch.model.usage import RequestOutcome, RequestRecord, RetryReason

OK = RequestRecord(
    id="r",
    gateway="g0",
    seq=1,
    ended_at=10.0,
    key="",
    path="/v1/chat/completions",
    model_asked="m",
    model_served="m",
    worker="b",
    status=200,
    outcome=RequestOutcome.OK,
    stream=True,
    duration_seconds=2.0,
    first_byte_seconds=0.5,
)


def seen(worker: str, *records: RequestRecord) -> list[Answered]:
    tallies = Tallies()
    tallies.note(records)
    return tallies.since([worker], 0.0)


def test_who_was_given_up_has_failed_and_who_answered_has_not() -> None:
    record = replace(OK, retries=(("a", RetryReason.STATUS_5XX), ("c", RetryReason.BUSY)))
    assert seen("a", record) == [Answered(10.0, ok=False)]
    assert seen("b", record) == [Answered(10.0, True, 2.0, 0.5)]
    assert seen("c", record) == []


def test_an_error_of_the_last_one_tried_counts_once() -> None:
    failed = replace(OK, outcome=RequestOutcome.UPSTREAM_ERROR, status=502)
    assert seen("b", failed) == [Answered(10.0, ok=False)]
    assert seen("b", replace(failed, retries=(("b", RetryReason.CONNECT),))) == [
        Answered(10.0, ok=False)
    ]


def test_what_clients_did_is_nobodys_failure() -> None:
    for outcome in (RequestOutcome.CLIENT_ERROR, RequestOutcome.CLIENT_GONE, RequestOutcome.SHED):
        assert seen("b", replace(OK, outcome=outcome)) == []


def test_only_the_last_requests_are_kept_and_only_of_who_is_there() -> None:
    tallies = Tallies()
    tallies.note(replace(OK, ended_at=float(at), stream=False) for at in range(2500))
    assert len(tallies.since(["b"], 0.0)) == 2000
    assert [it.first_byte_seconds for it in tallies.since(["b"], 2499.0)] == [None]
    tallies.forget_all_but(["a"])
    assert tallies.since(["b"], 0.0) == []
