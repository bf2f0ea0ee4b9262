"""Whether the server that evaluates rules can: asked before a daemon relies on it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ds4watch.alerting.remote import Answer, age_question, read_matchers
from ds4watch.alerting.rulefile import load_rules
from ds4watch.config.files import LoadedSettings, read_text, rule_files
from ds4watch.engine.remote_rules import RemoteQuestion
from ds4watch.engine.remote_source import RemoteServer, elsewhere_of, open_server
from ds4watch.engine.rulebook import RuleBook
from ds4watch.model.alert import RuleGroup
from ds4watch.model.errors import Located, SourceError
from ds4watch.model.series import NAME_LABEL
from ds4watch.promql.ast import InstantSelector
from ds4watch.promql.render import render
from ds4watch.promql.selection import selectors_of
from ds4watch.promql.storage import Matcher, MatchOp
from ds4watch.scrape.remote_plan import remote_options

_PATIENCE_SECONDS = 60.0
_REMEMBERED = "1h"


@dataclass(frozen=True, slots=True)
class Report:
    """What was found: what is good, what will fail, and what may be meant so."""

    good: list[str] = field(default_factory=list)
    faults: list[Located] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class _Clock:
    """The real clock, for a command."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


def check_offline(loaded: LoadedSettings) -> None:
    """Check what `source` names, and that every rule can be put to a server. Raises ConfigError."""
    remote_options(loaded)
    RuleBook(_groups(loaded), elsewhere_of(loaded))


async def check_source(loaded: LoadedSettings) -> Report:
    """Ask the server for its build, for how fresh its data are, and for every rule."""
    options = remote_options(loaded)
    report = Report()
    if options is None:
        report.notes.append("source: rules are evaluated here, there is no server to ask")
        return report
    clock = _Clock()
    server = open_server(options, clock)
    check = _Check(loaded, server, report, clock.now(), clock.monotonic() + _PATIENCE_SECONDS)
    try:
        await check.server()
        if not report.faults:
            await check.rules(RuleBook(_groups(loaded), elsewhere_of(loaded)))
    finally:
        await server.close()
    return report


@dataclass(slots=True)
class _Check:
    """One look at a server."""

    loaded: LoadedSettings
    source: RemoteServer
    report: Report
    now: float
    until: float

    async def server(self) -> None:
        """Look whether it answers, and how old its data are."""
        source = self.loaded.settings.source
        age = await self._ask(age_question(read_matchers(source.only or "")))
        if age.error is not None:
            self._fault("source.url", age.error)
            return
        self.report.good.append(f"source: {source.url} answers ({await self._version()})")
        if not len(age.vector):
            what = "has no `up` of the last five minutes, by which the age of its data is told"
            mend = "set source.max_age_seconds to 0 if it scrapes nothing"
            self.report.notes.append(f"source: the server {what} ({mend})")
        elif source.max_age_seconds and float(age.vector.values[0]) > source.max_age_seconds:
            found = float(age.vector.values[0])
            self.report.notes.append(
                f"source: the server's newest `up` is {found:.0f} s old, more than "
                f"source.max_age_seconds: its data would count as no data"
            )

    async def rules(self, book: RuleBook) -> None:
        """Look whether each rule can be evaluated, and whether what it selects is there."""
        asked = book.remote_questions()
        answers = await asyncio.gather(*(self._ask(it.remote.text) for it in asked))
        good = 0
        for it, answer in zip(asked, answers, strict=True):
            if answer.error is not None:
                self._fault(f"{it.group}: {it.rule}", answer.error, it.file)
            elif answer.partial:
                self.report.notes.append(f"{it.rule}: the server warns that it may not know all")
            good += answer.error is None
        self.report.good.append(f"source: {good} of {len(asked)} rules can be evaluated there")
        await self._metrics(asked)

    async def _metrics(self, asked: Sequence[RemoteQuestion]) -> None:
        users: dict[str, list[str]] = {}
        for it in asked:
            for name in _names(it):
                users.setdefault(name, []).append(it.rule)
        found = await asyncio.gather(*(self._ask(_is_there(name)) for name in users))
        for (name, rules), answer in zip(users.items(), found, strict=True):
            if answer.error is None and not len(answer.vector):
                told = ", ".join(dict.fromkeys(rules))
                self.report.notes.append(
                    f"the server has had no {name} for {_REMEMBERED}: read by {told}"
                )

    async def _ask(self, text: str) -> Answer:
        try:
            return await self.source.ask(text, self.now, self.until)
        except SourceError as error:
            return Answer(error=str(error))

    async def _version(self) -> str:
        try:
            return f"version {await self.source.version(self.until)}"
        except SourceError:
            return "it does not say its version"

    def _fault(self, field_name: str, message: str, file: str | None = None) -> None:
        path: Path | None = self.loaded.file
        where = file or (str(path) if path else None)
        self.report.faults.append(Located(message, where, field=field_name))


def _groups(loaded: LoadedSettings) -> list[RuleGroup]:
    groups: list[RuleGroup] = []
    for file in rule_files(loaded):
        groups += load_rules(read_text(file), str(file))
    return groups


def _names(asked: RemoteQuestion) -> Iterator[str]:
    for selector in selectors_of(asked.remote.expr):
        for matcher in selector.matchers:
            if matcher.name == NAME_LABEL and matcher.op is MatchOp.EQUAL:
                yield matcher.value


def _is_there(name: str) -> str:
    selector = InstantSelector((Matcher(NAME_LABEL, MatchOp.EQUAL, name),))
    return f"count(last_over_time({render(selector)}[{_REMEMBERED}]))"
