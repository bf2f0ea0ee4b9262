"""`python -m ds4watch.gateway`: one gateway process."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import uvloop
from pydantic import ValidationError

from ds4watch.config.settings import GatewaySettings
from ds4watch.gateway.clock import SystemClock
from ds4watch.gateway.files import raise_file_limit
from ds4watch.gateway.server import GatewayOptions, serving
from ds4watch.model.errors import ConfigError, StoreError
from ds4watch.telemetry.service_manager import service_manager

_LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM; returns the exit code: 0 drained, 2 could not start."""
    # A terminal's Ctrl-C reaches the whole process group; the daemon drains us instead.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.basicConfig(level=logging.INFO, format=_LOG_FORMAT, stream=sys.stderr)
    try:
        options = _options(argv)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return _refuse(f"--settings: {where}: {first['msg']}")
    raise_file_limit()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(options))


async def _serve(options: GatewayOptions) -> int:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    manager = service_manager(os.environ)
    try:
        async with serving(options, SystemClock()):
            manager.ready()
            await stop.wait()
            manager.stopping()
    except (StoreError, ConfigError) as error:
        return _refuse(f"gateway {options.name}: {error}")
    except OSError as error:
        where = f"{options.host}:{options.port}"
        said = os.strerror(error.errno) if error.errno is not None else str(error)
        return _refuse(f"gateway {options.name} cannot listen on {where}: {said}")
    return 0


def _options(argv: Sequence[str] | None) -> GatewayOptions:
    parser = argparse.ArgumentParser(prog="ds4watch.gateway", description=__doc__)
    parser.add_argument("--name", required=True, help="name of this process, such as g0")
    parser.add_argument("--state", required=True, type=Path, help="the state folder")
    parser.add_argument("--settings", default="{}", help="the gateway section, as JSON")
    parser.add_argument("--host", help="address to bind; default: that of the settings")
    parser.add_argument("--port", type=int, help="port to bind; default: that of the settings")
    given = parser.parse_args(argv)
    settings = GatewaySettings.model_validate_json(given.settings)
    return GatewayOptions(
        name=given.name,
        state_dir=given.state,
        host=given.host if given.host is not None else settings.host,
        port=given.port if given.port is not None else settings.port,
        settings=settings,
    )


def _refuse(message: str) -> int:
    sys.stderr.write(f"ds4watch: {message}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
