"""The written documents of the repository, as texts."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
_CODE = re.compile(r"^(```|~~~).*?^\1", re.DOTALL | re.MULTILINE)
_FENCED = re.compile(
    r"(?:^<!-- (?P<comment>[^\n]*?) -->\n)?"
    r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<code>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)
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


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code in a document, and the comment in front of it."""

    file: str
    line: int
    """Line of its first line of code."""
    info: str
    """What stands behind the fence; empty for an indented block."""
    comment: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def blocks(path: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a document, also those within a list."""
    text = path.read_text(encoding="utf-8")
    for found in _FENCED.finditer(text):
        yield Block(
            file=str(path.relative_to(ROOT)),
            line=text.count("\n", 0, found.start("code")) + 1,
            info=found["info"].strip(),
            comment=found["comment"] or "",
            text=textwrap.dedent(found["code"]),
        )


def indented_lines(text: str) -> Iterator[str]:
    """Yield the lines of code that are set off by four spaces, with their continuations."""
    for line in _CODE.sub("", text).replace("\\\n", "").splitlines():
        if line.startswith("    "):
            yield line[4:]
