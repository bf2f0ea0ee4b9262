"""`ds4watch notify`."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from typing import Annotated, Any

import aiohttp
import typer

from ds4watch.cli.common import Admin, Config, Json, State, connect, new_app, print_json
from ds4watch.config.files import find_settings
from ds4watch.config.notify import NotifySettings
from ds4watch.engine.notify_setup import channels_of
from ds4watch.model.errors import ConfigError, Ds4watchError, Located, NotifyError
from ds4watch.notify.group_channel import GroupChannel
from ds4watch.notify.samples import sample_digest, sample_tellings
from ds4watch.notify.slack_report import report_text

app = new_app(no_args_is_help=True, help="Try the channels, show and send reports.")

_TIMEOUT = aiohttp.ClientTimeout(total=20.0)


@app.command("test")
def try_channels(
    channel: Annotated[
        str | None, typer.Option("--channel", help="Only this one: slack, slack_webhook, a name.")
    ] = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Send a sample of each kind of message to each channel; needs no daemon.

    Example: ds4watch notify test --channel slack
    """
    notify = find_settings(config, os.environ).settings.notify
    found = asyncio.run(_test(notify, os.environ, channel, as_json=as_json))
    if as_json:
        print_json(found)
    faults = [it for it in found if it["error"] is not None]
    if faults:
        message = f"{len(faults)} messages could not be sent"
        raise Ds4watchError(message)


@app.command()
def report(
    weekly: Annotated[bool, typer.Option("--weekly", help="Of seven days.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print it.")] = False,
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
) -> None:
    """Tell of the last whole day (UTC), or seven, beside those before, to all channels.

    Example: ds4watch notify report --weekly --dry-run
    """
    client = connect(config, admin, state).client
    found = client.report("weekly" if weekly else "daily", tell=not dry_run)
    if as_json:
        print_json(found)
        return
    typer.echo(report_text(found))
    if not dry_run:
        typer.echo("\nIt is on its way to all channels.")


async def _test(
    notify: NotifySettings, environment: Mapping[str, str], only: str | None, *, as_json: bool
) -> list[dict[str, str | None]]:
    """Send the samples, say how each went as it does, and return it."""
    async with aiohttp.ClientSession(timeout=_TIMEOUT) as session:
        channels = channels_of(notify, environment, session)
        chosen = [it for it in channels if only in (None, it.name)]
        if not chosen:
            names = ", ".join(it.name for it in channels) or "none is set up"
            message = f"there is no such channel; there are: {names}"
            raise ConfigError(Located(message, field="--channel" if only else "notify"))
        return [found for it in chosen for found in await _samples(it, as_json=as_json)]


async def _samples(channel: GroupChannel, *, as_json: bool) -> list[dict[str, str | None]]:
    now, found = time.time(), list[dict[str, str | None]]()
    kinds: list[tuple[str, Any]] = [*sample_tellings(now), ("digest", sample_digest(now))]
    for kind, sample in kinds:
        try:
            if kind == "digest":
                await channel.digest(sample)
            else:
                await channel.tell(sample, _forget)
            fault = None
        except NotifyError as error:
            fault = str(error)
        found.append({"channel": channel.name, "message": kind, "error": fault})
        if not as_json:
            typer.echo(f"{channel.name}: {kind}: {fault or 'sent'}")
        await asyncio.sleep(channel.gap_seconds)
    return found


async def _forget(handle: Mapping[str, Any]) -> None:
    del handle
