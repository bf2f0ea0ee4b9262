"""Relabelling, step for step as Prometheus does it (model/relabel/relabel.go). Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ds4watch.config.patterns import compile_anchored
from ds4watch.config.scrape import LABEL_NAME_PATTERN, RelabelAction, RelabelConfig

_LABEL_NAME = re.compile(LABEL_NAME_PATTERN)
_REFERENCE = re.compile(r"\$(?:\$|\{(\w+)\}|(\w+))")

_LabelSet: TypeAlias = dict[str, str]
"""Labels that are being changed; none of them empty."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One step, compiled."""

    action: RelabelAction
    source: tuple[str, ...]
    separator: str
    pattern: re.Pattern[str]
    target: str
    replacement: str
    modulus: int


def compile_rules(steps: Iterable[RelabelConfig]) -> tuple[Rule, ...]:
    """Return the steps, ready for use."""
    return tuple(
        Rule(
            action=step.action,
            source=step.source_labels,
            separator=step.separator,
            pattern=compile_anchored(step.regex),
            target=step.target_label,
            replacement=step.replacement,
            modulus=step.modulus,
        )
        for step in steps
    )


def relabel(labels: Mapping[str, str], rules: Sequence[Rule]) -> dict[str, str] | None:
    """Return the labels after all steps, or None if a step dropped their bearer."""
    changed = {name: value for name, value in labels.items() if value}
    for rule in rules:
        joined = rule.separator.join(changed.get(name, "") for name in rule.source)
        if not _ACTIONS[rule.action](changed, rule, joined):
            return None
    return changed


def expand(match: re.Match[str], template: str) -> str:
    """Fill in a template as Go's Regexp.Expand does; groups that there are not are empty."""
    groups = match.groupdict() | {
        str(number): match.group(number) for number in range(match.re.groups + 1)
    }

    def value(reference: re.Match[str]) -> str:
        name = reference.group(1) or reference.group(2)
        return "$" if name is None else groups.get(name) or ""

    return _REFERENCE.sub(value, template)


def _put(labels: _LabelSet, name: str, value: str) -> None:
    """Set a label; an empty value takes it away."""
    if value:
        labels[name] = value
    else:
        labels.pop(name, None)


def _replace(labels: _LabelSet, rule: Rule, joined: str) -> bool:
    match = rule.pattern.fullmatch(joined)
    if match is None:
        return True
    target = expand(match, rule.target) if "$" in rule.target else rule.target
    if _LABEL_NAME.fullmatch(target):
        _put(labels, target, expand(match, rule.replacement))
    return True


def _keep(_labels: _LabelSet, rule: Rule, joined: str) -> bool:
    return rule.pattern.fullmatch(joined) is not None


def _drop(_labels: _LabelSet, rule: Rule, joined: str) -> bool:
    return rule.pattern.fullmatch(joined) is None


def _keep_equal(labels: _LabelSet, rule: Rule, joined: str) -> bool:
    return labels.get(rule.target, "") == joined


def _drop_equal(labels: _LabelSet, rule: Rule, joined: str) -> bool:
    return labels.get(rule.target, "") != joined


def _hash_mod(labels: _LabelSet, rule: Rule, joined: str) -> bool:
    digest = hashlib.md5(joined.encode(), usedforsecurity=False).digest()
    _put(labels, rule.target, str(int.from_bytes(digest[8:], "big") % rule.modulus))
    return True


def _label_map(labels: _LabelSet, rule: Rule, _joined: str) -> bool:
    for name, value in sorted(labels.items()):
        match = rule.pattern.fullmatch(name)
        mapped = expand(match, rule.replacement) if match is not None else ""
        if mapped:
            labels[mapped] = value
    return True


def _label_drop(labels: _LabelSet, rule: Rule, _joined: str) -> bool:
    for name in [name for name in labels if rule.pattern.fullmatch(name) is not None]:
        del labels[name]
    return True


def _label_keep(labels: _LabelSet, rule: Rule, _joined: str) -> bool:
    for name in [name for name in labels if rule.pattern.fullmatch(name) is None]:
        del labels[name]
    return True


def _lowercase(labels: _LabelSet, rule: Rule, joined: str) -> bool:
    # Letter by letter, as Go does: no final sigma, no letter that becomes two.
    _put(labels, rule.target, "".join(char.lower()[0] for char in joined))
    return True


def _uppercase(labels: _LabelSet, rule: Rule, joined: str) -> bool:
    raised = (char.upper() for char in joined)
    pairs = zip(joined, raised, strict=True)
    _put(labels, rule.target, "".join(up if len(up) == 1 else char for char, up in pairs))
    return True


_ACTIONS: Mapping[RelabelAction, Callable[[_LabelSet, Rule, str], bool]] = {
    RelabelAction.REPLACE: _replace,
    RelabelAction.KEEP: _keep,
    RelabelAction.DROP: _drop,
    RelabelAction.KEEP_EQUAL: _keep_equal,
    RelabelAction.DROP_EQUAL: _drop_equal,
    RelabelAction.HASH_MOD: _hash_mod,
    RelabelAction.LABEL_MAP: _label_map,
    RelabelAction.LABEL_DROP: _label_drop,
    RelabelAction.LABEL_KEEP: _label_keep,
    RelabelAction.LOWERCASE: _lowercase,
    RelabelAction.UPPERCASE: _uppercase,
}
"""Each changes the labels and returns whether their bearer is kept."""
