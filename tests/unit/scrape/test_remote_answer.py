"""What a server says: taken for what it is, or refused with one line."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from ds4watch.model.errors import EdgeReason, SourceError
from ds4watch.scrape.remote_answer import bad_status, read_answer

SAMPLE = {"metric": {"__name__": "up", "job": "a", "empty": ""}, "value": [1.5, "2.5"]}


def answer(result: Any = (), kind: str = "vector", **more: Any) -> dict[str, Any]:
    found = {"status": "success", "data": {"resultType": kind, "result": list(result)}} | more
    decoded: dict[str, Any] = json.loads(json.dumps(found))
    return decoded


def test_a_vector_has_its_labels_in_order_and_none_that_is_empty() -> None:
    found = read_answer(answer([SAMPLE]))
    assert found.vector.labels.sets == ((("__name__", "up"), ("job", "a")),)
    assert found.vector.values.tolist() == [2.5]
    assert not found.partial
    assert found.error is None


def test_a_scalar_is_a_vector_of_one() -> None:
    found = read_answer(answer([1.0, "3"], "scalar"))
    assert (found.vector.labels.sets, found.vector.values.tolist()) == (((),), [3.0])


@pytest.mark.parametrize(
    ("text", "value"), [("NaN", math.nan), ("+Inf", math.inf), ("-Inf", -math.inf), ("1e-3", 1e-3)]
)
def test_numbers_are_read_in_prometheus_words(text: str, value: float) -> None:
    found = read_answer(answer([SAMPLE | {"value": [0, text]}]))
    np.testing.assert_equal(found.vector.values, [value])


@pytest.mark.parametrize(
    "more",
    [
        {"warnings": ["No StoreAPIs matched for this query"]},
        {"warnings": "one text, not a list"},
        {"isPartial": True},
    ],
)
def test_a_warning_says_that_the_answer_is_not_the_whole(more: dict[str, Any]) -> None:
    assert read_answer(answer([], **more)).partial


@pytest.mark.parametrize(
    "more",
    [{"infos": ["PromQL info: x"]}, {"warnings": []}, {"warnings": None}, {"isPartial": False}],
)
def test_infos_say_nothing_against_an_answer(more: dict[str, Any]) -> None:
    assert not read_answer(answer([], **more)).partial


@pytest.mark.parametrize(
    ("found", "what"),
    [
        (None, "has no status"),
        ([], "has no status"),
        ("success", "has no status"),
        ({"status": "error", "error": "x"}, "has no status"),
        ({"status": "success"}, "has no data"),
        ({"status": "success", "data": []}, "has no data"),
        (answer([], "matrix"), "is a matrix"),
        (answer([], "string"), "is a string"),
        ({"status": "success", "data": {}}, "is a None"),
        ({"status": "success", "data": {"resultType": "vector"}}, "has no list"),
        (answer([1]), "has an element without labels"),
        (answer([{"value": [0, "1"]}]), "has an element without labels"),
        (answer([{"metric": {"a": 1}, "value": [0, "1"]}]), "has a label that is not text"),
        (answer([{"metric": {}, "histogram": [0, {}]}]), "has a native histogram"),
        (answer([{"metric": {}}]), "has a value that is no pair"),
        (answer([{"metric": {}, "value": [0, 1]}]), "has a value that is no pair"),
        (answer([{"metric": {}, "value": [0, "x"]}]), "has a value that is no number: x"),
        (answer([SAMPLE, SAMPLE]), "has one series twice"),
        (answer(["1"], "scalar"), "has a value that is no pair"),
    ],
)
def test_what_is_no_answer_is_refused(found: Any, what: str) -> None:
    with pytest.raises(SourceError) as caught:
        read_answer(found)
    assert what in str(caught.value)
    assert (caught.value.reason, caught.value.retryable) == (EdgeReason.PARSE, False)


@pytest.mark.parametrize(
    ("status", "found", "text", "retryable"),
    [
        (400, {"error": "parse error: x"}, "refuses the query: parse error: x", False),
        (422, {"error": "too many\nsamples"}, "refuses the query: too many samples", False),
        (400, None, "answered 400", False),
        (401, None, "check those of source", False),
        (403, {"error": 5}, "check those of source", False),
        (404, None, "check source.url", False),
        (302, None, "a redirect", False),
        (429, None, "asked too often", True),
        (500, {"error": "boom"}, "answered 500: boom", True),
        (503, {"error": "x" * 1000}, "x…", True),
    ],
)
def test_a_status_says_whether_to_try_again(
    status: int, found: Any, text: str, retryable: bool
) -> None:
    error = bad_status(status, found, 3.0)
    assert text in str(error)
    assert len(str(error)) < 300
    assert error.retryable is retryable
