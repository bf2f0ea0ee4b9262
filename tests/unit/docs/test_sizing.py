"""The sums of docs/sizing.md come out, and its figures are those that were measured."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable

import pytest

from tests.unit.docs.documents import DOCS, blocks, document

SCALES = {"GB": 1e9, "MB": 1e6, "ms": 1e-3, "µs": 1e-6}
OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
SUMS = [
    line
    for block in blocks(DOCS / "sizing.md")
    if block.comment == "sums"
    for line in block.text.splitlines()
]
MEASURED = (
    *("0.28, 0.46 ms", "22 to 42 % of it, 420 to 460 MiB", "230 MiB", "504 MiB", "9 to 11 now"),
    *("10,007 at 99 µs", "6,799 requests at 146 µs", "6,970 streams at 143 µs"),
    *("4,485 streams at 223 µs", "43 ms of CPU"),
    *("take 0.77 bytes each in ours", "0.8 MB, 0.05 MB", "0.03 to 0.04 ms a scrape", "460 series"),
    *("51 KB, 435 samples, 15 %", "grows to 64 MiB"),
)
"""As docs/performance.md has them."""


def value_of(text: str) -> float:
    """Return what a side of a sum is worth; words that are no units say what is counted."""
    found = re.sub(r"(?<=\d),(?=\d{3})", "", text).replace("x", "*")
    for unit, scale in SCALES.items():
        found = re.sub(rf"([\d.]+) {unit}\b", rf"(\1 * {scale})", found)
    return computed(ast.parse(re.sub(r"(?<![\d.])[a-zµ]+", "", found).strip(), mode="eval").body)


def computed(node: ast.expr) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    assert isinstance(node, ast.BinOp)
    return OPERATORS[type(node.op)](computed(node.left), computed(node.right))


def rounding_of(result: str) -> float:
    """Return half of the last digit that is shown."""
    number = re.match(r"[\d,.]+", result)
    assert number
    decimals = len(number[0].partition(".")[2])
    unit = result[number.end() :].split()[:1]
    return 0.5 * 10.0**-decimals * SCALES.get(unit[0] if unit else "", 1.0) * 1.001


@pytest.mark.parametrize("line", SUMS)
def test_a_sum_comes_out(line: str) -> None:
    _name, _, rest = line.partition(": ")
    left, _, right = rest.rpartition(" = ")
    shown = re.match(r"[\d,.]+(?: (?:GB|MB|ms|µs))?", right)
    assert shown
    assert value_of(left) == pytest.approx(value_of(shown[0]), abs=rounding_of(right))


@pytest.mark.parametrize("figure", MEASURED)
def test_a_figure_is_the_measured_one(figure: str) -> None:
    assert figure in document("performance.md")


def test_the_tables_hold_what_the_sums_give() -> None:
    text = document("sizing.md")
    rows = re.findall(r"^\| ([\d,]+) \| ([\d.]+ GB) \| ([\d.]+ GB) \|$", text, re.MULTILINE)
    assert len(rows) == 3
    for workers, plain, week in rows:
        assert f"\n{workers} workers: {workers} x 112.9 MB = {plain}\n" in text
        assert f"\n{workers} workers with a week: {workers} x 265.9 MB = {week}\n" in text
