from __future__ import annotations

from typing import Any

import pytest

from ds4watch.model.errors import ConfigError
from ds4watch.quality.golden import questions_of, together
from ds4watch.quality.judges import judge_of

COUNT = {
    "type": "object",
    "properties": {"count": {"type": "integer", "minimum": 1}},
    "required": ["count"],
}


@pytest.mark.parametrize(
    ("judge", "right", "wrong"),
    [
        ({"kind": "exact", "answer": "Lagos"}, ["Lagos", " Lagos\n"], ["lagos", "In Lagos", ""]),
        (
            {"kind": "exact", "answer": "Lagos", "ignores_case": True},
            ["LAGOS"],
            ["Lagos."],
        ),
        (
            {"kind": "numeric", "answer": 1234.5, "tolerance": 0.5},
            ["1,234.5", "1 234.6", "first 7, so 1234", "1.2345e3", "1234.5."],
            ["1233.9", "1234.5 or 12", "none", "1" * 400],
        ),
        ({"kind": "numeric", "answer": -3}, ["-3", "\N{MINUS SIGN}3", "it is -3.0"], ["3", "-30"]),
        ({"kind": "numeric", "answer": 0.3}, ["0.3", "0.30000000000000004"], ["0.31", "3"]),
        (
            {"kind": "numeric", "answer": 5, "units": ["km", "kilometres"]},
            ["5 km", "5km", "5 KM", "5 kilometres", "**5**", "5"],
            ["5 miles", "5 kg"],
        ),
        ({"kind": "regex", "pattern": "^a.*b$"}, ["ab", "a\nb"], ["xab", "aB"]),
        (
            {"kind": "json_schema", "schema": COUNT},
            ['{"count": 2}', '```json\n{"count": 2, "more": []}\n```', '``` {"count": 1} ```'],
            ['{"count": 0}', "{}", 'Here: {"count": 2}', "[" * 5000, '{"count": "2"}'],
        ),
        (
            {"kind": "choice", "answer": "B", "choices": ["A", "B", "C"]},
            ["B", "(b)", "Not A.\nThe answer is B."],
            ["A", "A or B", "Because", "B\nA", ""],
        ),
        (
            {
                "kind": "choice",
                "answer": "not applicable",
                "choices": ["applicable", "not applicable"],
            },
            ["Not applicable."],
            ["applicable"],
        ),
    ],
)
def test_judges_tell_right_from_wrong(
    judge: dict[str, Any], right: list[str], wrong: list[str]
) -> None:
    found = judge_of(judge)
    assert [it for it in right if not found.is_right(it)] == []
    assert [it for it in wrong if found.is_right(it)] == []


@pytest.mark.parametrize(
    ("judge", "told"),
    [
        (None, "must be an object"),
        ({"kind": "vibes"}, "no judge 'vibes'; there are exact, numeric"),
        ({"kind": "exact"}, "needs 'answer'"),
        ({"kind": "exact", "answer": "a", "pattern": "a"}, "knows no 'pattern'"),
        ({"kind": "numeric", "answer": True}, "'answer' is of the wrong kind"),
        ({"kind": "numeric", "answer": 1, "tolerance": -1}, "'tolerance' from 0 on"),
        ({"kind": "numeric"}, "a number"),
        ({"kind": "numeric", "answer": 1, "units": [1]}, "'units' must be texts"),
        ({"kind": "regex", "pattern": "(a"}, "not a regular expression of RE2"),
        ({"kind": "regex", "pattern": r"(a)\1"}, "not a regular expression of RE2"),
        ({"kind": "json_schema", "schema": {"type": "strange"}}, "not a JSON Schema"),
        ({"kind": "json_schema"}, "needs a 'schema'"),
        ({"kind": "json_schema", "schema": {"$ref": "https://x.test/s"}}, "it refers to"),
        ({"kind": "json_schema", "schema": {"items": {"$ref": "#/$defs/a"}}}, "it refers to"),
        ({"kind": "choice", "answer": "D", "choices": ["A", "B"]}, "among which 'answer' is"),
    ],
)
def test_a_judge_that_cannot_be_is_refused_in_one_line(judge: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told) as caught:
        judge_of(judge)
    assert "\n" not in str(caught.value)


def test_every_bad_line_of_a_set_is_told_with_its_place() -> None:
    good = '{"id": "a", "class": "c", "prompt": "p", "judge": {"kind": "exact", "answer": "x"}}'
    lines = [
        good,
        "{",
        "",
        "[]",
        good.replace('"a"', '"B!"'),
        good.replace('"p"', '""'),
        good.replace('"class"', '"klass"'),
        good[:-1] + ', "max_tokens": 0}',
        good,
    ]
    with pytest.raises(ConfigError) as caught:
        questions_of("\n".join(lines), file="mine.jsonl")
    told = [str(it) for it in caught.value.findings]
    assert [it.split(":")[1] for it in told[:-1]] == ["2", "4", "5", "6", "7", "8"]
    assert "the id 'a' is there twice" in told[-1]


def test_two_sets_must_not_share_an_id() -> None:
    line = '{"id": "a", "class": "c", "prompt": "p", "judge": {"kind": "exact", "answer": "x"}}'
    (question,) = questions_of(line, file="one.jsonl")
    assert together([(question,)]) == (question,)
    again = questions_of(line, file="two.jsonl")
    with pytest.raises(ConfigError, match=r"two\.jsonl:1: .*twice, first in one\.jsonl:1"):
        together([(question,), again])


def test_a_schema_may_refer_to_its_own_parts() -> None:
    schema = {"$defs": {"a/b": {"type": "integer"}}, "items": {"$ref": "#/$defs/a~1b"}}
    judge = judge_of({"kind": "json_schema", "schema": schema})
    assert judge.is_right("[1, 2]")
    assert not judge.is_right('["1"]')
