"""A runbook is read at a bad moment: each has the same parts, in the same order, with words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.docs.documents import DOCS

HEADINGS = ["What it means", "Why it matters", "What ds4watch does", "What you can do"]
RUNBOOKS = sorted((DOCS / "runbooks").glob("*.md"))


@pytest.mark.parametrize("path", RUNBOOKS, ids=lambda it: it.stem)
def test_a_runbook_has_the_parts_that_all_have(path: Path) -> None:
    title, *parts = re.split(r"^## ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert title.strip() == f"# {path.stem}"
    assert [part.partition("\n")[0] for part in parts] == HEADINGS
    assert all(part.partition("\n")[2].strip() for part in parts)
    assert parts[-1].count("\n- ") >= 1, "what one can do is a list"
