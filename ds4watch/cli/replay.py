"""`ds4watch rules replay`: rules and policy over the past."""

from __future__ import annotations

import contextlib
import difflib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from ds4watch.alerting.rulefile import load_rules
from ds4watch.cli.common import Config, Json, State, print_json
from ds4watch.cli.console import console
from ds4watch.cli.history import SystemClock
from ds4watch.cli.history_output import bar
from ds4watch.cli.instants import instant, step_seconds
from ds4watch.cli.plot import write_plot
from ds4watch.cli.replay_json import replay_json
from ds4watch.cli.replay_output import Shown, replay_parts
from ds4watch.config.files import LoadedSettings, find_settings, policy_file, read_text, rule_files
from ds4watch.config.places import resolve_state_dir
from ds4watch.engine.replay import ReplayAsk, replay
from ds4watch.engine.replay_source import Past, fetched, imported, place_from, stored, wanted_by
from ds4watch.history.migrate import Which
from ds4watch.history.place import Place, place_of
from ds4watch.model.alert import AlertRule, RecordingRule, RuleGroup
from ds4watch.model.errors import ConfigError, Located
from ds4watch.model.ports import UnixSeconds
from ds4watch.policy.policyfile import load_policy

_DAY_SECONDS = 86_400.0
_SERVERS = ("http://", "https://")

Files = Annotated[
    list[Path] | None,
    typer.Argument(metavar="[FILES]...", help="Rule files. [default: those of the settings]"),
]
Policy = Annotated[
    Path | None,
    typer.Option("--policy", metavar="FILE", help="Policy. [default: that of the settings]"),
]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        "--start",
        metavar="TIME",
        help="Begin: ISO 8601 (UTC, unless it has a zone), unix seconds, or an age such as 6h. "
        "[default: a day before the end]",
    ),
]
To = Annotated[
    str | None,
    typer.Option(
        "--to", "--end", metavar="TIME", help="End, likewise. [default: the newest sample, or now]"
    ),
]
Step = Annotated[
    str, typer.Option("--step", metavar="TIME", help="From one evaluation to the next.")
]
Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="FILE|URL",
        help="A samples.db, or a postgresql:// address. [default: that of the settings]",
    ),
]
Import = Annotated[
    str | None,
    typer.Option(
        "--import",
        metavar="FILE|URL",
        help="A history from elsewhere instead: OpenMetrics (`ds4watch history export`, `promtool "
        "tsdb dump-openmetrics`), `promtool tsdb dump`, or the address of a running Prometheus.",
    ),
]
Plot = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Draw it too, as PNG or SVG (needs matplotlib)."),
]
Only = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="NAME", help="This alert only, all its tiers; repeatable."),
]
All = Annotated[bool, typer.Option("--all", help="List every alert and action, not the first.")]


@dataclass(frozen=True, slots=True)
class _Span:
    """What of the past was asked for, as typed."""

    start: str | None
    end: str | None
    step_seconds: float
    now: UnixSeconds

    def of(self, past: Past) -> tuple[UnixSeconds, UnixSeconds]:
        """Return where to begin and to end. Raises ConfigError if nothing is there."""
        end_at = min(self.now, past.last_at) if self.end is None else self._end()
        first_at = max(past.first_at, end_at - _DAY_SECONDS)
        start_at = first_at if self.start is None else self._start()
        if start_at > end_at:
            raise _bad("--from", f"{self.start} is after the end, {self.end or 'the newest'}")
        if start_at > past.last_at or end_at < past.first_at:
            raise _bad("--from", f"{past.told} has nothing of that time", mend=_extent(past))
        return start_at, end_at

    def fixed(self) -> tuple[UnixSeconds, UnixSeconds]:
        """Return the same where it is not known what there is."""
        end_at = self.now if self.end is None else self._end()
        start_at = end_at - _DAY_SECONDS if self.start is None else self._start()
        if start_at > end_at:
            raise _bad("--from", f"{self.start} is after the end, {self.end or 'now'}")
        return start_at, end_at

    def _start(self) -> UnixSeconds:
        return instant(self.start or "", self.now, option="--from")

    def _end(self) -> UnixSeconds:
        return instant(self.end or "", self.now, option="--to")


