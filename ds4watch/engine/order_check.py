"""Whether the parts of a configuration agree: scrapes, windows of rules, bounds that call and shed.

Two orders have to hold across files. A rule's window holds several scrapes, or it never sees a
rate. And load calls a sleeper or a spare before it degrades the service: who sheds first never
reaches what would have called help. `ds4watch check` tells both, and a start logs them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ds4watch.alerting.lint.conditions import Comparison, comparison_of, conditions, names_in
from ds4watch.alerting.rulefile import RuleFile
from ds4watch.config.document import Path
from ds4watch.config.lints.findings import Lint, Severity
from ds4watch.config.profile import Profile
from ds4watch.config.settings import FleetSettings, Settings, WorkerSettings
from ds4watch.config.source import SourceKind
from ds4watch.fleet.tended import most_inflight
from ds4watch.model.alert import AlertRule, RecordingRule
from ds4watch.model.errors import Located
from ds4watch.policy.policyfile import PolicyFile, may_match
from ds4watch.promql.ast import RangeSelector, walk
from ds4watch.promql.parse import parse

_FEWEST_SCRAPES = 2
_GOOD_SCRAPES = 4
_QUEUE, _KV_USAGE = "ds4_queue_depth", "ds4_kv_usage_ratio"
_WHO_CALLS = "fleet.wake_waiting"


def check_order(
    settings: Settings,
    profiles: Mapping[str, Profile],
    workers: Sequence[WorkerSettings],
    files: Iterable[RuleFile],
    policy: PolicyFile,
    *,
    file: str | None = None,
) -> tuple[Lint, ...]:
    """Return what does not go together; file: that of the settings."""
    found = [Lint(Severity.WARNING, it) for it in _room(settings, profiles, workers, file)]
    found += [Lint(Severity.WARNING, it) for it in _caps_below(settings, profiles, workers, file)]
    for rules in files:
        for path, rule in _rules(rules):
            if settings.source.kind is SourceKind.EMBEDDED:
                found += _windows(rules, path, rule, settings.scrape.interval_seconds)
            if isinstance(rule, AlertRule) and _degrades(policy, rule):
                found += _sheds_first(rules, path, rule, settings.fleet, workers, profiles)
    return tuple(found)


def _rules(file: RuleFile) -> Iterator[tuple[Path, AlertRule | RecordingRule]]:
    for number, group in enumerate(file.groups):
        for position, rule in enumerate(group.rules):
            yield ("groups", number, "rules", position, "expr"), rule


def _windows(
    file: RuleFile, path: Path, rule: AlertRule | RecordingRule, interval: float
) -> Iterator[Lint]:
    ranges = [
        it.range_seconds for it in walk(parse(rule.expression)) if isinstance(it, RangeSelector)
    ]
    shortest = min(ranges, default=None)
    if shortest is None or shortest >= _GOOD_SCRAPES * interval:
        return
    is_blind = shortest < _FEWEST_SCRAPES * interval
    what = "hardly ever holds two" if is_blind else "holds too few where one is late"
    message = (
        f"{rule.name}: its window of {shortest:g} s, with a scrape every {interval:g} s "
        f"(scrape.interval_seconds), {what}"
    )
    mend = f"look back over {_GOOD_SCRAPES * interval:g} s, or scrape more often"
    severity = Severity.ERROR if is_blind else Severity.WARNING
    yield Lint(severity, file.document.finding(path, message, mend=mend))


def _degrades(policy: PolicyFile, rule: AlertRule) -> bool:
    labels = {"alertname": rule.name, **dict(rule.labels)}
    return any(it.level is not None and may_match(it, labels) for it in policy.bindings)


def _sheds_first(
    file: RuleFile,
    path: Path,
    rule: AlertRule,
    fleet: FleetSettings,
    workers: Sequence[WorkerSettings],
    profiles: Mapping[str, Profile],
) -> Iterator[Lint]:
    """Yield where a rule that degrades fires before load calls those who rest."""
    resting = _may_rest(fleet, workers, profiles)
    if not resting:
        return
    most_ready = max(1, sum(worker.count for worker in workers) - 1)
    bounds = {
        _QUEUE: (fleet.wake_waiting * most_ready, f"{_WHO_CALLS} x {most_ready} ready workers"),
        _KV_USAGE: (fleet.wake_kv_usage_ratio, "fleet.wake_kv_usage_ratio"),
    }
    for it in _lower_bounds(rule):
        for name, (bound, called) in bounds.items():
            if name in names_in(it.expr) and it.threshold <= bound:
                message = (
                    f"{rule.name} degrades the service from {it.threshold:g} on, and only over "
                    f"{bound:g} ({called}) is one of {', '.join(resting)} called"
                )
                mend = f"raise the rule's bound over {bound:g}, or lower {called.split()[0]}"
                yield Lint(Severity.WARNING, file.document.finding(path, message, mend=mend))


def _lower_bounds(rule: AlertRule) -> list[Comparison]:
    found = [comparison_of(it) for it in conditions(parse(rule.expression))]
    return [it for it in found if it is not None and it.wants_at_least]


def _room(
    settings: Settings,
    profiles: Mapping[str, Profile],
    workers: Sequence[WorkerSettings],
    file: str | None,
) -> Iterator[Located]:
    """Yield workers at which so many never wait as would call another."""
    fleet = settings.fleet
    resting = _may_rest(fleet, workers, profiles)
    for name in resting:
        profile = profiles[name]
        most, batch = most_inflight(profile), profile.max_num_seqs
        if most is None or batch is None or most - batch > fleet.wake_waiting:
            continue
        message = (
            f"is {fleet.wake_waiting:g}, but at a worker of {name} never more than "
            f"{max(0, most - batch)} wait: the gateway has {most} open there at most, and {batch} "
            "of them run"
        )
        mend = f"lower it, or raise max_inflight of {name}"
        yield Located(message, file, field=_WHO_CALLS, mend=mend)


def _caps_below(
    settings: Settings,
    profiles: Mapping[str, Profile],
    workers: Sequence[WorkerSettings],
    file: str | None,
) -> Iterator[Located]:
    """Yield profiles of which more open requests would call another than there ever are."""
    own = settings.provisioning
    if not own.enabled:
        return
    for name in _may_rest(settings.fleet, workers, profiles):
        profile = profiles[name]
        slots = own.slots or profile.max_num_seqs
        most = most_inflight(profile)
        if slots is None or most is None or most > own.target_ratio * slots:
            continue
        message = (
            f"calls another worker of {name} over {own.target_ratio * slots:g} open requests for "
            f"each ({own.target_ratio:g} of {slots} slots), and the gateway has {most} open there "
            "at most"
        )
        mend = f"lower it, or raise max_inflight of {name}"
        yield Located(message, file, field="provisioning.target_ratio", mend=mend)


def _may_rest(
    fleet: FleetSettings, workers: Sequence[WorkerSettings], profiles: Mapping[str, Profile]
) -> list[str]:
    """Return the profiles of which workers sleep, or are started only when they are needed."""
    return [
        it.profile
        for it in workers
        if (profile := profiles.get(it.profile)) is not None
        and (it.spare or (profile.sleep and fleet.sleep_after_seconds is not None))
    ]
