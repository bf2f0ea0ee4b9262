"""The written documents of the repository, as texts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
_CODE = re.compile(r"^(```|~~~).*?^\1", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def document(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def markdown_files() -> Iterator[Path]:
    """Yield every document that is ours, not a library's."""
    for path in sorted(ROOT.rglob("*.md")):
        inside = path.relative_to(ROOT).parts
        if not any(part.startswith(".") or part in ("build", "dist") for part in inside):
            yield path


def without_code(text: str) -> str:
    return _CODE.sub("", text)


def anchors(text: str) -> set[str]:
    """Return what `#…` may name in a document, as GitHub makes it of headings."""
    found = set()
    for heading in _HEADING.findall(without_code(text)):
        plain = re.sub(r"[^\w\- ]", "", heading.lower())
        found.add(plain.strip().replace(" ", "-"))
    return found


def first_cells(text: str) -> set[str]:
    """Return what stands in code marks in the first column of the tables."""
    rows = re.findall(r"^\| (.+?) \|", text, re.MULTILINE)
    return {cell for row in rows for cell in re.findall(r"`([^`]+)`", row)}
