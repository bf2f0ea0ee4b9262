from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.unit.docs.documents import ROOT, anchors, document, markdown_files, without_code

NOT_CODE = {"__pycache__", "build", "dist", "state"}
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def folders(of: Path) -> set[str]:
    return {
        path.name
        for path in of.iterdir()
        if path.is_dir()
        and path.name not in NOT_CODE
        and not path.name.startswith(".")
        and not path.name.endswith(".egg-info")
    }


def tree() -> dict[str, set[str]]:
    """Return the tree that docs/architecture.md draws: folder → names within."""
    block = re.search(r"tree true -->\n```\n(.*?)```", document("architecture.md"), re.DOTALL)
    assert block
    drawn: dict[str, set[str]] = {"": set()}
    folder = ""
    for line in block[1].splitlines():
        name = line.split()[0]
        if line.startswith(" "):
            drawn[folder].add(name.removesuffix("/"))
        else:
            folder = name.removesuffix("/")
            drawn[""].add(folder)
            drawn[folder] = set()
    return drawn


def test_the_tree_in_the_architecture_is_the_real_one() -> None:
    drawn = tree()
    assert drawn[""] == {".ci", *folders(ROOT)}
    assert drawn["tests"] == folders(ROOT / "tests")
    modules = {path.name for path in (ROOT / "ds4watch").glob("[a-z]*.py")}
    assert drawn["ds4watch"] == folders(ROOT / "ds4watch") | modules


def links() -> Iterator[tuple[Path, str]]:
    for path in markdown_files():
        for target in LINK.findall(without_code(path.read_text(encoding="utf-8"))):
            yield path, target


def fault_of(path: Path, target: str) -> str | None:
    """Return what is wrong with a link; only those to files here are looked at."""
    if target.startswith(("http://", "https://")):
        return None
    name, _, anchor = unquote(target).partition("#")
    file = (path.parent / name).resolve() if name else path
    if not file.exists():
        return f"{path.relative_to(ROOT)} links to {target}, which is not there"
    if anchor and anchor not in anchors(file.read_text(encoding="utf-8")):
        return f"{path.relative_to(ROOT)} links to {target}, which has no such heading"
    return None


def test_every_link_leads_somewhere() -> None:
    assert not [fault for path, target in links() if (fault := fault_of(path, target))]


def test_every_document_that_the_program_names_is_there() -> None:
    files = [*(ROOT / "ds4watch").rglob("*.py"), *(ROOT / "serving").rglob("*")]
    files += [*(ROOT / "rules").rglob("*.yml"), ROOT / "README.md"]
    named = {
        name
        for file in files
        if file.suffix in (".py", ".yml", ".service", ".rules", ".md", ".js", ".html")
        for name in re.findall(
            r"(?<![\w/])docs/[\w/-]+\.md(?:#[\w-]+)?", file.read_text(encoding="utf-8")
        )
    }
    assert len(named) > 20
    assert not [fault for it in sorted(named) if (fault := fault_of(ROOT / "README.md", it))]


def test_the_index_names_every_document() -> None:
    named = {target.partition("#")[0] for target in LINK.findall(document("index.md"))}
    assert not {it.name for it in (ROOT / "docs").glob("*.md")} - named - {"index.md"}


def test_every_document_can_be_found_from_the_readme() -> None:
    seen: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        path = waiting.pop()
        if path in seen or path.suffix != ".md":
            continue
        seen.add(path)
        for target in LINK.findall(path.read_text(encoding="utf-8")):
            file = (path.parent / target.partition("#")[0]).resolve()
            waiting += sorted(file.glob("*.md")) if file.is_dir() else [file] * file.is_file()
    assert not set(markdown_files()) - seen


def test_the_readme_begins_with_commands_that_make_knows() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    begun = re.findall(r"^make ([a-z-]+)", readme[:600], re.MULTILINE)
    assert begun[:3] == ["run", "test", "run"]
    made = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    made |= {
        it.stem.replace("_", "-") for it in (ROOT / "benchmarks").glob("bench_*.py")
    }  # bench-%
    for path in markdown_files():
        named = re.findall(r"\bmake ([a-z][a-z-]+)\b", code_in(path.read_text(encoding="utf-8")))
        assert set(named) <= made, path


def code_in(text: str) -> str:
    blocks = re.findall(r"^```\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return "\n".join([*blocks, *re.findall(r"`([^`\n]+)`", text)])


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"])
def test_what_people_look_for_first_is_there(name: str) -> None:
    assert (ROOT / name).stat().st_size > 500


def test_changelog_lines_say_what_they_are_and_whom_they_concern() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    lines = re.findall(r"^- .*$", text, re.MULTILINE)
    assert lines
    assert not [it for it in lines if not re.match(r"- \[(CHANGE|FEATURE|FIX)\] [a-z]+: \S", it)]
