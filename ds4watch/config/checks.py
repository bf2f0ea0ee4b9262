"""Faults that no single key shows: values that do not go together."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator

from ds4watch.config.cost import Price
from ds4watch.config.document import Document, Path
from ds4watch.config.notify import notify_faults
from ds4watch.config.profile import Profile
from ds4watch.config.provisioning_checks import calendar_faults
from ds4watch.config.scrape_checks import check_groups, login_faults
from ds4watch.config.settings import Settings
from ds4watch.config.source import source_faults
from ds4watch.config.store_url import fault_of
from ds4watch.model.errors import Located

MIN_INTERVAL_SECONDS = 0.05
MAX_INTERVAL_SECONDS = 30.0
"""Shares and stale gauges are told over the last 60 s, which have to hold two scrapes."""
MAX_SCRAPE_TIMEOUT_SECONDS = 120.0
MAX_LIVE_WINDOW_SECONDS = 900.0


def check_settings(settings: Settings, document: Document) -> list[Located]:
    """Return what does not go together in the settings."""
    return [
        *_check_scrape(settings, document),
        *check_groups(settings, document),
        *_check_source(settings, document),
        *_check_notify(settings, document),
        *_check_store(settings, document),
        *_check_spans(settings, document),
        *_check_ports(settings, document),
        *_check_tls(settings, document),
        *_check_fleet(settings, document),
        *_check_prices(settings, document),
        *calendar_faults(settings.provisioning, document),
    ]


def check_profile(profile: Profile, document: Document, stem: str) -> list[Located]:
    """Return what does not go together in a profile from the file `stem`.yml."""
    found = list(_repeated(document, ("served_names",), profile.served_names))
    if profile.name != stem:
        mend = f"call it {stem}, or the file {profile.name}.yml"
        message = f"must be the file's name without .yml, got {profile.name}"
        found.append(document.finding(("name",), message, mend=mend))
    if profile.prepare is None and (profile.model or "").startswith((".", "~")):
        message = f"must be a full path or a hub name, got {profile.model}"
        found.append(document.finding(("model",), message))
    if profile.reference == profile.name:
        found.append(document.finding(("reference",), "must be another profile"))
    return found


def _check_tls(settings: Settings, document: Document) -> Iterator[Located]:
    admin = settings.admin
    if (admin.tls_certificate is None) != (admin.tls_key is None):
        given = "tls_key" if admin.tls_certificate is None else "tls_certificate"
        message = "tls_certificate and tls_key go together, and one of them is missing"
        yield document.finding(("admin", given), message)


def _check_scrape(settings: Settings, document: Document) -> Iterator[Located]:
    scrape, store = settings.scrape, settings.store
    if scrape.interval_seconds < MIN_INTERVAL_SECONDS:
        message = f"must be at least {MIN_INTERVAL_SECONDS}, got {scrape.interval_seconds:g}"
        yield document.finding(("scrape", "interval_seconds"), message)
    if scrape.interval_seconds > MAX_INTERVAL_SECONDS:
        message = f"must be at most {MAX_INTERVAL_SECONDS:g}, got {scrape.interval_seconds:g}"
        mend = "shares are of the last 60 s, which have to hold two scrapes"
        yield document.finding(("scrape", "interval_seconds"), message, mend=mend)
    if scrape.timeout_seconds > MAX_SCRAPE_TIMEOUT_SECONDS:
        message = f"must be at most {MAX_SCRAPE_TIMEOUT_SECONDS:g}, got {scrape.timeout_seconds:g}"
        yield document.finding(("scrape", "timeout_seconds"), message)
    window = store.live_window_seconds
    path = ("store", "live_window_seconds")
    if window > MAX_LIVE_WINDOW_SECONDS:
        message = f"must be at most {MAX_LIVE_WINDOW_SECONDS:g}, got {window:g}"
        yield document.finding(path, message)
    if window < 2 * scrape.interval_seconds:
        message = f"must be at least two scrape intervals, got {window:g}"
        yield document.finding(path, message, mend="or shorten scrape.interval_seconds")
    names = [group.name for group in scrape.groups]
    yield from _repeated(document, ("scrape", "groups"), names, key="name")


def _check_source(settings: Settings, document: Document) -> Iterator[Located]:
    for path, message, mend in (*source_faults(settings.source), *login_faults(settings.source)):
        yield document.finding(("source", *path), message, mend=mend)


def _check_notify(settings: Settings, document: Document) -> Iterator[Located]:
    for path, message, mend in notify_faults(settings.notify):
        yield document.finding(("notify", *path), message, mend=mend)


def _check_store(settings: Settings, document: Document) -> Iterator[Located]:
    url = settings.store.url
    fault = fault_of(url.get_secret_value()) if url is not None else None
    if fault is not None:
        mend = "write it as postgresql://user@host:5432/db"
        yield document.finding(("store", "url"), fault, mend=mend)


def _check_spans(settings: Settings, document: Document) -> Iterator[Located]:
    pairs: tuple[tuple[Path, Path, float, float], ...] = (
        (
            ("gateway", "request_timeout_seconds"),
            ("gateway", "connect_timeout_seconds"),
            settings.gateway.request_timeout_seconds,
            settings.gateway.connect_timeout_seconds,
        ),
        (
            ("fleet", "restart_backoff_max_seconds"),
            ("fleet", "restart_backoff_seconds"),
            settings.fleet.restart_backoff_max_seconds,
            settings.fleet.restart_backoff_seconds,
        ),
        (
            ("quality", "max_age_seconds"),
            ("quality", "interval_seconds"),
            settings.quality.max_age_seconds,
            settings.quality.interval_seconds,
        ),
    )
    for longer, shorter, most, least in pairs:
        if most < least:
            named = longer if longer in document.lines else shorter
            sense = "at least" if named == longer else "at most"
            other, bound = (shorter, least) if named == longer else (longer, most)
            message = f"must be {sense} {'.'.join(map(str, other))} ({bound:g})"
            yield document.finding(named, message)


def _check_ports(settings: Settings, document: Document) -> Iterator[Located]:
    ports: tuple[tuple[Path, int], ...] = (
        (("admin", "port"), settings.admin.port),
        (("gateway", "port"), settings.gateway.port),
        (("fleet", "first_port"), settings.fleet.first_port),
    )
    # Blame what the file says, not a default.
    ordered = sorted(ports, key=lambda item: item[0] in document.lines)
    seen: dict[int, Path] = {}
    for path, port in ordered:
        if port in seen:
            other = ".".join(map(str, seen[port]))
            yield document.finding(path, f"{port} is {other} too", mend="choose another port")
        seen[port] = path


def _check_fleet(settings: Settings, document: Document) -> Iterator[Located]:
    fleet = settings.fleet
    profiles = [worker.profile for worker in fleet.workers or ()]
    mend = "raise its count instead"
    yield from _repeated(document, ("fleet", "workers"), profiles, key="profile", mend=mend)
    names = [worker.name for worker in fleet.external]
    yield from _repeated(document, ("fleet", "external"), names, key="name")


def _check_prices(settings: Settings, document: Document) -> Iterator[Located]:
    lists = {
        "prices": [it.valid_from for it in settings.cost.prices],
        "storage_prices": [it.valid_from for it in settings.cost.storage_prices],
    }
    for name, instants in lists.items():
        for position, valid_from in enumerate(instants):
            if valid_from.tzinfo is None:
                path: Path = ("cost", name, position, "valid_from")
                yield document.finding(path, "must name its time zone", mend="add Z for UTC")
    budgets = [(it.period, it.key, it.model) for it in settings.cost.budgets]
    yield from _repeated(document, ("cost", "budgets"), map(_told, budgets), mend="leave one")
    keys = [f"{_priced(it)} from {it.valid_from.isoformat()}" for it in settings.cost.prices]
    mend = "leave one of the two prices"
    yield from _repeated(document, ("cost", "prices"), keys, mend=mend)
    kept = [f"{it.what} from {it.valid_from.isoformat()}" for it in settings.cost.storage_prices]
    yield from _repeated(document, ("cost", "storage_prices"), kept, mend=mend)


def _priced(price: Price) -> str:
    host = f" at {price.host}" if price.host != "*" else ""
    gpu = f" on {price.gpu}" if price.gpu is not None else ""
    return f"{price.profile}{host}{gpu}"


def _told(budget: tuple[str, str | None, str | None]) -> str:
    period, key, model = budget
    whose = f"key {key}" if key is not None else f"model {model}" if model is not None else "all"
    return f"the budget of {whose} by {period}"


def _repeated(
    document: Document,
    base: Path,
    values: Iterable[Hashable],
    *,
    key: str | None = None,
    mend: str | None = None,
) -> Iterator[Located]:
    seen: dict[Hashable, int] = {}
    for position, value in enumerate(values):
        path = (*base, position, key) if key else (*base, position)
        if value in seen:
            first = document.line_of((*base, seen[value]))
            yield document.finding(
                path, f"{value} is given twice, first in line {first}", mend=mend
            )
        seen.setdefault(value, position)
