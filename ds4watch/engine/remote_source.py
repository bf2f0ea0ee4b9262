"""The server that evaluates rules, from the settings to rounds of questions."""

from __future__ import annotations

import asyncio
import importlib
from contextlib import AsyncExitStack
from typing import Protocol, cast

from ds4watch.alerting.remote import Elsewhere, read_matchers
from ds4watch.config.files import LoadedSettings
from ds4watch.config.settings import Settings
from ds4watch.config.source import RecordedSeries, SourceKind
from ds4watch.engine.remote_rounds import Questions, Rounds, RoundSettings, Source
from ds4watch.model.errors import ConfigError, Located, QueryError
from ds4watch.model.ports import Clock
from ds4watch.scrape.remote_plan import RemoteOptions


class RemoteServer(Source, Protocol):
    """A server that evaluates expressions, and can be let go."""

    async def version(self, until: float) -> str:
        """Return what it says of its build."""
        ...

    async def close(self) -> None:
        """Let it go."""
        ...


class _RemoteModule(Protocol):
    """What is used of `ds4watch.scrape.remote`."""

    def RemotePrometheus(self, options: RemoteOptions, clock: Clock) -> RemoteServer:  # noqa: N802 - a class
        """Return the server."""
        ...


def open_server(options: RemoteOptions, clock: Clock) -> RemoteServer:
    """Return the server; what speaks to it is loaded only now, for few daemons need it."""
    module: _RemoteModule = cast("_RemoteModule", importlib.import_module("ds4watch.scrape.remote"))
    return module.RemotePrometheus(options, clock)


def open_rounds(
    options: RemoteOptions | None,
    settings: Settings,
    questions: Questions,
    stack: AsyncExitStack,
    *,
    wake: asyncio.Event,
    clock: Clock,
) -> Rounds | None:
    """Return rounds of questions, or None if rules are evaluated here; `stack` ends them."""
    if options is None:
        return None
    server = open_server(options, clock)
    stack.push_async_callback(server.close)
    source = settings.source
    asked = RoundSettings(
        source.interval_seconds, source.max_age_seconds, read_matchers(source.only or "")
    )
    rounds = Rounds(server, questions, asked, wake=wake, clock=clock)
    stack.push_async_callback(rounds.close)
    return rounds


def elsewhere_of(loaded: LoadedSettings) -> Elsewhere | None:
    """Return how rules are put to a server; None if they are evaluated here. Raises ConfigError."""
    source = loaded.settings.source
    if source.kind is SourceKind.EMBEDDED:
        return None
    try:
        only = read_matchers(source.only or "")
    except QueryError as error:
        file = str(loaded.file) if loaded.file else None
        mend = 'write it as {job=~"ds4watch|vllm"}'
        raise ConfigError(Located(str(error), file, field="source.only", mend=mend)) from error
    is_inline = source.recorded is not RecordedSeries.SERVER
    return Elsewhere(only, is_inline, source.interval_seconds)
