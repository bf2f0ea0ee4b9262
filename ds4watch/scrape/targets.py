"""From addresses and labels to targets, as Prometheus does it (scrape/target.go). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias
from urllib.parse import quote, urlencode

from ds4watch.alerting.durations import format_duration
from ds4watch.config.scrape import Scheme, address_fault
from ds4watch.model.scrape import Target
from ds4watch.model.series import Labels, labels_of
from ds4watch.scrape.listing import Listing
from ds4watch.scrape.relabel import Rule, relabel

MAX_NAME_BYTES = 255
EXTERNAL_PROFILE = "external"
_ADDRESS = "__address__"
_SCHEME = "__scheme__"
_PATH = "__metrics_path__"
_INTERVAL = "__scrape_interval__"
_TIMEOUT = "__scrape_timeout__"
_PARAM = "__param_"
_SAFE_IN_PATH = "/$&+,:;=@"
"""What Go's net/url leaves as it is in a path."""


class Refused(StrEnum):
    """Why a target that was found is not scraped."""

    INVALID = "invalid"
    DUPLICATE = "duplicate"
    LIMIT = "limit"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A target that is not scraped, and why."""

    group: str
    kind: Refused
    message: str


@dataclass(frozen=True, slots=True)
class TargetRules:
    """What a group makes of the addresses that are found for it."""

    name: str
    scheme: str = "http"
    metrics_path: str = "/metrics"
    params: tuple[tuple[str, tuple[str, ...]], ...] = ()
    interval_seconds: float = 1.0
    timeout_seconds: float = 5.0
    rules: tuple[Rule, ...] = ()
    target_limit: int = 5000


_Outcomes: TypeAlias = Mapping[tuple[str, Labels], Target | Refusal | None]


@dataclass(frozen=True, slots=True)
class Resolved:
    """What became of a group's addresses; `outcomes` of each, by address and listed labels."""

    targets: tuple[Target, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    outcomes: _Outcomes = field(default_factory=dict, repr=False)


def resolve(
    rules: TargetRules, listings: Sequence[Listing], last: Resolved | None = None
) -> Resolved:
    """Return a group's targets, in the order in which they are listed.

    last: what the same rules made of the list before; what is listed as then is not made anew.
    """
    targets: list[Target] = []
    refusals: list[Refusal] = []
    outcomes = _outcomes(rules, listings, last.outcomes if last else {})
    over = 0
    for entry in ((it, listing.labels) for listing in listings for it in listing.addresses):
        made = outcomes[entry]
        if isinstance(made, Refusal):
            refusals.append(made)
        elif made is not None and len(targets) < rules.target_limit:
            targets.append(made)
        elif made is not None:
            over += 1
    if over:
        message = f"{over} targets are over target_limit ({rules.target_limit})"
        refusals += [Refusal(rules.name, Refused.LIMIT, message)] * over
    return Resolved(tuple(targets), tuple(refusals), outcomes)


def without_duplicates(groups: Sequence[Resolved]) -> Resolved:
    """Return the targets of all groups; of those that bear one name only the first."""
    found: dict[str, Target] = {}
    refusals: list[Refusal] = []
    for target in (target for group in groups for target in group.targets):
        first = found.get(target.name)
        if first is None:
            found[target.name] = target
        else:
            message = f"{target.url}: {target.name} is the name of {first.url} ({first.group}) too"
            refusals.append(Refusal(target.group, Refused.DUPLICATE, message))
    return Resolved(tuple(found.values()), tuple(refusals))


def target_of(
    rules: TargetRules, address: str, labels: Mapping[str, str]
) -> Target | Refusal | None:
    """Return the target, why it is refused, or None if relabelling dropped it."""
    before = _discovered(rules, address, labels)
    after = relabel(before, rules.rules)
    if after is None:
        return None
    fault = _fault(before, after)
    if fault:
        return Refusal(rules.name, Refused.INVALID, f"{address}: {fault}")
    shown = {name: value for name, value in after.items() if not name.startswith("__")}
    instance = shown.setdefault("instance", after[_ADDRESS])
    shown.setdefault("worker", instance)
    shown.setdefault("profile", EXTERNAL_PROFILE)
    name = f"{shown.get('job', rules.name)}/{instance}"
    if len(name.encode()) > MAX_NAME_BYTES:
        message = f"{address}: job/instance is longer than {MAX_NAME_BYTES} bytes"
        return Refusal(rules.name, Refused.INVALID, message)
    return Target(name, _url(rules, after), labels_of(shown), rules.name)


def _outcomes(rules: TargetRules, listings: Sequence[Listing], known: _Outcomes) -> _Outcomes:
    outcomes: dict[tuple[str, Labels], Target | Refusal | None] = {}
    for listing in listings:
        labels = dict(listing.labels)
        for address in listing.addresses:
            entry = address, listing.labels
            is_known = entry in known
            outcomes[entry] = known[entry] if is_known else target_of(rules, address, labels)
    return outcomes


def _discovered(rules: TargetRules, address: str, labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that relabelling begins with; what is listed beats what the group says."""
    return {
        "job": rules.name,
        _SCHEME: rules.scheme,
        _PATH: rules.metrics_path,
        _INTERVAL: format_duration(rules.interval_seconds),
        _TIMEOUT: format_duration(rules.timeout_seconds),
        **{f"{_PARAM}{name}": values[0] for name, values in rules.params if values},
        **{name: value for name, value in labels.items() if value},
        _ADDRESS: address,
    }


def _fault(before: Mapping[str, str], after: Mapping[str, str]) -> str | None:
    if not after.get(_ADDRESS):
        return "relabelling left no address"
    fault = address_fault(after[_ADDRESS])
    if fault:
        return f"__address__ {fault}, got {after[_ADDRESS]!r}"
    if after.get(_SCHEME) not in (Scheme.HTTP, Scheme.HTTPS):
        return f"__scheme__ must be http or https, got {after.get(_SCHEME, '')!r}"
    for name in (_INTERVAL, _TIMEOUT):
        if after.get(name, before[name]) != before[name]:
            return f"{name} cannot be set for one target (make another group)"
    return None


def _url(rules: TargetRules, labels: Mapping[str, str]) -> str:
    params = {name: list(values) for name, values in rules.params}
    for label, value in labels.items():
        if label.startswith(_PARAM):
            params.setdefault(label.removeprefix(_PARAM), [""])[:1] = [value]
    query = urlencode(sorted(params.items()), doseq=True)
    path = quote(labels.get(_PATH, ""), safe=_SAFE_IN_PATH)
    if path and not path.startswith("/"):
        path = f"/{path}"
    url = f"{labels[_SCHEME]}://{labels[_ADDRESS]}{path}"
    return f"{url}?{query}" if query else url
