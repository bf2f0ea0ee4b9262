"""The least that a relay over aiohttp can do: pass each request on, and the answer back.

python -m benchmarks.support.bare_relay PORT WORKER_URL
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import aiohttp
import uvloop
from aiohttp import web

WORKER = web.AppKey("WORKER", str)
HTTP = web.AppKey("HTTP", aiohttp.ClientSession)


async def _session(app: web.Application) -> AsyncIterator[None]:
    app[HTTP] = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
    yield
    await app[HTTP].close()


async def _relay(request: web.Request) -> web.StreamResponse:
    url = request.app[WORKER] + request.path
    kind = {"Content-Type": "application/json"}
    async with request.app[HTTP].post(url, data=await request.read(), headers=kind) as answer:
        headers = {"Content-Type": answer.headers["Content-Type"]}
        if answer.content_length is not None:
            return web.Response(body=await answer.read(), headers=headers)
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        async for chunk in answer.content.iter_any():
            await response.write(chunk)
        await response.write_eof()
        return response


def main(port: int, worker: str) -> None:
    app = web.Application()
    app[WORKER] = worker
    app.cleanup_ctx.append(_session)
    app.router.add_post("/{path:.*}", _relay)
    loop = uvloop.new_event_loop()
    web.run_app(app, host="127.0.0.1", port=port, access_log=None, loop=loop, print=None)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
