"""Faults of `scrape.groups` that no single key shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias
from urllib.parse import urlsplit

from ds4watch.config.document import Document, Path
from ds4watch.config.scrape import (
    DEFAULT_REGEX,
    DEFAULT_REPLACEMENT,
    DEFAULT_SEPARATOR,
    LABEL_NAME_PATTERN,
    Authorization,
    BasicAuth,
    HttpSdConfig,
    RelabelAction,
    RelabelConfig,
    ScrapeGroup,
    TlsConfig,
)
from ds4watch.config.settings import Settings
from ds4watch.config.source import SourceSettings
from ds4watch.model.errors import Located
from ds4watch.model.scrape import FLEET_GROUP

MIN_REFRESH_SECONDS = 0.05
_LABEL_NAME = re.compile(LABEL_NAME_PATTERN)
_LABEL_TEMPLATE = re.compile(r"(?:(?:[a-zA-Z_]|\$(?:\{\w+\}|\w+))+\w*)+", re.ASCII)
"""A label name in which `$1` or `${1}` may stand, as Prometheus has it."""
_NAME_IS = "must be letters, digits and _, and not begin with a digit"

Fault: TypeAlias = tuple[Path, str, str | None]
"""Where below the section, what, and how to mend it."""


def check_groups(settings: Settings, document: Document) -> Iterator[Located]:
    """Yield what does not go together in the scrape groups."""
    for position, group in enumerate(settings.scrape.groups):
        base: Path = ("scrape", "groups", position)
        for path, message, mend in _faults(group, settings):
            yield document.finding((*base, *path), message, mend=mend)


def _faults(group: ScrapeGroup, settings: Settings) -> Iterator[Fault]:
    if group.name == FLEET_GROUP:
        yield ("name",), f"{FLEET_GROUP} is the group of the daemon's own workers", "rename it"
    if not (group.static_configs or group.file_sd_configs or group.http_sd_configs):
        yield (), "has no targets", "add static_configs, file_sd_configs or http_sd_configs"
    yield from _time_faults(group, settings)
    for position, step in enumerate(group.relabel_configs):
        for field, message in relabel_faults(step):
            yield ("relabel_configs", position, field), message, None
    yield from login_faults(group)
    for position, source in enumerate(group.http_sd_configs):
        for path, message, mend in (*login_faults(source), *_url_faults(source)):
            yield ("http_sd_configs", position, *path), message, mend


def _time_faults(group: ScrapeGroup, settings: Settings) -> Iterator[Fault]:
    least, window = settings.scrape.interval_seconds, settings.store.live_window_seconds
    interval = group.interval_seconds
    if interval is not None and interval < least:
        message = f"must be at least scrape.interval_seconds ({least:g}), got {interval:g}"
        yield ("interval_seconds",), message, None
    if interval is not None and 2 * interval > window:
        message = f"must be at most half of store.live_window_seconds ({window:g})"
        yield ("interval_seconds",), f"{message}, got {interval:g}", None
    if group.timeout_seconds is not None and group.timeout_seconds > 120:
        message = f"must be at most 120, got {group.timeout_seconds:g}"
        yield ("timeout_seconds",), message, None
    refreshes = [
        *(
            ("file_sd_configs", at, it.refresh_seconds)
            for at, it in enumerate(group.file_sd_configs)
        ),
        *(
            ("http_sd_configs", at, it.refresh_seconds)
            for at, it in enumerate(group.http_sd_configs)
        ),
    ]
    for name, position, seconds in refreshes:
        if seconds < MIN_REFRESH_SECONDS:
            message = f"must be at least {MIN_REFRESH_SECONDS}, got {seconds:g}"
            yield (name, position, "refresh_seconds"), message, None


def _url_faults(source: HttpSdConfig) -> Iterator[Fault]:
    try:
        parts = urlsplit(source.url)
        has_login, has_host = bool(parts.username or parts.password), bool(parts.hostname)
    except ValueError:
        has_login, has_host = False, False
    if not has_host:
        yield ("url",), "must name a host", None
    if has_login:
        yield ("url",), "must not hold user and password", "put them under basic_auth"


def login_faults(section: ScrapeGroup | HttpSdConfig | SourceSettings) -> Iterator[Fault]:
    """Yield what does not go together in how to log in."""
    if section.basic_auth and section.authorization:
        yield ("authorization",), "stands beside basic_auth", "take one of them out"
    if section.basic_auth:
        yield from _basic_faults(section.basic_auth)
    if section.authorization:
        yield from _token_faults(section.authorization)
    if section.tls_config:
        yield from _tls_faults(section.tls_config)


def _basic_faults(auth: BasicAuth) -> Iterator[Fault]:
    if auth.password is not None and auth.password_file is not None:
        yield ("basic_auth", "password"), "stands beside password_file", "take one of them out"
    if not auth.username:
        yield ("basic_auth", "username"), "is missing", None


def _token_faults(auth: Authorization) -> Iterator[Fault]:
    if auth.credentials is not None and auth.credentials_file is not None:
        path = ("authorization", "credentials")
        yield path, "stands beside credentials_file", "take one of them out"
    if auth.credentials is None and auth.credentials_file is None:
        yield ("authorization",), "has no token", "add credentials_file"
    if auth.type.lower() == "basic":
        yield ("authorization", "type"), "must not be Basic", "use basic_auth instead"


def _tls_faults(tls: TlsConfig) -> Iterator[Fault]:
    if (tls.cert_file is None) != (tls.key_file is None):
        given, missing = ("cert_file", "key_file") if tls.cert_file else ("key_file", "cert_file")
        yield ("tls_config", given), f"needs {missing} too", None


def relabel_faults(step: RelabelConfig) -> Iterator[tuple[str, str]]:
    """Yield (field, message) for what Prometheus refuses in a step of relabelling."""
    check = _CHECKS.get(step.action)
    if check is not None:
        yield from check(step)


def _check_replace(step: RelabelConfig) -> Iterator[tuple[str, str]]:
    yield from _needs_target(step)
    valid = _LABEL_TEMPLATE if "$" in step.target_label else _LABEL_NAME
    if step.target_label and not valid.fullmatch(step.target_label):
        yield "target_label", f"{_NAME_IS}, got {step.target_label!r}"


def _check_plain_target(step: RelabelConfig) -> Iterator[tuple[str, str]]:
    yield from _needs_target(step)
    if step.target_label and not _LABEL_NAME.fullmatch(step.target_label):
        yield "target_label", f"{_NAME_IS}, got {step.target_label!r}"


def _check_case(step: RelabelConfig) -> Iterator[tuple[str, str]]:
    yield from _check_plain_target(step)
    if step.replacement != DEFAULT_REPLACEMENT:
        yield "replacement", f"is not used by {step.action.value}"


def _check_hash(step: RelabelConfig) -> Iterator[tuple[str, str]]:
    yield from _check_plain_target(step)
    if not step.modulus:
        yield "modulus", "hashmod needs one, at least 1"


def _check_map(step: RelabelConfig) -> Iterator[tuple[str, str]]:
    if not _LABEL_TEMPLATE.fullmatch(step.replacement):
        yield "replacement", f"must give the name of a label, got {step.replacement!r}"


def _check_equal(step: RelabelConfig) -> Iterator[tuple[str, str]]:
    yield from _check_plain_target(step)
    yield from _unused(step, "regex", "modulus", "separator", "replacement")


def _check_names(step: RelabelConfig) -> Iterator[tuple[str, str]]:
    yield from _unused(step, "source_labels", "target_label", "modulus", "separator", "replacement")


def _needs_target(step: RelabelConfig) -> Iterator[tuple[str, str]]:
    if not step.target_label:
        yield "target_label", f"{step.action.value} needs one"


def _unused(step: RelabelConfig, *fields: str) -> Iterator[tuple[str, str]]:
    for field in fields:
        if getattr(step, field) != _DEFAULTS[field]:
            yield field, f"is not used by {step.action.value}"


_DEFAULTS: Mapping[str, object] = {
    "source_labels": (),
    "target_label": "",
    "regex": DEFAULT_REGEX,
    "modulus": 0,
    "separator": DEFAULT_SEPARATOR,
    "replacement": DEFAULT_REPLACEMENT,
}
_CHECKS: Mapping[RelabelAction, Callable[[RelabelConfig], Iterator[tuple[str, str]]]] = {
    RelabelAction.REPLACE: _check_replace,
    RelabelAction.HASH_MOD: _check_hash,
    RelabelAction.LABEL_MAP: _check_map,
    RelabelAction.LABEL_DROP: _check_names,
    RelabelAction.LABEL_KEEP: _check_names,
    RelabelAction.LOWERCASE: _check_case,
    RelabelAction.UPPERCASE: _check_case,
    RelabelAction.KEEP_EQUAL: _check_equal,
    RelabelAction.DROP_EQUAL: _check_equal,
}
