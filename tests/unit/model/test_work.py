"""What a request took of the workers that had it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ds4watch.model.usage import RequestOutcome, RequestRecord, RetryReason, Usage
from ds4watch.model.work import BANDS, Place, Work, band_of, works_of

ASKED = RequestRecord(
    id="r", gateway="g0", seq=1, ended_at=0.0, key="a", path="/", model_asked="m",
    model_served="m", worker="w", status=200, outcome=RequestOutcome.OK, stream=True,
    duration_seconds=4.0, queue_seconds=0.5, tried_seconds=1.0, first_byte_seconds=1.5,
    usage=Usage(2000, 60, 10), profile="p", again_tokens=5,
)  # fmt: skip


@pytest.mark.parametrize(
    ("prompt", "band"),
    [
        (0, "unknown"), (1, "1k"), (1024, "1k"), (1025, "2k"), (65_537, "128k"),
        (131_072, "128k"), (131_073, "over"),
    ],
)  # fmt: skip
def test_prompts_have_the_band_that_they_fit_into(prompt: int, band: str) -> None:
    assert band_of(Usage(prompt)) == band
    assert band in BANDS


def test_a_request_takes_its_tokens_and_the_time_at_its_worker() -> None:
    assert list(works_of(ASKED)) == [
        (
            Place("w", "p", "2k"),
            Work(1, 2000, 60, 5, 10, 3000, 500, 2500, 0, kv_token_ms=3000 * 2005),
        )
    ]


@pytest.mark.parametrize("outcome", [RequestOutcome.CLIENT_GONE, RequestOutcome.UPSTREAM_ERROR])
def test_time_without_a_whole_answer_is_wasted(outcome: RequestOutcome) -> None:
    ((_, work),) = works_of(replace(ASKED, outcome=outcome))
    assert work.wasted_ms == work.held_ms == 3000


def test_attempts_that_were_given_up_are_the_time_of_those_who_had_them() -> None:
    lost = replace(ASKED, retries=(("v", RetryReason.TIMEOUT), ("u", RetryReason.CONNECT)))
    found = dict(works_of(lost))
    assert found[Place("v", "", "2k")] == Work(held_ms=250, wasted_ms=250)
    assert {place.worker for place in found} == {"v", "w"}  # nobody could be reached at u


def test_what_reached_no_worker_took_nothing() -> None:
    shed = replace(ASKED, worker="", tried_seconds=None, outcome=RequestOutcome.SHED)
    assert list(works_of(shed)) == []
