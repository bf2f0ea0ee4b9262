"""The shipped golden sets: made as said, and every answer worked out anew from its question."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from fractions import Fraction
from typing import Any

import pytest

from benchmarks.golden_sets import FOLDER, sets
from ds4watch.config.shipped import shipped
from ds4watch.quality.golden import questions_of
from ds4watch.quality.judges import judge_of

MATHEMATICS, TASKS = "mathematics-500.jsonl", "tasks-120.jsonl"


def documents(name: str) -> list[dict[str, Any]]:
    text = shipped(f"serving/golden/{name}").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_the_files_are_what_the_generator_makes() -> None:
    for name, text in sets().items():
        assert (FOLDER / name).read_text(encoding="utf-8") == text


def test_they_can_be_read_and_have_as_many_questions_as_they_say() -> None:
    classes = Counter[str]()
    for name in (MATHEMATICS, TASKS):
        text = (FOLDER / name).read_text(encoding="utf-8")
        classes.update(it.work_class for it in questions_of(text, file=name))
    assert classes == {"mathematics": 500, "extraction": 80, "format": 40}
    prompts = [it["prompt"] for name in (MATHEMATICS, TASKS) for it in documents(name)]
    assert len(set(prompts)) == 620


def evaluated(expression: str) -> Fraction:
    return value_of(ast.parse(expression, mode="eval").body)


def value_of(node: ast.expr) -> Fraction:
    if isinstance(node, ast.Constant):
        return Fraction(str(node.value))
    assert isinstance(node, ast.BinOp), ast.dump(node)
    a, b = value_of(node.left), value_of(node.right)
    match node.op:
        case ast.Add():
            return a + b
        case ast.Sub():
            return a - b
        case ast.Mult():
            return a * b
        case _:
            assert isinstance(node.op, ast.Div)
            return a / b


def repeated(total: Fraction, step: Fraction) -> tuple[int, Fraction]:
    """Divide by taking away."""
    times = 0
    while total >= step:
        total, times = total - step, times + 1
    return times, total


def story_of_scores(*numbers: Fraction) -> Fraction:
    middle = numbers[0]
    return middle + sum((it - middle for it in numbers), Fraction()) / len(numbers)


SOLVERS: dict[str, Callable[..., Fraction]] = {
    "boxes of": lambda packs, each, given: sum([each] * int(packs), Fraction()) - given,
    "A train": lambda speed, minutes: speed / 60 * minutes,
    "is reduced by": lambda price, off: price - price / 100 * off,
    "shared equally": lambda total, people: Fraction(repeated(total, people)[0]),
    "times as old": lambda age, factor, later: sum([age] * int(factor), Fraction()) + later,
    "metres of fence": lambda a, b: a + b + a + b,
    "an hour, and": lambda wage, forty, hours: wage * hours + wage / 2 * (hours - forty),
    "four tests": story_of_scores,
    "A tank": lambda start, fill, leak, minutes: start + fill * minutes - leak * minutes,
    "of tea": lambda a, price, b, other: a * price + b * other,
    "remainder of": lambda a, b: repeated(a, b)[1],
    "to the power": lambda a, b: evaluated("*".join([str(a)] * int(b))),
}


@pytest.mark.parametrize("document", documents(MATHEMATICS), ids=lambda it: str(it["id"]))
def test_the_answer_follows_from_the_text(document: dict[str, Any]) -> None:
    text = document["prompt"].split(" Think as")[0]
    numbers = [Fraction(it) for it in re.findall(r"\d+(?:\.\d+)?", text)]
    solver = next((solve for key, solve in SOLVERS.items() if key in text), None)
    if solver is None:
        expression = text.removeprefix("What is ").removesuffix("?")
        answer = evaluated(expression)
    else:
        answer = solver(*numbers)
    judge = judge_of(document["judge"])
    assert judge.is_right(f"so it is {float(answer):.10f}")
    assert not judge.is_right(f"{float(answer) + 1}")


def solved(text: str) -> str:
    """Answer a task by looking at its words."""
    words = re.findall(r"[A-Za-z]+", text)
    if text.startswith("Note"):
        name, city, order, count = re.findall(
            r"Note: (\w+) of (\w+) rang about order (\d+): (\d+)", text
        )[0]
        found = {"order": int(order), "name": name, "city": city, "quantity": int(count)}
        return f"```json\n{json.dumps(found)}\n```"
    if "YYYY-MM-DD" in text:
        told = " ".join(re.findall(r"of (\d+) (\w+) (\d+)", text)[0])
        return datetime.strptime(told, "%d %B %Y").strftime("%Y-%m-%d")  # noqa: DTZ007 - a date
    if "A review" in text:
        moods = {"early": "Positive", "best": "Positive", "broke": "negative", "loud": "negative"}
        return next((moods[it] for it in words if it in moods), "Neutral")
    if "serial number" in text:
        return str(re.findall(r"[A-Z]{2}-\d{4}", text)[0])
    if "alphabet" in text:
        things = re.findall(r"words (\w+), (\w+) and (\w+)", text)[0]
        return "\n".join(f"- {it.upper()}" for it in sorted(things))
    asked, listed = re.findall(r"word (\w+) stand in this list: (.*)\?", text)[0]
    return f"{listed.split(', ').count(asked)}"


@pytest.mark.parametrize("document", documents(TASKS), ids=lambda it: str(it["id"]))
def test_the_right_answer_to_a_task_is_judged_right_and_others_wrong(
    document: dict[str, Any],
) -> None:
    judge = judge_of(document["judge"])
    right = solved(document["prompt"])
    assert judge.is_right(right), right
    for wrong in ("", "I cannot tell.", right + "x9"):
        assert not judge.is_right(wrong), wrong
