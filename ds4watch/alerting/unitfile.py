"""Unit tests of rules in Prometheus's own format (`promtool test rules`): text in, cases out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import Field

from ds4watch.alerting.durations import parse_duration
from ds4watch.config.document import Document, Path
from ds4watch.config.loader import load_section
from ds4watch.config.section import Section
from ds4watch.model.errors import ConfigError, Located, QueryError
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import Labels, labels_of
from ds4watch.promql.ast import Expr
from ds4watch.promql.notation import is_histogram, labels_from, values_of
from ds4watch.promql.parse import parse

MAX_STEPS = 1_000_000


class _SeriesSection(Section):
    series: str = Field(description="Name and labels.")
    values: str = Field(description="Values, one an interval.")


class _AlertSection(Section):
    exp_labels: dict[str, str] | None = Field(None, description="Labels, without alertname.")
    exp_annotations: dict[str, str] | None = Field(None, description="Annotations, filled in.")


class _AlertTestSection(Section):
    eval_time: str = Field(description="When to look.")
    alertname: str = Field(description="Which alert.")
    exp_alerts: tuple[_AlertSection, ...] | None = Field(None, description="What fires then.")


class _SampleSection(Section):
    labels: str = Field("{}", description="Name and labels.")
    value: str = Field("0", description="The value.")
    histogram: str | None = Field(None, description="A native histogram: not supported.")


class _ExprTestSection(Section):
    expr: str = Field(description="PromQL.")
    eval_time: str = Field(description="When to evaluate.")
    exp_samples: tuple[_SampleSection, ...] | None = Field(None, description="What it gives.")


class _GroupSection(Section):
    name: str | None = Field(None, description="What is tested.")
    interval: str | None = Field(None, description="Time between two values.")
    input_series: tuple[_SeriesSection, ...] | None = Field(None, description="What there is.")
    alert_rule_test: tuple[_AlertTestSection, ...] | None = Field(None, description="Alerts.")
    promql_expr_test: tuple[_ExprTestSection, ...] | None = Field(None, description="Expressions.")
    external_labels: dict[str, str] | None = Field(None, description="For templates.")
    external_url: str | None = Field(None, description="For templates.")


class _FileSection(Section):
    rule_files: tuple[str, ...] | None = Field(None, description="Rule files; patterns.")
    evaluation_interval: str = Field("1m", description="Time between two evaluations.")
    group_eval_order: tuple[str, ...] | None = Field(None, description="Groups, first to last.")
    fuzzy_compare: bool = Field(default=False, description="Values may differ by a millionth.")
    tests: tuple[_GroupSection, ...] | None = Field(None, description="Tests.")


@dataclass(frozen=True, slots=True)
class InputSeries:
    """A series, and its values, one an interval; None is no sample."""

    labels: Labels
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class ExpectedAlert:
    """An alert that fires, without the alertname among its labels."""

    labels: Labels
    annotations: Labels


@dataclass(frozen=True, slots=True)
class AlertCase:
    """Which alerts of a name fire at an instant."""

    at: UnixSeconds
    alert: str
    expected: tuple[ExpectedAlert, ...]


@dataclass(frozen=True, slots=True)
class ExprCase:
    """What an expression gives at an instant; labels with `__name__`."""

    at: UnixSeconds
    text: str
    expr: Expr
    expected: tuple[tuple[Labels, float], ...]


@dataclass(frozen=True, slots=True)
class UnitGroup:
    """Series, and what they lead to. `skip` says why it cannot be run here."""

    name: str
    line: int | None
    interval_seconds: float
    series: tuple[InputSeries, ...] = ()
    alerts: tuple[AlertCase, ...] = ()
    exprs: tuple[ExprCase, ...] = ()
    external_labels: Labels = ()
    external_url: str = ""
    skip: str = ""

    @property
    def last_at(self) -> UnixSeconds:
        """The last instant that is looked at."""
        instants = [case.at for case in self.alerts] + [case.at for case in self.exprs]
        return max(instants, default=0.0)


@dataclass(frozen=True, slots=True)
class UnitFile:
    """A file of unit tests. `fuzzy`: values of expressions may differ by a millionth."""

    file: str
    rule_files: tuple[str, ...]
    evaluation_seconds: float
    group_order: tuple[str, ...]
    fuzzy: bool
    groups: tuple[UnitGroup, ...]


def load_units(text: str, file: str) -> UnitFile:
    """Read a file of unit tests. Raises ConfigError with one finding for each fault in it."""
    loaded, document = load_section(text, file, _FileSection, numbers_as_text=True)
    reader = _Reader(document)
    every = reader.duration(loaded.evaluation_interval, ("evaluation_interval",))
    groups = tuple(
        reader.group(group, ("tests", at), every) for at, group in enumerate(loaded.tests or ())
    )
    if every <= 0 or any(group.last_at / every > MAX_STEPS for group in groups):
        reader.find(("evaluation_interval",), f"must be over 0, and {MAX_STEPS} of it enough")
    if reader.findings:
        raise ConfigError(*sorted(reader.findings, key=lambda finding: finding.line or 0))
    return UnitFile(
        file,
        loaded.rule_files or (),
        every,
        loaded.group_eval_order or (),
        loaded.fuzzy_compare,
        groups,
    )


class _Reader:
    """Turns sections into cases, and gathers what is wrong with them."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.findings: list[Located] = []

    def find(self, path: Path, message: str) -> None:
        """Note a fault."""
        self.findings.append(self._document.finding(path, message))

    def duration(self, text: str, path: Path) -> float:
        """Return seconds; a fault is noted."""
        try:
            return parse_duration(text)
        except ValueError as error:
            self.find(path, str(error))
            return math.nan

    def group(self, section: _GroupSection, path: Path, every: float) -> UnitGroup:
        """Return one test."""
        interval = section.interval
        seconds = every if interval is None else self.duration(interval, (*path, "interval"))
        name, line = section.name or "", self._document.line_of(path)
        if _has_histograms(section):
            return UnitGroup(name, line, seconds, skip="native histograms")
        series = enumerate(section.input_series or ())
        return UnitGroup(
            name=name,
            line=line,
            interval_seconds=seconds,
            series=tuple(self._series(series, path)),
            alerts=tuple(self._alerts(section, (*path, "alert_rule_test"))),
            exprs=tuple(self._exprs(section, (*path, "promql_expr_test"))),
            external_labels=labels_of(section.external_labels or {}),
            external_url=section.external_url or "",
        )

    def _series(
        self, sections: Iterator[tuple[int, _SeriesSection]], path: Path
    ) -> Iterator[InputSeries]:
        for at, section in sections:
            try:
                values = tuple(values_of(section.values))
                yield InputSeries(labels_from(section.series), values)
            except QueryError as error:
                self.find((*path, "input_series", at), _line(error))

    def _alerts(self, section: _GroupSection, path: Path) -> Iterator[AlertCase]:
        for number, case in enumerate(section.alert_rule_test or ()):
            at = self.duration(case.eval_time, (*path, number, "eval_time"))
            expected = tuple(
                ExpectedAlert(labels_of(it.exp_labels or {}), labels_of(it.exp_annotations or {}))
                for it in case.exp_alerts or ()
            )
            yield AlertCase(at, case.alertname, expected)

    def _exprs(self, section: _GroupSection, path: Path) -> Iterator[ExprCase]:
        for number, case in enumerate(section.promql_expr_test or ()):
            at = self.duration(case.eval_time, (*path, number, "eval_time"))
            try:
                expr = parse(case.expr)
                expected = tuple(
                    (labels_from(it.labels), _value(it.value)) for it in case.exp_samples or ()
                )
            except QueryError as error:
                self.find((*path, number), _line(error))
                continue
            yield ExprCase(at, case.expr, expr, expected)


def _has_histograms(section: _GroupSection) -> bool:
    samples = [it for case in section.promql_expr_test or () for it in case.exp_samples or ()]
    inputs = section.input_series or ()
    return any(is_histogram(it.values) for it in inputs) or any(it.histogram for it in samples)


def _value(text: str) -> float:
    values = values_of(text.removeprefix("."))  # `.inf` and `.nan`
    if len(values) != 1 or values[0] is None:
        raise QueryError(f"not one value: {text!r}")
    return values[0]


def _line(error: QueryError) -> str:
    return " ".join(str(error).split())
