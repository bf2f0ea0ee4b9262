from __future__ import annotations

import re

import pytest

from tests.unit.docs.documents import ROOT, document

NAMES = ("request-path.md", "practice.md")
ROWS = [
    pytest.param(line, id=f"{name}-{number}")
    for name in NAMES
    for number, line in enumerate(document(name).splitlines(), 1)
    if "`tests/" in line
]


@pytest.mark.parametrize("row", ROWS)
def test_each_lesson_names_code_and_a_test_that_are_there(row: str) -> None:
    *_, here, test, _ = row.split("|")
    named = re.findall(r"`(\w+(?:/\w+)+\.py)`", here)
    assert named
    assert not [path for path in named if not (ROOT / "ds4watch" / path).exists()]
    path, _, name = test.strip(" `").partition("::")
    assert re.search(rf"def {name}\(", (ROOT / path).read_text(encoding="utf-8"))
