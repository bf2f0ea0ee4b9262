"""YAML text → plain values, with the line of each; every fault of form is a finding."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from typing import Any, TypeAlias

import yaml

from ds4watch.model.errors import ConfigError, Located

Path: TypeAlias = tuple[str | int, ...]
"""Keys and list positions from the top of a document."""

MAX_TEXT_CHARS = 1 << 20
MAX_NODES = 20_000
MAX_DEPTH = 32
_FAST_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Takes a tenth of the time, where PyYAML comes with it."""
_NUMBER_TAGS = tuple(f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "timestamp"))


def dotted(path: Path) -> str:
    """Return a path as people write it: `fleet.workers[0].profile`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


@dataclass(slots=True)
class Document:
    """What a file says. `lines` gives, for each path, the line where its key or item stands."""

    file: str
    value: dict[str, Any] = field(default_factory=dict)
    lines: dict[Path, int] = field(default_factory=dict)
    findings: list[Located] = field(default_factory=list)

    def line_of(self, path: Path) -> int | None:
        """Return the line of `path`, or of the nearest thing above it that is in the file."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return None

    def finding(self, path: Path, message: str, *, mend: str | None = None) -> Located:
        """Return a finding about `path`, with its place."""
        return Located(message, self.file, self.line_of(path), dotted(path) or None, mend)


def read_document(text: str, file: str, *, numbers_as_text: bool = False) -> Document:
    """Read one YAML mapping. An empty text is an empty mapping.

    numbers_as_text: keep them as written; `0x90` is 144 to YAML, and ninety-one zeros to a test.

    Raises ConfigError where nothing can be read at all; lesser faults are in `findings`.
    """
    if len(text) > MAX_TEXT_CHARS:
        message = f"larger than {MAX_TEXT_CHARS >> 20} MiB"
        raise ConfigError(Located(message, file, mend="is this the right file?"))
    root = _compose(text, file)
    document = Document(file)
    if root is None or (root.tag == "tag:yaml.org,2002:null" and not root.value):
        return document
    document.lines[()] = _line(root)
    if not isinstance(root, yaml.MappingNode):
        message = "must be a mapping (lines of `key: value`)"
        raise ConfigError(Located(message, file, _line(root)))
    document.value = _Reader(document, numbers_as_text=numbers_as_text).mapping(root, ())
    return document


def _line(node: yaml.Node) -> int:
    line: int = node.start_mark.line
    return line + 1


def _compose(text: str, file: str) -> yaml.Node | None:
    try:
        return yaml.compose(text, Loader=_FAST_LOADER)
    except (yaml.YAMLError, UnicodeEncodeError):
        return _compose_slowly(text, file)


def _compose_slowly(text: str, file: str) -> yaml.Node | None:
    """Compose by the parser that names what it stumbled upon."""
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        problem = f"not valid YAML: {error.problem or error.context}"
        mend = "indent with spaces, not with tabs" if "'\\t'" in problem else None
        raise ConfigError(Located(problem, file, line, mend=mend)) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        message = "not valid YAML: a control character"
        raise ConfigError(Located(message, file, line)) from error
    except RecursionError as error:
        raise ConfigError(Located("nested too deeply", file)) from error


class _Reader:
    """Turns nodes into values; bounded in depth and number, so that aliases cannot blow it up."""

    def __init__(self, document: Document, *, numbers_as_text: bool) -> None:
        self._document = document
        self._as_text = _NUMBER_TAGS if numbers_as_text else ()
        self._scalars = yaml.constructor.SafeConstructor()
        self._nodes = 0

    def _find(self, path: Path, message: str, *, mend: str | None = None) -> None:
        self._document.findings.append(self._document.finding(path, message, mend=mend))

    def mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, key_node, value_node in self._keys(node, path):
            here = (*path, key)
            if key in values:
                first = self._document.lines[here]
                self._document.findings.append(
                    Located(
                        f"given twice, first in line {first}",
                        self._document.file,
                        _line(key_node),
                        dotted(here),
                        "take one of them out",
                    )
                )
                continue
            self._document.lines[here] = _line(key_node)
            values[key] = self._value(value_node, here)
        return values

    def _keys(
        self, node: yaml.MappingNode, path: Path
    ) -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
        for key_node, value_node in node.value:
            if key_node.tag == "tag:yaml.org,2002:str":
                yield key_node.value, key_node, value_node
                continue
            is_merge = key_node.tag == "tag:yaml.org,2002:merge"
            message = "merge keys (<<) are not supported" if is_merge else "a key must be text"
            field_name = dotted(path) or None
            mend = "write the keys out" if is_merge else "put it in quotes"
            self._document.findings.append(
                Located(message, self._document.file, _line(key_node), field_name, mend)
            )

    def _value(self, node: yaml.Node, path: Path) -> Any:
        self._nodes += 1
        if self._nodes > MAX_NODES or len(path) > MAX_DEPTH:
            raise ConfigError(self._document.finding(path[:2], "too large or nested too deeply"))
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._item(child, (*path, at)) for at, child in enumerate(node.value)]
        return self._scalar(node, path)

    def _item(self, node: yaml.Node, path: Path) -> Any:
        self._document.lines[path] = _line(node)
        return self._value(node, path)

    def _scalar(self, node: yaml.Node, path: Path) -> Any:
        if node.tag in self._as_text:
            return node.value
        try:
            value = self._scalars.construct_object(node)
        except (yaml.YAMLError, ValueError, OverflowError):
            self._find(path, f"cannot be read as a value: {node.value[:60]!r}", mend="quote it?")
            return None
        if isinstance(value, float) and not math.isfinite(value):
            self._find(path, f"must be a finite number, got {node.value}")
            return None
        if isinstance(value, bytes):
            self._find(path, "must not be binary")
            return None
        return value.isoformat() if isinstance(value, date) else value
