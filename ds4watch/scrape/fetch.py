"""Fetches the page of one target over a connection that is kept, and says why it could not."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ds4watch.scrape.address import Address, address_of
from ds4watch.scrape.connection import Answer, Connection, StaleConnectionError
from ds4watch.scrape.credentials import Authorization
from ds4watch.scrape.failures import cannot_connect, timed_out
from ds4watch.scrape.group_state import Group
from ds4watch.scrape.options import Credentials, ScrapeOptions
from ds4watch.telemetry.own_lag import Alarm, patient

_ACCEPT = "text/plain;version=0.0.4,application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1"


class Fetcher:
    """Fetches one target's page, one fetch at a time. Redirects are not followed."""

    def __init__(self, url: str, group: Group, api_key_file: str | None = None) -> None:
        """Take the URL apart. Raises ScrapeError(OTHER) if it is no address.

        api_key_file: holds what is shown where the group has no credentials.
        """
        self._address = address_of(url)
        self._group = group
        self._options = group.options
        self._authorization = group.authorization
        if api_key_file is not None and group.options.credentials is None:
            self._authorization = Authorization(Credentials(token_file=Path(api_key_file)))
        self._head = _request_head(self._address, group.options)
        self._connection: Connection | None = None

    async def fetch(self) -> Answer:
        """Fetch the page within the group's time-out.

        Raises ScrapeError whose reason tells connection, time-out, status, size and content apart.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._options.timeout_seconds
        request = b"%b%b\r\n" % (self._head, self._authorization.header())
        if self._connection is not None and self._connection.usable:
            try:
                return await self._ask(self._connection, request, deadline)
            except StaleConnectionError:
                pass
        connection = await self._connect(deadline)
        return await self._ask(connection, request, deadline)

    def close(self) -> None:
        """Let the connection go."""
        if self._connection is not None:
            self._connection.abort()
            self._connection = None

    async def _ask(self, connection: Connection, request: bytes, deadline: float) -> Answer:
        answer = connection.ask(request, self._options.max_body_bytes)
        loop = asyncio.get_running_loop()
        timeout = Alarm(loop, deadline, lambda: self._time_out(connection))
        try:
            return await answer
        except asyncio.CancelledError:
            connection.abort()
            raise
        finally:
            timeout.cancel()

    def _time_out(self, connection: Connection) -> None:
        connection.fail(timed_out(self._options.timeout_seconds))

    async def _connect(self, deadline: float) -> Connection:
        self.close()
        address = self._address
        encrypted = address.encrypted
        try:
            async with patient(deadline - asyncio.get_running_loop().time()):
                _, self._connection = await asyncio.get_running_loop().create_connection(
                    Connection,
                    address.host,
                    address.port,
                    ssl=self._group.tls() if encrypted else None,
                    server_hostname=address.host if encrypted else None,
                )
        except TimeoutError as error:
            raise timed_out(self._options.timeout_seconds) from error
        except (OSError, ValueError) as error:
            raise cannot_connect(error, address) from error
        return self._connection

    def __str__(self) -> str:
        """Render the address, without what may be secret in it."""
        return str(self._address)


def _request_head(address: Address, options: ScrapeOptions) -> bytes:
    """Return the request up to the place of the Authorization header."""
    lines = [
        f"GET {address.request_target} HTTP/1.1",
        f"Host: {address.host_header}",
        f"Accept: {_ACCEPT}",
        f"Accept-Encoding: {'gzip' if options.compressed else 'identity'}",
        "User-Agent: ds4watch",
        f"X-Prometheus-Scrape-Timeout-Seconds: {options.timeout_seconds:g}",
    ]
    return "".join(f"{line}\r\n" for line in lines).encode("ascii")
