"""The clients of all workers, over one session. What they are made of is loaded with the first."""

from __future__ import annotations

import importlib
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from ds4watch.fleet.own_use import OwnUse
from ds4watch.fleet.worker_keys import WorkerKeys
from ds4watch.telemetry.own_lag import OwnLag

if TYPE_CHECKING:
    import aiohttp

    from ds4watch.fleet.client import WorkerClient


class WorkerClients:
    """Call it with a worker's address. Use as an async context manager.

    aiohttp takes longer to load than the first evaluation takes: a start does not wait for it.
    """

    def __init__(self, *, generation_timeout_seconds: float, keys: WorkerKeys) -> None:
        self._generation_timeout_seconds = generation_timeout_seconds
        self.keys = keys
        """Which API key a worker at an address asks for."""
        self._session: aiohttp.ClientSession | None = None
        self.own_use = OwnUse()
        """What all of them used."""
        self.lag = OwnLag()
        """How late we are ourselves to hear an answer."""

    async def __aenter__(self) -> Self:
        """Return itself; nothing is open yet."""
        self.lag.__enter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the session, if there is one."""
        self.lag.__exit__()
        if self._session is not None:
            await self._session.close()

    def __call__(self, url: str) -> WorkerClient:
        """Return a client of the worker at `url`."""
        module: Any = importlib.import_module("ds4watch.fleet.client")
        if self._session is None:
            self._session = module.open_session()
        timeout = self._generation_timeout_seconds
        client = module.WorkerClient(
            self._session,
            url,
            generation_timeout_seconds=timeout,
            own=self.own_use,
            api_key=self.keys.at(url),
        )
        return cast("WorkerClient", client)
