"""Prometheus rule files → rules, or one located finding for each fault."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from ds4watch.alerting.durations import parse_duration
from ds4watch.alerting.machine import EXIT_ANNOTATION
from ds4watch.config.document import Document, Path, read_document
from ds4watch.config.loader import load_section
from ds4watch.config.section import Section
from ds4watch.model.alert import AlertRule, OnNoData, RecordingRule, RuleGroup
from ds4watch.model.errors import ConfigError, Located, QueryError
from ds4watch.model.series import NAME_LABEL, labels_of
from ds4watch.promql.ast import ValueType, value_type
from ds4watch.promql.parse import parse

NO_DATA_ANNOTATION = "ds4_on_no_data"
MIN_FIRING_ANNOTATION = "ds4_min_firing"
_METRIC_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_ONLY_FOR_ALERTS = ("for", "keep_firing_for", "annotations")


def _written(value: Any) -> Any:
    """Take a whole number for text, as Prometheus does in `expr: 1` and `for: 0`."""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if is_whole else value


_Text = Annotated[str, BeforeValidator(_written)]
_TextMap = dict[str, _Text]


class _RuleSection(Section):
    record: _Text | None = Field(None, description="Name of the series to write.")
    alert: _Text | None = Field(None, description="Name of the alert.")
    expr: _Text = Field("", description="PromQL.")
    hold: _Text | None = Field(None, alias="for", description="Time the condition has to hold.")
    keep_firing_for: _Text | None = Field(None, description="Time to go on firing without it.")
    labels: _TextMap = Field(default_factory=dict, description="Labels to add.")
    annotations: _TextMap = Field(default_factory=dict, description="Texts, and hints to us.")


class _GroupSection(Section):
    name: _Text = Field(description="Name, unique in the file.")
    interval: _Text | None = Field(None, description="Time between two evaluations.")
    limit: int = Field(0, description="Not supported but for 0.")
    query_offset: _Text | None = Field(None, description="Not supported but for 0.")
    labels: _TextMap = Field(default_factory=dict, description="Labels of all rules.")
    rules: tuple[_RuleSection, ...] | None = Field(None, description="Rules, in order.")


class _FileSection(Section):
    groups: tuple[_GroupSection, ...] | None = Field(None, description="Groups of rules.")


@dataclass(frozen=True, slots=True)
class RuleFile:
    """The groups of a file, and where in it what stands."""

    groups: tuple[RuleGroup, ...]
    document: Document


def load_rules(text: str, file: str) -> tuple[RuleGroup, ...]:
    """Read a rule file. Raises ConfigError with one finding for each fault in it.

    A file that loads can be evaluated: expressions are parsed, functions are known.
    """
    return read_rules(text, file).groups


def read_rules(text: str, file: str) -> RuleFile:
    """Read a rule file as `load_rules` does, with the places of what it says."""
    _refuse_others(read_document(text, file))
    loaded, document = load_section(text, file, _FileSection)
    groups = loaded.groups or ()
    findings = [*_file_faults(groups, document)]
    if findings:
        raise ConfigError(*sorted(findings, key=lambda finding: finding.line or 0))
    return RuleFile(tuple(_group(group, file) for group in groups), document)


def _refuse_others(document: Document) -> None:
    """Say in one line that a file of another kind is no rule file, not key by key."""
    if "groups" in document.value or len(document.value) < 2:
        return
    kind = document.value.get("kind")
    what = f"a Kubernetes {kind}" if kind else f"it has {', '.join(document.value)}"
    mend = "give it what Prometheus would load, from `groups:` on"
    raise ConfigError(Located(f"not a rule file: {what}", document.file, 1, mend=mend))


def _file_faults(groups: tuple[_GroupSection, ...], document: Document) -> Iterator[Located]:
    seen: set[str] = set()
    for number, group in enumerate(groups):
        path: Path = ("groups", number)
        if not group.name:
            yield document.finding((*path, "name"), "is empty")
        elif group.name in seen:
            message = f"a second group with the name {group.name!r}"
            yield document.finding((*path, "name"), message, mend="give it another")
        seen.add(group.name)
        yield from _group_faults(group, path, document)
        for position, rule in enumerate(group.rules or ()):
            yield from _rule_faults(rule, (*path, "rules", position), document)


def _group_faults(group: _GroupSection, path: Path, document: Document) -> Iterator[Located]:
    yield from _duration_faults(group.interval, (*path, "interval"), document)
    yield from _duration_faults(group.query_offset, (*path, "query_offset"), document)
    yield from _label_faults(group.labels, (*path, "labels"), document)
    if group.limit:
        mend = "take it out: a rule with too many alerts fails and keeps its state"
        yield document.finding((*path, "limit"), "is not supported", mend=mend)
    if group.query_offset not in (None, "0", "0s"):
        mend = "take it out: samples are in place when rules are evaluated"
        yield document.finding((*path, "query_offset"), "is not supported", mend=mend)


def _rule_faults(rule: _RuleSection, path: Path, document: Document) -> Iterator[Located]:
    if rule.record and rule.alert:
        message = f"both `record: {rule.record}` and `alert: {rule.alert}`"
        yield document.finding(path, message, mend="make it two rules")
    elif not rule.record and not rule.alert:
        yield document.finding(path, "neither `record` nor `alert`", mend="name it with one")
    elif rule.record:
        yield from _recording_faults(rule, path, document)
    name = rule.alert or rule.record or "rule"
    if rule.expr.strip():
        yield from _expression_faults(name, rule.expr, (*path, "expr"), document)
    else:
        yield document.finding((*path, "expr"), f"{name}: is missing", mend="give it PromQL")
    yield from _duration_faults(rule.hold, (*path, "for"), document)
    yield from _duration_faults(rule.keep_firing_for, (*path, "keep_firing_for"), document)
    yield from _label_faults(rule.labels, (*path, "labels"), document)
    if not rule.record:
        yield from _annotation_faults(rule, name, (*path, "annotations"), document)


def _recording_faults(rule: _RuleSection, path: Path, document: Document) -> Iterator[Located]:
    if not _METRIC_NAME.fullmatch(rule.record or ""):
        yield document.finding((*path, "record"), f"not a metric name: {rule.record!r}")
    given = {"for": rule.hold, "keep_firing_for": rule.keep_firing_for}
    present: Mapping[str, object] = given | {"annotations": rule.annotations}
    for key in _ONLY_FOR_ALERTS:
        if present[key]:
            yield document.finding((*path, key), "is for alerts only", mend="take it out")


def _expression_faults(
    name: str, expression: str, path: Path, document: Document
) -> Iterator[Located]:
    try:
        kind = value_type(parse(expression))
    except QueryError as error:
        place = place_of_fault(expression, error.position)
        yield document.finding(path, f"{name}: {' '.join(str(error).split())}{place}")
        return
    if kind not in (ValueType.SCALAR, ValueType.VECTOR):
        yield document.finding(path, f"{name}: is a {kind}, which a rule cannot be")


def place_of_fault(expression: str, position: int | None) -> str:
    """Return where in an expression a fault is, to be said after it; empty if not known."""
    if position is None:
        return ""
    before = expression[:position]
    character = position - before.rfind("\n")
    if "\n" not in expression.strip():
        return f", at character {character}"
    return f", at line {before.count(chr(10)) + 1}, character {character} of the expression"


def _duration_faults(text: str | None, path: Path, document: Document) -> Iterator[Located]:
    if text is None:
        return
    try:
        parse_duration(text)
    except ValueError as error:
        yield document.finding(path, str(error))


def _label_faults(labels: Mapping[str, str], path: Path, document: Document) -> Iterator[Located]:
    for name in labels:
        if not name or name == NAME_LABEL:
            yield document.finding((*path, name), f"not a label name: {name!r}")


def _annotation_faults(
    rule: _RuleSection, name: str, path: Path, document: Document
) -> Iterator[Located]:
    on_no_data = rule.annotations.get(NO_DATA_ANNOTATION)
    if on_no_data is not None and on_no_data not in OnNoData._value2member_map_:
        message = f"must be one of {', '.join(OnNoData)}, got {on_no_data!r}"
        yield document.finding((*path, NO_DATA_ANNOTATION), message)
    least = rule.annotations.get(MIN_FIRING_ANNOTATION)
    yield from _duration_faults(least, (*path, MIN_FIRING_ANNOTATION), document)
    if EXIT_ANNOTATION in rule.annotations:
        leaving = rule.annotations[EXIT_ANNOTATION]
        yield from _expression_faults(name, leaving, (*path, EXIT_ANNOTATION), document)


def _group(section: _GroupSection, file: str) -> RuleGroup:
    ordinals: Counter[tuple[str | None, str]] = Counter()
    rules = []
    for rule in section.rules or ():
        labels = dict(section.labels) | rule.labels
        key = (rule.alert, repr(sorted(labels.items())))
        rules.append(_rule(section.name, rule, labels, ordinals[key]))
        ordinals[key] += 1
    interval = parse_duration(section.interval or "0")
    return RuleGroup(section.name, file, interval, tuple(rules))


def _rule(
    group: str, rule: _RuleSection, labels: Mapping[str, str], ordinal: int
) -> AlertRule | RecordingRule:
    if rule.record:
        return RecordingRule(group, rule.record, rule.expr, labels_of(labels))
    return AlertRule(
        group=group,
        name=rule.alert or "",
        expression=rule.expr,
        for_seconds=parse_duration(rule.hold or "0"),
        keep_firing_seconds=parse_duration(rule.keep_firing_for or "0"),
        labels=labels_of(labels),
        annotations=labels_of(rule.annotations),
        on_no_data=OnNoData(rule.annotations.get(NO_DATA_ANNOTATION, OnNoData.RESOLVE)),
        min_firing_seconds=parse_duration(rule.annotations.get(MIN_FIRING_ANNOTATION, "0")),
        ordinal=ordinal,
    )
