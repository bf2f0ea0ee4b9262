"""Runs files of rule unit tests, and tells how they ended, much as promtool does."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ds4watch.alerting.durations import format_duration
from ds4watch.alerting.rulefile import load_rules
from ds4watch.alerting.unitfile import UnitFile, load_units
from ds4watch.config.files import matching_files, read_text
from ds4watch.engine.rule_units import Mismatch, UnitOutcome, run_units
from ds4watch.model.alert import RuleGroup
from ds4watch.model.errors import ConfigError, Located


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """How the tests of a file ended; with `faults` none of them were run."""

    file: str
    units: tuple[UnitOutcome, ...] = ()
    faults: tuple[Located, ...] = ()

    @property
    def is_good(self) -> bool:
        """Return whether nothing failed."""
        return not self.faults and not any(unit.mismatches for unit in self.units)


def run_file(path: Path) -> FileOutcome:
    """Run the tests of one file against the rule files that it names."""
    # A rule that fails is told with the test; not by the daemon's log as well.
    logging.getLogger("ds4watch.engine.rulebook").setLevel(logging.CRITICAL)
    try:
        units = load_units(read_text(path), str(path))
        return FileOutcome(str(path), run_units(units, _rules_of(units, path)))
    except ConfigError as error:
        return FileOutcome(str(path), faults=error.findings)


def _rules_of(units: UnitFile, path: Path) -> list[RuleGroup]:
    groups: list[RuleGroup] = []
    faults: list[Located] = []
    for position, pattern in enumerate(units.rule_files):
        found = matching_files(path.parent, pattern)
        if not found:
            mend = f"patterns start from {path.parent.absolute()}"
            field = f"rule_files[{position}]"
            faults.append(Located(f"no file matches {pattern}", str(path), None, field, mend))
        for file in found:
            try:
                groups += load_rules(read_text(file), str(file))
            except ConfigError as error:
                faults += error.findings
    if faults:
        raise ConfigError(*faults)
    return groups


def outcome_lines(outcome: FileOutcome) -> Iterator[str]:
    """Yield what promtool prints, and for what differs the difference line by line."""
    yield f"Unit Testing:  {outcome.file}"
    for unit in outcome.units:
        if unit.skipped:
            yield f"  SKIPPED: {_name(unit)}: {unit.skipped} are not supported"
    if outcome.is_good:
        yield "  SUCCESS"
        return
    yield "  FAILED:"
    yield from (f"    {fault}" for fault in outcome.faults)
    for unit in outcome.units:
        for mismatch in unit.mismatches:
            yield f"    name: {_name(unit)},"
            yield from (f"    {line}" for line in _mismatch_lines(mismatch))


def _name(unit: UnitOutcome) -> str:
    return unit.group.name or f"the test in line {unit.group.line}"


def _mismatch_lines(mismatch: Mismatch) -> Iterator[str]:
    yield f"{mismatch.looked_at}, time: {format_duration(mismatch.at)},"
    if mismatch.error:
        yield f"    err: {mismatch.error}"
        return
    compared = difflib.ndiff(mismatch.expected, mismatch.got)
    lines = [line.rstrip("\n") for line in compared if not line.startswith("?")]
    yield "    - expected, + got:"
    yield from (f"    {line}" for line in lines)


def outcome_json(outcome: FileOutcome) -> dict[str, Any]:
    """Return an outcome for programs."""
    return {
        "file": outcome.file,
        "ok": outcome.is_good,
        "faults": [str(fault) for fault in outcome.faults],
        "tests": [
            {
                "name": _name(unit),
                "line": unit.group.line,
                "skipped": unit.skipped or None,
                "failures": [_mismatch_json(it) for it in unit.mismatches],
            }
            for unit in outcome.units
        ],
    }


def _mismatch_json(mismatch: Mismatch) -> dict[str, Any]:
    return {
        "what": mismatch.looked_at,
        "at_seconds": mismatch.at,
        "expected": list(mismatch.expected),
        "got": list(mismatch.got),
        "error": mismatch.error or None,
    }
