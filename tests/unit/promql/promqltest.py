"""A reader and runner for Prometheus's own test format (promql/promqltest), for floats."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ds4watch.model.errors import QueryError
from ds4watch.model.series import NAME_LABEL, Labels, labels_of
from ds4watch.promql.ast import Expr, ValueType
from ds4watch.promql.evaluate import evaluate
from ds4watch.promql.evaluate_range import evaluate_range
from ds4watch.promql.notation import values_of
from ds4watch.promql.parse import parse
from ds4watch.promql.result import QueryResult
from ds4watch.promql.selection import matches, selectors_of
from tests.unit.promql.memory import MemoryStorage

NATIVE_ONLY = re.compile(r"histogram_(?:count|sum|avg|stddev|stdvar)\(")
TOLERANCE = 1e-6
_UNITS = {"y": 31536000e3, "w": 604800e3, "d": 86400e3, "h": 3600e3, "m": 60e3, "s": 1e3, "ms": 1.0}
_DURATION = re.compile(r"(\d+)(ms|[ywdhms])")
_LABEL = re.compile(r'\s*([\w.:-]+|"(?:\\.|[^"\\])*")\s*=\s*"((?:\\.|[^"\\])*)"\s*,?')


@dataclass
class Case:
    """One `eval`."""

    place: str
    steps: tuple[float, float, float]
    """Start, end and step in seconds; an instant has a step of 0."""
    query: str
    ordered: bool
    fails: bool
    lines: list[str]


@dataclass
class Load:
    """One `load`; `custom_buckets` for load_with_nhcb."""

    step_ms: float
    lines: list[str]
    custom_buckets: bool


@dataclass
class Tally:
    passed: int = 0
    ranges_passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)

    def skip(self, reason: str) -> None:
        self.skipped[reason] = self.skipped.get(reason, 0) + 1


@dataclass
class State:
    storage: MemoryStorage = field(default_factory=MemoryStorage)
    native: list[Labels] = field(default_factory=list)


def milliseconds(text: str) -> float:
    parts = _DURATION.findall(text)
    return sum(int(n) * _UNITS[unit] for n, unit in parts) if parts else float(text) * 1e3


def steps_of(path: Path) -> Iterator[Case | Load | None]:
    """Yield what a file says, in order; None for `clear`."""
    lines = path.read_text().splitlines()
    position = 0
    while position < len(lines):
        line = lines[position].strip()
        start = position
        position += 1
        if line == "clear":
            yield None
        if not line.startswith(("load", "eval")):
            continue
        block = []
        while position < len(lines) and lines[position].strip():
            text = lines[position].strip()
            if not text.startswith("#"):
                block.append(text)
            position += 1
        place = f"{path.name}:{start + 1}"
        yield _load(line, block) if line[0] == "l" else _case(place, line, block)


def _load(line: str, block: list[str]) -> Load:
    command, step = line.split()
    return Load(milliseconds(step), block, command.endswith("nhcb"))


def _case(place: str, line: str, block: list[str]) -> Case:
    instant = re.match(r"eval\w*\s+instant\s+at\s+(\S+)\s+(.*)", line)
    ranged = re.match(r"eval\w*\s+range\s+from\s+(\S+)\s+to\s+(\S+)\s+step\s+(\S+)\s+(.*)", line)
    match = instant or ranged
    assert match, line
    told = [milliseconds(text) / 1e3 for text in match.groups()[:-1]]
    expected = [text for text in block if not text.startswith("expect")]
    said = [text.split()[1] for text in block if text.startswith("expect")]
    if "string" in said:
        expected += [text.split("string", 1)[1].strip() for text in block if "string" in text]
    return Case(
        place=place,
        steps=(told[0], told[0], 0.0) if instant else (told[0], told[1], told[2]),
        query=match.groups()[-1],
        ordered="ordered" in said or line.startswith("eval_ordered"),
        fails="fail" in said or line.startswith("eval_fail"),
        lines=expected,
    )


def split_series(line: str) -> tuple[Labels, str]:
    """Split `name{a="b"} values` into labels and the rest."""
    match = re.match(r"([A-Za-z_:][\w:]*)?\s*(\{(?!\{)(?:[^\"}]|\"(?:\\.|[^\"\\])*\")*\})?", line)
    assert match
    inside = (match[2] or "{}")[1:-1]
    pairs = {name: _unescape(value) for name, value in _LABEL.findall(inside)}
    if match[1]:
        pairs[NAME_LABEL] = match[1]
    return labels_of(pairs), line[match.end() :].strip()


def _unescape(text: str) -> str:
    return text.encode("latin-1", "backslashreplace").decode("unicode_escape")


def load(state: State, block: Load) -> None:
    for line in block.lines:
        labels, rest = split_series(line)
        if "{{" in rest:
            state.native.append(labels)
            continue
        if block.custom_buckets:
            pairs = dict(labels)
            name = re.sub("_(bucket|sum|count)$", "", pairs.pop(NAME_LABEL))
            pairs.pop("le", None)
            state.native.append(labels_of({NAME_LABEL: name, **pairs}))
        points = [
            (round(n * block.step_ms) / 1e3, value)
            for n, value in enumerate(values_of(rest))
            if value is not None
        ]
        state.storage.series.pop(labels, None)
        state.storage.add(labels, points)


def run(state: State, case: Case, tally: Tally) -> None:
    if any("{{" in line for line in case.lines):
        tally.skip("native histogram")
        return
    try:
        expr = parse(case.query)
    except QueryError as error:
        if case.fails and "() is not supported" not in str(error):
            tally.passed += 1
        elif NATIVE_ONLY.search(case.query):
            tally.skip("native histogram")
        else:
            tally.skip(f"refused: {error}")
        return
    if touches_native(expr, state):
        tally.skip("native histogram")
        return
    problem = check(case, state, expr)
    if problem:
        tally.failed.append(f"{case.place}: {case.query}: {problem}")
    else:
        tally.passed += 1
        tally.ranges_passed += case.steps[2] > 0


def touches_native(expr: Expr, state: State) -> bool:
    return any(
        matches(selector.matchers, labels)
        for selector in selectors_of(expr)
        for labels in state.native
    )


def check(case: Case, state: State, expr: Expr) -> str | None:
    start, _end, step = case.steps
    if step:
        return check_range(case, state, expr)
    try:
        result = evaluate(expr, state.storage, start)
    except QueryError as error:
        return None if case.fails else f"failed: {error}"
    if case.fails:
        return f"did not fail: {result}"
    if result.kind is ValueType.STRING:
        wanted = case.lines[0]
        return None if wanted[1:-1] == result.text else f"{result.text!r} is not {wanted}"
    if result.kind is ValueType.SCALAR:
        same = close(result.scalar, float(case.lines[0]))
        return None if same else f"{result.scalar} is not {case.lines[0]}"
    return compare(case, result)


def check_range(case: Case, state: State, expr: Expr) -> str | None:
    try:
        got = evaluate_range(expr, state.storage, *case.steps)
    except QueryError as error:
        return None if case.fails else f"failed: {error}"
    if case.fails:
        return f"did not fail: {got}"
    if got.there.any() and not case.lines:
        return f"got {got}, expected nothing"
    rows = zip(got.labels, got.values.tolist(), got.there.tolist(), strict=True)
    found = {
        labels: [value if here else None for value, here in zip(values, there, strict=True)]
        for labels, values, there in rows
    }
    for line in case.lines:
        labels, text = split_series(line)
        wanted = values_of(text)
        wanted += [None] * (len(got.steps) - len(wanted))
        values = found.pop(labels, None)
        if values is None or not all(map(same, values, wanted)):
            return f"{dict(labels)} is {values}, not {wanted}"
    return f"got {found} too" if found else None


def same(got: float | None, wanted: float | None) -> bool:
    if got is None or wanted is None:
        return got is wanted
    return close(got, wanted)


def compare(case: Case, result: QueryResult) -> str | None:
    expected = []
    for line in case.lines:
        labels, value = split_series(line)
        expected.append((labels, float(value)))
    got = [
        (labels_of({NAME_LABEL: sample.name, **dict(sample.labels)}), sample.value)
        for sample in result.samples
    ]
    if not case.ordered:
        expected.sort(key=lambda pair: pair[0])
        got.sort(key=lambda pair: pair[0])
    same = len(got) == len(expected) and all(
        left[0] == right[0] and close(left[1], right[1])
        for left, right in zip(got, expected, strict=True)
    )
    return None if same else f"got {got}, expected {expected}"


def close(got: float, expected: float) -> bool:
    if math.isnan(got) or math.isnan(expected):
        return math.isnan(got) and math.isnan(expected)
    return math.isclose(got, expected, rel_tol=TOLERANCE, abs_tol=1e-300) or got == expected


def run_file(path: Path, tally: Tally) -> None:
    state = State()
    for step in steps_of(path):
        if step is None:
            state = State()
        elif isinstance(step, Load):
            load(state, step)
        else:
            run(state, step, tally)
