"""The part of Prometheus' templates that annotations and labels use.

`{{ $value }}`, `{{ $labels.x }}`, `humanize…`, `printf`, pipes. Anything else expands to
`<error expanding template>`, and never fails an alert.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ds4watch.alerting.template_functions import FUNCTIONS, Constant, Node, TemplateError, text_of
from ds4watch.model.series import Labels

ERROR = "<error expanding template>"

_ACTION = re.compile(
    r"\{\{(?P<left>-\s)?(?P<body>(?:\"(?:\\.|[^\"\\])*\"|`[^`]*`|[^\"`}]|\}(?!\}))*?)"
    r"(?P<right>\s-)?\}\}"
)
_TOKEN = re.compile(
    r"\s*(?:(?P<string>\"(?:\\.|[^\"\\])*\"|`[^`]*`)|(?P<number>[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
    r"|(?P<label>(?:\$labels|\.Labels)\.(?P<name>\w+))|(?P<labels>\$labels|\.Labels)\b"
    r"|(?P<external>(?:\$externalLabels|\.ExternalLabels)(?:\.\w+)?|\$externalURL|\.ExternalURL)\b"
    r"|(?P<value>\$value|\.Value)\b|(?P<function>[A-Za-z_]\w*)|(?P<mark>[|()]))"
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}


@dataclass(frozen=True, slots=True)
class _Action:
    """What stands between braces, read once."""

    node: Node
    uses_value: bool


class Template:
    """A template, read once. `uses_value` says whether its text depends on the alert's value."""

    def __init__(self, text: str) -> None:
        self._parts: list[str | _Action] = [ERROR]
        try:
            self._parts = _read(text) if "{{" in text else [text]
        except (TemplateError, ValueError, OverflowError):
            self._parts = [ERROR]
        self.uses_value = any(isinstance(it, _Action) and it.uses_value for it in self._parts)

    def filled(self, labels: Labels) -> FilledTemplate:
        """Return the template with `labels` filled in, to be asked again and again for a text."""
        scope = dict(labels)
        parts: list[str | Node] = []
        try:
            for part in self._parts:
                if isinstance(part, str):
                    parts.append(part)
                else:
                    parts.append(
                        part.node if part.uses_value else text_of(part.node(scope, math.nan))
                    )
        except (TemplateError, ValueError, OverflowError):
            return FilledTemplate([ERROR], scope)
        return FilledTemplate(parts, scope)


class FilledTemplate:
    """A template with the labels of one alert filled in."""

    __slots__ = ("_fixed", "_labels", "_parts")

    def __init__(self, parts: list[str | Node], labels: Mapping[str, str]) -> None:
        self._parts = parts
        self._labels = labels
        texts = [part for part in parts if isinstance(part, str)]
        self._fixed = "".join(texts) if len(texts) == len(parts) else None

    def text(self, value: float) -> str:
        """Return the text for a value."""
        if self._fixed is not None:
            return self._fixed
        labels = self._labels
        try:
            return "".join(
                [it if isinstance(it, str) else text_of(it(labels, value)) for it in self._parts]
            )
        except (TemplateError, ValueError, OverflowError):
            return ERROR


def _read(template: str) -> list[str | _Action]:
    texts: list[str] = []
    actions: list[_Action] = []
    end = 0
    trim = False
    for match in _ACTION.finditer(template):
        text = template[end : match.start()]
        text = text.lstrip() if trim else text
        texts.append(text.rstrip() if match["left"] else text)
        actions.append(_action(match["body"].strip()))
        end, trim = match.end(), match["right"] is not None
    rest = template[end:]
    texts.append(rest.lstrip() if trim else rest)
    if any("{{" in text for text in texts):
        raise TemplateError
    pairs = zip(texts, actions, strict=False)
    return [*(part for pair in pairs for part in pair), texts[-1]]


def _action(body: str) -> _Action:
    if body.startswith("/*") and body.endswith("*/"):
        return _Action(Constant(""), uses_value=False)
    tokens = _tokens(body)
    reader = _Reader(tokens)
    node = reader.pipeline()
    if reader.left:
        raise TemplateError
    return _Action(node, uses_value=any(kind == "value" for kind, _ in tokens))


def _tokens(body: str) -> list[tuple[str, str]]:
    tokens = []
    end = 0
    while end < len(body):
        match = _TOKEN.match(body, end)
        if match is None or match.lastgroup is None:
            raise TemplateError
        kind = "label" if match["label"] else match.lastgroup
        tokens.append((kind, match["name"] if kind == "label" else match[kind]))
        end = match.end()
    return tokens


class _Reader:
    """Reads tokens: commands, piped one into the next."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self.left = tokens

    def pipeline(self) -> Node:
        """Read commands up to the end or a closing bracket, and return the last one's value."""
        node = self._command(())
        while self.left and self.left[0] == ("mark", "|"):
            self.left = self.left[1:]
            node = self._command((node,))
        return node

    def _command(self, piped: tuple[Node, ...]) -> Node:
        if not self.left:
            raise TemplateError
        kind, text = self.left[0]
        if kind != "function":
            if piped:
                raise TemplateError
            return self._operand()
        self.left = self.left[1:]
        build = FUNCTIONS.get(text)
        if build is None:
            raise TemplateError
        nodes: list[Node] = []
        while self.left and self.left[0] not in (("mark", "|"), ("mark", ")")):
            nodes.append(self._operand())
        nodes += piped
        return build(nodes)

    def _operand(self) -> Node:
        (kind, text), self.left = self.left[0], self.left[1:]
        if kind == "value":
            return lambda _labels, value: value
        if kind == "labels":
            return lambda labels, _value: labels
        if kind == "label":
            return lambda labels, _value: labels.get(text, "")
        if kind == "external":  # labels that a Prometheus adds when it sends; here there are none
            return Constant("")
        if kind == "number":
            return Constant(float(text))
        if kind == "string":
            return Constant(_unquote(text))
        if (kind, text) == ("mark", "("):
            node = self.pipeline()
            if not self.left or self.left[0] != ("mark", ")"):
                raise TemplateError
            self.left = self.left[1:]
            return node
        raise TemplateError


def _unquote(text: str) -> str:
    if text.startswith("`"):
        return text[1:-1]
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[0]), text[1:-1])
