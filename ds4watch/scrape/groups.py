"""From `scrape.groups` to what is found and how it is fetched; secrets and certificates checked."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ds4watch.config.document import Document, read_document
from ds4watch.config.document import Path as Place
from ds4watch.config.files import LoadedSettings, read_text
from ds4watch.config.scrape import (
    Authorization,
    BasicAuth,
    FileSdConfig,
    HttpSdConfig,
    ScrapeGroup,
    TlsConfig,
)
from ds4watch.config.settings import ScrapeSettings
from ds4watch.model.errors import ConfigError, Located
from ds4watch.model.scrape import FLEET_GROUP
from ds4watch.model.series import labels_of
from ds4watch.scrape.listing import Listing
from ds4watch.scrape.options import Credentials, ScrapeOptions
from ds4watch.scrape.relabel import compile_rules
from ds4watch.scrape.targets import TargetRules

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class FilePlan:
    """Files that list targets; patterns start from `base`."""

    base: Path
    patterns: tuple[str, ...]
    refresh_seconds: float


@dataclass(frozen=True, slots=True)
class WebPlan:
    """A web server that lists targets."""

    url: str
    refresh_seconds: float
    credentials: Credentials | None = None
    tls: ssl.SSLContext | None = None


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """Where a group's targets come from, and what is made of them."""

    rules: TargetRules
    static: tuple[Listing, ...] = ()
    files: tuple[FilePlan, ...] = ()
    webs: tuple[WebPlan, ...] = ()


@dataclass(frozen=True, slots=True)
class ScrapePlan:
    """All groups. `options` has the fleet's group too."""

    options: Mapping[str, ScrapeOptions] = field(
        default_factory=lambda: {FLEET_GROUP: ScrapeOptions()}
    )
    groups: tuple[GroupPlan, ...] = ()


def scrape_plan(loaded: LoadedSettings) -> ScrapePlan:
    """Compile the scrape settings. Raises ConfigError for each file that cannot be used."""
    scrape = loaded.settings.scrape
    reading = Reading(loaded, document_of(loaded) if scrape.groups else Document(""))
    fleet = ScrapeOptions(
        interval_seconds=scrape.interval_seconds,
        timeout_seconds=scrape.timeout_seconds,
        max_body_bytes=scrape.max_body_bytes,
    )
    options = {FLEET_GROUP: fleet}
    groups: list[GroupPlan] = []
    for position, group in enumerate(scrape.groups):
        place: Place = ("scrape", "groups", position)
        options[group.name] = _options(group, scrape, reading, place)
        groups.append(_group(group, options[group.name], reading, place))
    if reading.findings:
        raise ConfigError(*reading.findings)
    return ScrapePlan(options, tuple(groups))


def document_of(loaded: LoadedSettings) -> Document:
    """Return the lines of the settings file, for the places of faults."""
    if loaded.file is None:
        return Document("ds4watch.yml")
    return read_document(read_text(loaded.file), str(loaded.file))


class Reading:
    """Gathers what is wrong with the files that the settings name."""

    def __init__(self, loaded: LoadedSettings, document: Document) -> None:
        self.base = loaded.base
        self.findings: list[Located] = []
        self._document = document

    def find(self, place: Place, message: str, mend: str | None = None) -> None:
        """Note a fault."""
        self.findings.append(self._document.finding(place, message, mend=mend))

    def path(self, name: str) -> Path:
        """Return where a named file is."""
        return self.base / Path(name).expanduser()

    def secret(self, name: str | None, place: Place) -> Path | None:
        """Return the path of a file that holds a secret, having looked into it."""
        if name is None:
            return None
        path = self.path(name)
        text = self.tried(lambda: path.read_text(encoding="utf-8"), place, path)
        if text is not None and not text.strip():
            self.find(place, f"{path} is empty", "write the secret into it, and nothing else")
        return path

    def tried(self, read: Callable[[], _T], place: Place, path: Path) -> _T | None:
        """Return what `read` gives; None, with a finding, if the file cannot be used."""
        try:
            return read()
        except FileNotFoundError:
            self.find(place, f"there is no file {path}", f"names start from {self.base.absolute()}")
        except ssl.SSLError:
            self.find(place, f"{path} does not hold what is wanted, or its key is another's")
        except UnicodeDecodeError:
            self.find(place, f"{path} is not UTF-8 text")
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            self.find(place, f"{path} cannot be read: {reason}", "make it readable for the daemon")
        return None


