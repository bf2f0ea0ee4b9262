from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.shaping.text_score import TextScore, score_of, score_of_answer

TEXTS = json.loads((Path(__file__).parents[2] / "data/text_score.json").read_text("utf-8"))
GOOD: dict[str, str] = TEXTS["good"]
GARBAGE: dict[str, str] = TEXTS["garbage"]
PROSE = GOOD["prose"]


@pytest.mark.parametrize("kind", GOOD)
def test_what_people_write_scores_high(kind: str) -> None:
    assert score_of(GOOD[kind]).value >= 0.8, score_of(GOOD[kind])


@pytest.mark.parametrize("kind", GARBAGE)
def test_what_a_broken_model_writes_scores_clearly_below(kind: str) -> None:
    assert score_of(GARBAGE[kind]).value <= 0.4, score_of(GARBAGE[kind])


def test_a_cut_is_told_and_counts_only_with_a_loop() -> None:
    cut = score_of(PROSE, "length")
    assert cut == replace(score_of(PROSE, "stop"), is_truncated=True)
    assert cut.value == score_of(PROSE, "stop").value
    loop = "and so on " * 30 + PROSE[:300]
    assert score_of(loop, "length").value < score_of(loop, "stop").value


def test_a_call_of_a_tool_needs_no_text() -> None:
    call: dict[str, Any] = {
        "index": 0,
        "message": {"content": None, "tool_calls": [{}]},
        "finish_reason": "stop",
    }
    told = score_of_answer(json.dumps({"choices": [call]}).encode(), stream=False)
    assert told == TextScore()
    call["message"] = {"content": ""}
    told = score_of_answer(json.dumps({"choices": [call]}).encode(), stream=False)
    assert told is not None
    assert told.value == 0


def test_a_stream_scores_as_its_text_does() -> None:
    deltas = [{"choices": [{"index": 0, "delta": {"content": f"{it} "}}]} for it in PROSE.split()]
    other = {"choices": [{"index": 1, "delta": {"content": "!" * 500}}]}
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}
    events = [f"data: {json.dumps(it)}\n\n" for it in [other, *deltas, end]]
    told = score_of_answer("".join([*events, "data: [DONE]\n\n"]).encode(), stream=True)
    assert told == score_of(f"{PROSE} ", "length")


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"choices": 5}', b'{"choices": [5]}'])
def test_what_is_no_answer_has_no_score(body: bytes) -> None:
    assert score_of_answer(body, stream=False) is None


@given(st.text())
def test_no_text_whatever_makes_the_score_raise(text: str) -> None:
    assert 0 <= score_of(text).value <= 1