def replay_rules(  # noqa: PLR0917 - Typer makes an option of each
    files: Files = None,
    config: Config = None,
    state: State = None,
    policy: Policy = None,
    start: From = None,
    end: To = None,
    step: Step = "15s",
    store: Store = None,
    source: Import = None,
    plot: Plot = None,
    only: Only = None,
    everything: All = False,
    as_json: Json = False,
) -> None:
    """Run rules and policy over the past: what would have fired, and what would have been done.

    The way to tune a threshold before trusting it; nothing is sent or done.

    Example: ds4watch rules replay my-rules.yml --from 6h

    Example: ds4watch rules replay --only QueueDepthHigh --plot queue.png

    Example: ds4watch rules replay my-rules.yml --import http://prometheus:9090 --from 2h
    """
    loaded = find_settings(config, os.environ)
    paths = tuple(files) if files else rule_files(loaded)
    groups = _groups(paths, only or ())
    policy_path = policy or policy_file(loaded)
    its_policy = load_policy(read_text(policy_path), str(policy_path))
    span = _Span(start, end, step_seconds(step), SystemClock().now())
    if plot is not None and plot.suffix not in (".png", ".svg"):
        raise _bad("--plot", f"{plot} must end in .png or .svg")
    with _past(loaded, state, groups, span, store=store, source=source) as past:
        start_at, end_at = span.of(past)
        ask = ReplayAsk(groups, its_policy, start_at, end_at, span.step_seconds)
        with bar("replayed", "steps") as told:
            found = replay(ask, past.storage, told)
    shown = Shown(ask, found, past.told, str(policy_path), everything=everything)
    if plot is not None:
        write_plot("ds4watch.cli.replay_drawing", shown, plot, without="the table has a timeline")
    if as_json:
        print_json(replay_json(shown))
    else:
        out = console()
        for part in replay_parts(shown, out.width):
            out.print(part)


def _groups(paths: Sequence[Path], only: Sequence[str]) -> tuple[RuleGroup, ...]:
    """Return the rules, of alerts those of the names given. Raises ConfigError."""
    groups = [group for path in paths for group in load_rules(read_text(path), str(path))]
    names = {rule.name for group in groups for rule in group.rules if isinstance(rule, AlertRule)}
    for name in only:
        if name not in names:
            close = difflib.get_close_matches(name, names, n=1)
            raise _bad("--only", f"there is no alert {name}", mend=_likely(close, paths))
    return tuple(replace(group, rules=_only(group, only)) for group in groups)


def _only(group: RuleGroup, only: Sequence[str]) -> tuple[AlertRule | RecordingRule, ...]:
    return tuple(
        rule
        for rule in group.rules
        if not only or not isinstance(rule, AlertRule) or rule.name in only
    )


def _likely(close: Sequence[str], paths: Sequence[Path]) -> str:
    return f"did you mean {close[0]}?" if close else f"looked in {', '.join(map(str, paths))}"


@contextlib.contextmanager
def _past(
    loaded: LoadedSettings,
    state: Path | None,
    groups: Sequence[RuleGroup],
    span: _Span,
    *,
    store: str | None,
    source: str | None,
) -> Iterator[Past]:
    if source is None:
        with stored(_place(loaded, state, store)) as past:
            yield past
        return
    if store is not None or state is not None:
        raise _bad("--import", "is a history of its own", mend="leave out --store and --state")
    wanted = wanted_by(groups)
    if source.startswith(_SERVERS):
        start_at, end_at = span.fixed()
        with bar("fetched", "queries") as told:
            past = fetched(source, wanted, start_at, end_at, told)
        yield replace(past, first_at=start_at, last_at=end_at)
        return
    with bar("read", "bytes") as told:
        past = imported(Path(source), wanted, told)
    yield past


def _place(loaded: LoadedSettings, state: Path | None, store: str | None) -> Place:
    if store is not None:
        return place_from(store)
    settings = loaded.settings
    folder = (state or resolve_state_dir(settings, os.environ)).absolute()
    return place_of(settings.store, folder, Which.SAMPLES)


def _extent(past: Past) -> str:
    return f"it goes from {_iso(past.first_at)} to {_iso(past.last_at)}"


def _iso(at: UnixSeconds) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _bad(option: str, message: str, *, mend: str | None = None) -> ConfigError:
    return ConfigError(Located(message, field=option, mend=mend))