def _options(
    group: ScrapeGroup, scrape: ScrapeSettings, reading: Reading, place: Place
) -> ScrapeOptions:
    return ScrapeOptions(
        interval_seconds=group.interval_seconds or scrape.interval_seconds,
        timeout_seconds=group.timeout_seconds or scrape.timeout_seconds,
        max_body_bytes=group.max_body_bytes or scrape.max_body_bytes,
        series_limit=group.sample_limit,
        label_limit=group.label_limit,
        label_value_bytes=group.label_value_length_limit,
        credentials=credentials_of(group.basic_auth, group.authorization, reading, place),
        tls=tls_of(group.tls_config, reading, place),
    )


def _group(group: ScrapeGroup, options: ScrapeOptions, reading: Reading, place: Place) -> GroupPlan:
    rules = TargetRules(
        name=group.name,
        scheme=group.scheme.value,
        metrics_path=group.metrics_path,
        params=tuple(group.params.items()),
        interval_seconds=options.interval_seconds,
        timeout_seconds=options.timeout_seconds,
        rules=compile_rules(group.relabel_configs),
        target_limit=group.target_limit,
    )
    static = tuple(Listing(it.targets, labels_of(it.labels)) for it in group.static_configs)
    files = tuple(_file_plan(it, reading) for it in group.file_sd_configs)
    webs = (
        _web_plan(it, reading, (*place, "http_sd_configs", at))
        for at, it in enumerate(group.http_sd_configs)
    )
    return GroupPlan(rules, static, files, tuple(webs))


def _file_plan(config: FileSdConfig, reading: Reading) -> FilePlan:
    return FilePlan(reading.base, config.files, config.refresh_seconds)


def _web_plan(config: HttpSdConfig, reading: Reading, place: Place) -> WebPlan:
    return WebPlan(
        url=config.url,
        refresh_seconds=config.refresh_seconds,
        credentials=credentials_of(config.basic_auth, config.authorization, reading, place),
        tls=tls_of(config.tls_config, reading, place),
    )


def credentials_of(
    basic: BasicAuth | None, token: Authorization | None, reading: Reading, place: Place
) -> Credentials | None:
    """Return what a section logs in with; secret files are looked into."""
    if basic is not None:
        return Credentials(
            username=basic.username,
            password=basic.password or "",
            password_file=reading.secret(
                basic.password_file, (*place, "basic_auth", "password_file")
            ),
        )
    if token is not None:
        return Credentials(
            scheme=token.type,
            token=token.credentials or "",
            token_file=reading.secret(
                token.credentials_file, (*place, "authorization", "credentials_file")
            ),
        )
    return None


class _NamedContext(ssl.SSLContext):
    """A TLS context that expects a certificate for `server_name`, whatever the address says."""

    server_name: str | None = None

    def wrap_bio(self, incoming: Any, outgoing: Any, *rest: Any, **named: Any) -> ssl.SSLObject:
        """Begin a connection; asyncio and uvloop both come through here."""
        if self.server_name is not None:
            named["server_hostname"] = self.server_name
        return super().wrap_bio(incoming, outgoing, *rest, **named)


def tls_of(config: TlsConfig | None, reading: Reading, place: Place) -> ssl.SSLContext | None:
    """Return a section's TLS settings; every file is read."""
    if config is None:
        return None
    place = (*place, "tls_config")
    context = _NamedContext(ssl.PROTOCOL_TLS_CLIENT)
    context.server_name = config.server_name
    if config.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    for part, path, load in _certificates(config, context, reading):
        reading.tried(load, (*place, part), path)
    return context


def _certificates(
    config: TlsConfig, context: ssl.SSLContext, reading: Reading
) -> Iterator[tuple[str, Path, Callable[[], None]]]:
    if config.ca_file is not None:
        authorities = reading.path(config.ca_file)
        yield "ca_file", authorities, lambda: context.load_verify_locations(authorities)
    else:
        context.load_default_certs()
    if config.cert_file is not None and config.key_file is not None:
        own, key = reading.path(config.cert_file), reading.path(config.key_file)
        yield "key_file", key, lambda: _open_and_close(key)
        yield "cert_file", own, lambda: context.load_cert_chain(own, key)


def _open_and_close(path: Path) -> None:
    """Find out whether a file can be read; ssl does not say which of two could not."""
    path.open("rb").close()
