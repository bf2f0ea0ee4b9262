"""POST /v1/chat/completions and /v1/completions."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

from ds4watch.sim.answers import Answerer
from ds4watch.sim.api_errors import bad_request, engine_failed
from ds4watch.sim.asks import Ask, ChatBody, CompletionBody, chat_ask, completion_ask, parse
from ds4watch.sim.faults import Fault
from ds4watch.sim.generation import Finish
from ds4watch.sim.planning import plan
from ds4watch.sim.text import LogprobModel
from ds4watch.sim.worker import Mailbox, SimWorker

DONE = b"data: [DONE]\n\n"


class GenerationHandlers:
    """The two generation routes of one worker."""

    def __init__(self, worker: SimWorker) -> None:
        self._worker = worker
        settings = worker.settings
        self._model = LogprobModel(noise=settings.precision_noise, seed=settings.seed)
        self._requests = 0

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """Answer a chat."""
        body = parse(ChatBody, await request.read())
        return await self._answer(request, chat_ask(body, self._worker.settings), chat=True)

    async def completion(self, request: web.Request) -> web.StreamResponse:
        """Answer a plain completion."""
        body = parse(CompletionBody, await request.read())
        return await self._answer(request, completion_ask(body, self._worker.settings), chat=False)

    async def _answer(self, request: web.Request, ask: Ask, *, chat: bool) -> web.StreamResponse:
        worker = self._worker
        if worker.faults.next_request_fails():
            raise engine_failed()
        if worker.faults.has(Fault.NO_NUMBERS) and ask.tells_logprobs and not ask.stream:
            raise bad_request("Out of range float values are not JSON compliant: nan")
        answerer = self._answerer(ask, chat=chat)
        generations = plan(
            ask,
            seed=worker.settings.seed,
            arrived_at=worker.clock.monotonic(),
            garbled=worker.garbled,
        )
        mailbox = worker.submit(generations)
        try:
            if ask.stream:
                return await _stream(request, mailbox, answerer, include_usage=ask.include_usage)
            return await _whole(mailbox, answerer)
        finally:
            # A client that leaves cancels this handler: its sequences must not go on.
            worker.leave(mailbox)

    def _answerer(self, ask: Ask, *, chat: bool) -> Answerer:
        self._requests += 1
        kind = "chatcmpl" if chat else "cmpl"
        request_id = f"{kind}-sim{self._worker.settings.seed:04x}{self._requests:012x}"
        return Answerer(
            ask,
            chat=chat,
            request_id=request_id,
            created=int(self._worker.clock.now()),
            model=self._model,
        )


async def _whole(mailbox: Mailbox, answerer: Answerer) -> web.Response:
    ends: dict[int, Finish] = {}
    while len(ends) < len(mailbox.generations):
        event = await mailbox.next()
        if event.finish:
            ends[event.choice] = event.finish
    sequences = [(item, ends[choice]) for choice, item in enumerate(mailbox.generations)]
    return web.json_response(answerer.full(sequences), dumps=_dumps)


async def _stream(
    request: web.Request, mailbox: Mailbox, answerer: Answerer, *, include_usage: bool
) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    opened: set[int] = set()
    ended = 0
    while ended < len(mailbox.generations):
        event = await mailbox.next()
        if not response.prepared:
            await response.prepare(request)
        generation = mailbox.generations[event.choice]
        if event.choice not in opened:
            opened.add(event.choice)
            await _send(response, answerer.first_chunk(event.choice, generation))
        chunk = answerer.token_chunk(event.choice, generation, event.position, event.finish)
        await _send(response, chunk)
        ended += event.finish is not None
    if include_usage:
        await _send(response, answerer.usage_chunk(mailbox.generations))
    await response.write(DONE)
    return response


async def _send(response: web.StreamResponse, chunk: dict[str, Any] | None) -> None:
    if chunk is not None:
        await response.write(f"data: {_dumps(chunk)}\n\n".encode())


def _dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
