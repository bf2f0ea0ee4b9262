"""All other routes: models, health, metrics, tokenizer, sleep, and the switchboard of faults."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from typing import Any

from aiohttp import web

from ds4watch.sim.api_errors import bad_request, invalid_body
from ds4watch.sim.asks import DetokenizeBody, TokenizeBody, parse, served
from ds4watch.sim.faults import (
    Fault,
    FaultSwitch,
    crash,
    spoil,
    switch,
    with_fuller_cache,
    with_longer_queue,
)
from ds4watch.sim.page import CONTENT_TYPE
from ds4watch.sim.tokens import decode, encode, render_chat
from ds4watch.sim.worker import SimWorker

log = logging.getLogger(__name__)

VLLM_VERSION = "0.32.0"
_PAGE_FAULTS = (
    Fault.METRICS_EMPTY,
    Fault.METRICS_NO_ENGINE,
    Fault.HALF_METRICS,
    Fault.MALFORMED_METRICS,
)
_NEGATIVE = "ValueError: Counters can only be incremented by non-negative amounts."


class InfoHandlers:
    """What a worker tells of itself."""

    def __init__(self, worker: SimWorker) -> None:
        self._worker = worker
        self._created = int(worker.clock.now())

    async def models(self, _: web.Request) -> web.Response:
        """List the served names."""
        cards = [self._card(name) for name in self._worker.settings.served_names]
        return web.json_response({"object": "list", "data": cards})

    def _card(self, name: str) -> dict[str, Any]:
        settings = self._worker.settings
        return {
            "id": name,
            "object": "model",
            "created": self._created,
            "owned_by": "vllm",
            "root": settings.served_names[0],
            "parent": None,
            "max_model_len": settings.max_model_len,
            "permission": [],
        }

    async def health(self, _: web.Request) -> web.Response:
        """Answer 200, as vLLM does even while its engine hangs."""
        return web.Response()

    async def version(self, _: web.Request) -> web.Response:
        """Tell the version of vLLM that is played."""
        return web.json_response({"version": VLLM_VERSION})

    async def load(self, _: web.Request) -> web.Response:
        """Tell the requests in flight, as vLLM with --enable-server-load-tracking."""
        return web.json_response({"server_load": self._worker.engine.inflight})

    async def metrics(self, _: web.Request) -> web.Response:
        """Serve the metrics page, spoilt by whatever fault is on."""
        faults = self._worker.faults
        if faults.has(Fault.METRICS_500):
            return web.Response(status=500, text="Internal Server Error")
        time.sleep(faults.metrics_seconds)  # noqa: ASYNC251 - holding up the loop is the fault
        page = self._worker.page()
        if faults.more_waiting:
            page = with_longer_queue(page, faults.more_waiting)
        if faults.least_kv_usage:
            page = with_fuller_cache(page, faults.least_kv_usage)
        for fault in filter(faults.has, _PAGE_FAULTS):
            page = spoil(fault, page)
        return web.Response(body=page, headers={"Content-Type": CONTENT_TYPE})

    async def tokenize(self, request: web.Request) -> web.Response:
        """Count and list the tokens of a prompt or a chat."""
        body = parse(TokenizeBody, await request.read())
        served(body.model, self._worker.settings)
        if body.messages is not None:
            text = render_chat(body.messages, add_generation_prompt=body.add_generation_prompt)
        elif body.prompt is not None:
            text = body.prompt
        else:
            raise invalid_body("body.prompt: Field required", param="body.prompt")
        tokens = encode(text)
        return web.json_response(
            {
                "count": len(tokens),
                "max_model_len": self._worker.settings.max_model_len,
                "tokens": list(tokens),
                "token_strs": [decode(bytes((token,))) for token in tokens]
                if body.return_token_strs
                else None,
            }
        )

    async def detokenize(self, request: web.Request) -> web.Response:
        """Turn tokens into text."""
        body = parse(DetokenizeBody, await request.read())
        served(body.model, self._worker.settings)
        return web.json_response({"prompt": decode(bytes(body.tokens))})


class DevHandlers:
    """What vLLM adds with VLLM_SERVER_DEV_MODE=1."""

    def __init__(self, worker: SimWorker) -> None:
        self._worker = worker

    async def sleep(self, request: web.Request) -> web.Response:
        """Put the worker to sleep."""
        level, mode = request.query.get("level", "1"), request.query.get("mode", "abort")
        if level not in {"0", "1", "2"}:
            raise invalid_body("query.level: Input should be 0, 1 or 2", param="query.level")
        if mode not in {"abort", "wait", "keep"}:
            message = "query.mode: Input should be 'abort', 'wait' or 'keep'"
            raise invalid_body(message, param="query.mode")
        await self._worker.sleep(int(level), mode)
        return web.json_response({"status": "sleeping", "level": int(level)})

    async def wake_up(self, request: web.Request) -> web.Response:
        """Wake the worker, or the memory named by tags."""
        tags = request.query.getall("tags", [])
        if self._worker.is_sleeping:
            await asyncio.sleep(self._worker.settings.wake_seconds)
        awake = self._worker.wake_up(tags)
        return web.json_response({"status": "awake" if awake else "sleeping", "tags": tags or None})

    async def is_sleeping(self, _: web.Request) -> web.Response:
        """Tell whether the worker sleeps."""
        return web.json_response({"is_sleeping": self._worker.is_sleeping})

    async def reset_prefix_cache(self, _: web.Request) -> web.Response:
        """Forget cached prefixes, unless blocks are in use."""
        return web.json_response({"success": self._worker.engine.cache.reset()})

    async def collective_rpc(self, request: web.Request) -> web.Response:
        """Take `reload_weights`, which a wake from level 2 needs; nothing else."""
        body = _object(await request.read())
        if body.get("method") != "reload_weights":
            raise bad_request("the simulated worker knows reload_weights only", param="method")
        self._worker.garbled = False
        return web.json_response({"results": [None]})


class FaultHandlers:
    """The switchboard; not part of vLLM, hence under /sim."""

    def __init__(self, worker: SimWorker) -> None:
        self._worker = worker

    async def list(self, _: web.Request) -> web.Response:
        """List the faults."""
        return web.json_response({"faults": self._worker.faults.as_json()})

    async def set(self, request: web.Request) -> web.Response:
        """Switch one fault: {"fault": "slow", "on": true, "value": 4}."""
        body = _object(await request.read())
        item, on = _switch(body), body.get("on", True) is True
        log.warning("fault %s (%s) is %s", item.fault, item.value, "on" if on else "off")
        if item.fault in _DEADLY and on:
            # Let the answer leave first.
            asyncio.get_running_loop().call_later(0.05, crash, _DEADLY[item.fault])
        elif item.fault is Fault.STUCK:
            self._worker.stick(on=on)
            self._worker.faults.set(item, on=on)
        elif item.fault is Fault.COUNTERS_RESET and on:
            self._worker.reset_counters()
        else:
            self._worker.faults.set(item, on=on)
        return web.json_response({"faults": self._worker.faults.as_json()})


_DEADLY = {Fault.CRASH: "simulated crash", Fault.METRICS_ERROR: _NEGATIVE}


def _object(raw: bytes) -> dict[str, Any]:
    try:
        body = json.loads(raw)
    except ValueError as error:
        raise invalid_body(f"JSON decode error: {error}", param="body") from error
    if not isinstance(body, dict):
        raise invalid_body("body: Input should be an object", param="body")
    return body


def _switch(body: dict[str, Any]) -> FaultSwitch:
    value = body.get("value")
    if value is not None and not isinstance(value, int | float):
        raise bad_request("value must be a number", param="value")
    try:
        return switch(str(body.get("fault")), None if value is None else float(value))
    except ValueError as error:
        known = ", ".join(Fault)
        raise bad_request(f"{error}; known: {known}", param="fault") from error
