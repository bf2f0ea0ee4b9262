"""English texts that are on this machine anyway, in pieces of a given size, by kind."""

from __future__ import annotations

import gzip
import importlib.metadata
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from pydoc_data.topics import topics

_DOCS = Path(__file__).resolve().parents[2] / "docs"
_LICENSES = Path("/usr/share/common-licenses")
_MAN = Path("/usr/share/man/man1")


def licenses() -> Iterator[str]:
    for path in sorted(_LICENSES.glob("*")):
        if path.is_file() and not path.is_symlink():
            yield path.read_text(errors="replace")


def own_docs() -> Iterator[str]:
    for path in sorted(_DOCS.glob("*.md")):
        yield path.read_text()


def python_reference() -> Iterator[str]:
    for _, text in sorted(topics.items()):
        yield text


def package_readmes() -> Iterator[str]:
    for package in sorted(importlib.metadata.distributions(), key=lambda it: it.name.lower()):
        description = package.read_text("METADATA") or ""
        yield description.partition("\n\n")[2]


def man_pages() -> Iterator[str]:
    for path in sorted(_MAN.glob("*.1.gz")):
        if path.is_file() and not path.is_symlink():
            yield _without_roff(gzip.decompress(path.read_bytes()).decode(errors="replace"))


CORPORA: dict[str, Callable[[], Iterator[str]]] = {
    "licences": licenses,
    "our docs": own_docs,
    "python reference": python_reference,
    "package readmes": package_readmes,
    "man pages": man_pages,
}


def documents(kind: str, *, chars: int, count: int, seed: int) -> list[str]:
    """Return up to `count` different texts of about `chars`, each from one source if that is long.

    Short sources are put one after the other, as a prompt of several retrieved texts has them.
    """
    pieces: list[str] = []
    held = ""
    for text in CORPORA[kind]():
        held = f"{held}\n\n{text.strip()}" if held else text.strip()
        while len(held) >= chars:
            end = held.rfind("\n\n", chars // 2, chars)
            end = chars if end < 0 else end
            pieces.append(held[:end].strip())
            held = held[end:].strip()
    dice = random.Random(seed)
    dice.shuffle(pieces)
    return pieces[:count]


def _without_roff(page: str) -> str:
    lines = []
    for line in page.splitlines():
        if line.startswith((".SH", ".SS", ".PP", ".TP", ".IP", ".LP")):
            lines.append("")
        if line.startswith((".SH", ".SS", ".B ", ".I ", ".BR ", ".IR ")):
            lines.append(re.sub(r"^\.\w+ *", "", line).strip('"'))
        elif not line.startswith((".", "'")):
            lines.append(line)
    text = re.sub(r"\\f[A-Z]|\\f\(..|\\&", "", "\n".join(lines))
    return re.sub(r"\\\((?:aq|cq|oq)", "'", text).replace("\\-", "-").replace("\\", "")
