"""Makes the golden sets of serving/golden: questions with answers that are right by construction.

    python -m benchmarks.golden_sets          # writes the files anew; they do not change

Everything follows from one seed. The tests work out each answer from the text of its question, by
other means than are used here.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

SEED = 20260101
FOLDER = Path(__file__).resolve().parents[1] / "serving" / "golden"
ARITHMETIC, WORD_PROBLEMS, TASKS = 250, 250, 120
_END = " Think as you need to; end with the answer alone on the last line."

Draw = random.Random
Made = tuple[str, Fraction]
Document = dict[str, Any]
_NAMES = ("Amina", "Bjorn", "Chidi", "Dana", "Elif", "Farid", "Greta", "Hana", "Ivo", "Jun")
_GOODS = ("pencils", "apples", "tiles", "bolts", "books", "candles", "stamps", "cups")


def _sum(draw: Draw) -> Made:
    values = [draw.randint(10, 9999) for _ in range(draw.randint(2, 5))]
    return f"What is {' + '.join(map(str, values))}?", Fraction(sum(values))


def _difference(draw: Draw) -> Made:
    a, b = draw.randint(100, 99_999), draw.randint(100, 99_999)
    return f"What is {a} - {b}?", Fraction(a - b)


def _product(draw: Draw) -> Made:
    a, b = draw.randint(12, 999), draw.randint(12, 99)
    return f"What is {a} * {b}?", Fraction(a * b)


def _quotient(draw: Draw) -> Made:
    a, b = draw.randint(12, 999), draw.randint(3, 99)
    return f"What is {a * b} / {b}?", Fraction(a)


def _mixed(draw: Draw) -> Made:
    a, b, c, d = (draw.randint(2, 60) for _ in range(4))
    return f"What is ({a} + {b}) * {c} - {d}?", Fraction((a + b) * c - d)


def _decimals(draw: Draw) -> Made:
    a, b = Fraction(draw.randint(101, 9999), 100), Fraction(draw.randint(11, 999), 10)
    return f"What is {float(a)} + {float(b)}?", a + b


def _remainder(draw: Draw) -> Made:
    a, b = draw.randint(1000, 99_999), draw.randint(7, 97)
    return f"What is the remainder of {a} divided by {b}?", Fraction(a % b)


def _power(draw: Draw) -> Made:
    a, b = draw.randint(3, 19), draw.randint(2, 4)
    return f"What is {a} to the power of {b}?", Fraction(a**b)


def _shopping(draw: Draw) -> Made:
    name, good = draw.choice(_NAMES), draw.choice(_GOODS)
    packs, each, given = draw.randint(3, 19), draw.randint(4, 24), draw.randint(1, 11)
    text = (
        f"{name} buys {packs} boxes of {each} {good} and gives {given} {good} away. "
        f"How many {good} are left?"
    )
    return text, Fraction(packs * each - given)


def _journey(draw: Draw) -> Made:
    speed, half_hours = draw.randrange(40, 130, 2), draw.randint(2, 15)
    text = (
        f"A train travels at {speed} km per hour for {30 * half_hours} minutes. "
        "How many kilometres does it go?"
    )
    return text, Fraction(speed * half_hours, 2)


def _discount(draw: Draw) -> Made:
    price, off = 20 * draw.randint(2, 60), 5 * draw.randint(1, 12)
    text = f"A coat costs {price} dollars and is reduced by {off} percent. What is the new price?"
    return text, Fraction(price * (100 - off), 100)


def _sharing(draw: Draw) -> Made:
    people, each, rest = draw.randint(3, 17), draw.randint(4, 40), draw.randint(0, 2)
    good = draw.choice(_GOODS)
    total = people * each + rest
    text = (
        f"{total} {good} are shared equally among {people} children, as many to each as possible. "
        f"How many {good} does each child get?"
    )
    return text, Fraction(each)


def _ages(draw: Draw) -> Made:
    older, younger = draw.sample(_NAMES, 2)
    age, factor, later = draw.randint(4, 15), draw.randint(2, 5), draw.randint(2, 12)
    text = (
        f"{younger} is {age} years old and {older} is {factor} times as old. "
        f"How old will {older} be in {later} years?"
    )
    return text, Fraction(age * factor + later)


def _rectangle(draw: Draw) -> Made:
    a, b = draw.randint(3, 60), draw.randint(3, 60)
    text = f"A field is {a} metres long and {b} metres wide. How many metres of fence surround it?"
    return text, Fraction(2 * (a + b))


def _wages(draw: Draw) -> Made:
    name, wage, hours = draw.choice(_NAMES), draw.randint(11, 45), draw.randint(41, 60)
    text = (
        f"{name} earns {wage} dollars an hour, and for each hour over 40 in a week one and a half "
        f"times as much. How many dollars does {name} earn in a week of {hours} hours?"
    )
    return text, wage * 40 + Fraction(3 * wage * (hours - 40), 2)


def _average(draw: Draw) -> Made:
    scores = [draw.randint(40, 100) for _ in range(3)]
    total = sum(scores)
    last = next(it for it in range(40, 60) if (total + it) % 4 == 0)
    told = ", ".join(map(str, scores))
    text = f"The scores of four tests were {told} and {last}. What is their average?"
    return text, Fraction(total + last, 4)


def _tank(draw: Draw) -> Made:
    fill, leak, minutes = draw.randint(12, 40), draw.randint(1, 9), draw.randint(5, 90)
    start = draw.randint(10, 400)
    text = (
        f"A tank holds {start} litres. {fill} litres a minute flow in and {leak} litres a minute "
        f"leak out. How many litres does it hold after {minutes} minutes?"
    )
    return text, Fraction(start + (fill - leak) * minutes)


def _mixture(draw: Draw) -> Made:
    a, b = draw.randint(2, 40), draw.randint(2, 40)
    price, other = draw.randint(2, 30), draw.randint(2, 30)
    text = (
        f"{a} kg of tea at {price} dollars a kg and {b} kg of tea at {other} dollars a kg are "
        "mixed. How many dollars is the mixture worth in all?"
    )
    return text, Fraction(a * price + b * other)


_SUMS = (_sum, _difference, _product, _quotient, _mixed, _decimals, _remainder, _power)
_STORIES = (
    _shopping, _journey, _discount, _sharing, _ages, _rectangle, _wages, _average, _tank, _mixture,
)  # fmt: skip


def mathematics() -> Iterator[Document]:
    """Return the 500 questions, no two alike."""
    draw, seen = Draw(SEED), set[str]()
    for prefix, count, makers in (
        ("sum", ARITHMETIC, _SUMS),
        ("story", WORD_PROBLEMS, _STORIES),
    ):
        for number in range(count):
            text, answer = _fresh(makers[number % len(makers)], draw, seen)
            yield {
                "id": f"{prefix}-{number:03d}",
                "class": "mathematics",
                "prompt": text + _END,
                "judge": {"kind": "numeric", "answer": _plain(answer)},
                "max_tokens": 384,
            }


def _fresh(make: Callable[[Draw], Made], draw: Draw, seen: set[str]) -> Made:
    while True:
        made = make(draw)
        if made[0] not in seen:
            seen.add(made[0])
            return made


def _plain(value: Fraction) -> int | float:
    return int(value) if value.denominator == 1 else float(value)


_FIRST = ("Okafor", "Lindqvist", "Moreau", "Tanaka", "Silva", "Novak", "Haddad", "Kowalski")
_CITIES = ("Lagos", "Malmo", "Lyon", "Osaka", "Recife", "Brno", "Amman", "Gdansk")
_MOODS = {
    "positive": ("arrived early and works beautifully", "is the best that I ever had"),
    "negative": ("broke on the first day", "is loud, slow and far too dear"),
    "neutral": ("has two buttons and a cable", "comes in a brown box"),
}
_THINGS = ("kettle", "lamp", "radio", "drill", "fan", "clock", "printer", "scale")


def _order(draw: Draw) -> tuple[str, Document]:
    number, name, city = draw.randint(10_000, 99_999), draw.choice(_FIRST), draw.choice(_CITIES)
    count, thing = draw.randint(2, 40), draw.choice(_THINGS)
    text = (
        f"Note: {name} of {city} rang about order {number}: {count} pieces of the {thing}, please. "
        "Give this as JSON alone, with the keys order (number), name, city, quantity (number)."
    )
    wanted: Document = {"order": number, "name": name, "city": city, "quantity": count}
    return text, _schema_of(wanted)


def _schema_of(wanted: Document) -> Document:
    schema = {
        "type": "object",
        "properties": {name: {"const": value} for name, value in wanted.items()},
        "required": list(wanted),
        "additionalProperties": False,
    }
    return {"kind": "json_schema", "schema": schema}


def _date(draw: Draw) -> tuple[str, Document]:
    months = ("January", "March", "April", "June", "August", "October", "November")
    numbers = (1, 3, 4, 6, 8, 10, 11)
    place, day, year = draw.randrange(7), draw.randint(1, 28), draw.randint(1980, 2035)
    text = (
        f"The contract of {day} {months[place]} {year} is void. "
        "Write its date as YYYY-MM-DD, and nothing else."
    )
    return text, {"kind": "exact", "answer": f"{year}-{numbers[place]:02d}-{day:02d}"}


def _mood(draw: Draw) -> tuple[str, Document]:
    mood = draw.choice(tuple(_MOODS))
    text = (
        f'A review of a {draw.choice(_THINGS)} of {draw.randint(2001, 2025)}: "It '
        f'{draw.choice(_MOODS[mood])}." Is it positive, negative or neutral? Answer in one word.'
    )
    return text, {"kind": "choice", "answer": mood, "choices": list(_MOODS)}


def _codes(draw: Draw) -> tuple[str, Document]:
    code = f"{draw.choice('ABCDEFGH')}{draw.choice('KLMNPQRS')}-{draw.randint(1000, 9999)}"
    text = (
        f"The {draw.choice(_THINGS)} in hall {draw.randint(1, 9)}, bought in "
        f"{draw.randint(1990, 2020)}, has the serial number {code} and weighs "
        f"{draw.randint(2, 90)} kg. Write its serial number, and nothing else."
    )
    return text, {"kind": "exact", "answer": code}


def _list(draw: Draw) -> tuple[str, Document]:
    things = draw.sample(_THINGS, 3)
    text = (
        f"Write the words {things[0]}, {things[1]} and {things[2]} in the order of the alphabet, "
        "in capitals, one a line, each after a dash and a space, and nothing else."
    )
    lines = "\\n".join(f"- {it.upper()}" for it in sorted(things))
    return text, {"kind": "regex", "pattern": f"^\\s*{lines}\\s*$"}


def _count(draw: Draw) -> tuple[str, Document]:
    things = [draw.choice(_THINGS[:4]) for _ in range(draw.randint(6, 14))]
    asked = draw.choice(things)
    text = (
        f"How often does the word {asked} stand in this list: {', '.join(things)}? "
        "Answer with the number alone."
    )
    return text, {"kind": "numeric", "answer": things.count(asked)}


_TASK_KINDS = (
    ("extraction", _order), ("format", _date), ("extraction", _mood),
    ("extraction", _codes), ("format", _list), ("extraction", _count),
)  # fmt: skip


def tasks() -> Iterator[Document]:
    """Return the extraction and format tasks, no two alike."""
    draw, seen = Draw(SEED + 1), set[str]()
    for number in range(TASKS):
        work_class, make = _TASK_KINDS[number % len(_TASK_KINDS)]
        text, judge = make(draw)
        while text in seen:
            text, judge = make(draw)
        seen.add(text)
        yield {
            "id": f"{work_class}-{number:03d}",
            "class": work_class,
            "prompt": text,
            "judge": judge,
            "max_tokens": 96,
        }


def sets() -> dict[str, str]:
    """Return the text of each file by its name."""
    return {
        name: "".join(json.dumps(it, ensure_ascii=False) + "\n" for it in made())
        for name, made in (("mathematics-500.jsonl", mathematics), ("tasks-120.jsonl", tasks))
    }


def main() -> None:
    """Write the files."""
    for name, text in sets().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        sys.stdout.write(f"{FOLDER / name}: {text.count(chr(10))} questions\n")


if __name__ == "__main__":
    main()
