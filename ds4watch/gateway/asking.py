"""Questions of the gateway's own to a worker."""

from __future__ import annotations

from ds4watch.gateway.http.pool import Pool, origin_of
from ds4watch.gateway.worker_keys import WorkerKeys
from ds4watch.model.worker import WorkerView


class Asking:
    """Asks workers, each with the key that it wants."""

    def __init__(self, pool: Pool, keys: WorkerKeys) -> None:
        self._pool = pool
        self._keys = keys

    async def posted(
        self, worker: WorkerView, path: bytes, body: bytes, *, max_bytes: int
    ) -> bytes | None:
        """Return the answer to a body of JSON, None for any status but 200.

        Raises Ds4watchError or OSError if there is no whole answer of at most `max_bytes`.
        """
        origin = origin_of(worker.url)
        own = origin.host_line + self._keys.line(worker)
        head = (
            b"POST %b%b HTTP/1.1\r\n%bContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % (origin.prefix, path, own, len(body))
        )
        answer = await self._pool.ask(origin, head, body)
        try:
            told = await answer.read(max_bytes)
            return told if answer.head.status == 200 else None
        finally:
            self._pool.give_back(origin, answer)
