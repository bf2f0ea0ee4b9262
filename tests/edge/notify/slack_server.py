"""A server that behaves as Slack's Web API does, as far as we use it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web
from aiohttp.test_utils import TestServer

TOKEN = "xoxb-not-a-real-one"
APP_TOKEN = "xapp-not-a-real-one"
CHANNEL = "C0123456"


@dataclass
class Post:
    """A message that is to be seen in the channel."""

    ts: str
    text: str
    attachments: list[dict[str, Any]]
    thread: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    edits: int = 0

    @property
    def id(self) -> str:
        return str(self.metadata.get("event_payload", {}).get("id", ""))

    @property
    def title(self) -> str:
        """The text without what the worst alert says."""
        return self.text.partition(" · ")[0]

    @property
    def shown(self) -> str:
        return json.dumps(self.attachments, ensure_ascii=False)


def block_faults(blocks: list[dict[str, Any]]) -> list[str]:
    """Return what Slack would refuse of these blocks, by its documented limits."""
    found = ["over 50 blocks"] if len(blocks) > 50 else []
    return found + [fault for block in blocks for fault in _faults(block)]


def _faults(block: dict[str, Any]) -> Iterator[str]:
    for text in _texts(block):
        if not 0 < len(text["text"]) <= 3000:
            yield f"a text of {len(text['text'])} signs"
    for name, most in (("fields", 10), ("elements", 25)):
        if len(block.get(name, ())) > most:
            yield f"too many {name}"
    if any(len(it["text"]) > 2000 for it in block.get("fields", ())):
        yield "a field over 2000 signs"
    for button in (it for it in block.get("elements", ()) if it["type"] == "button"):
        sizes = len(button["text"]["text"]), len(button["value"]), len(button["action_id"])
        if any(size > most for size, most in zip(sizes, (75, 2000, 255), strict=True)):
            yield "a button that is too long"


def _texts(block: dict[str, Any]) -> list[dict[str, Any]]:
    found = [block["text"]] if "text" in block else []
    found += block.get("fields", ())
    return found + [it for it in block.get("elements", ()) if it["type"] == "mrkdwn"]


class SlackServer:
    """`faults`: what befalls the next calls of methods that post, in turn; None: nothing.

    `unheard`: it is done, and the answer never comes. `unmade`: the connection breaks before.
    """

    def __init__(self) -> None:
        self.posts: list[Post] = []
        self.files: list[dict[str, Any]] = []
        self.whispers: list[dict[str, str]] = []
        self.calls: list[str] = []
        self.faults: list[str | None] = []
        self.down: str | None = None
        self.blind: str | None = None
        """Why nobody may look into the channel."""
        self.token = TOKEN
        self.limited = 0
        self.most_at_once = 0
        """Posts between two `pause_over`; 0: without end."""
        self.acknowledged: asyncio.Queue[Any] = asyncio.Queue()
        self.socket: web.WebSocketResponse | None = None
        self.connected = asyncio.Event()
        self._since_pause = 0
        self._uploads: dict[str, bytes] = {}

    def pause_over(self) -> None:
        self._since_pause = 0

    @property
    def mains(self) -> list[Post]:
        return [it for it in self.posts if it.thread is None]

    def thread_of(self, post: Post) -> list[Post]:
        return [it for it in self.posts if it.thread == post.ts]

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        app = web.Application()
        app.router.add_post("/api/{method}", self._call)
        app.router.add_get("/api/{method}", self._call)
        app.router.add_post("/upload/{id}", self._upload)
        app.router.add_get("/socket", self._socket)
        app.router.add_post("/services/{rest:.*}", self._hook)
        async with TestServer(app) as server:
            self.url = str(server.make_url("/")).rstrip("/")
            yield f"{self.url}/api/"

    async def _call(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        self.calls.append(method)
        fields = await _fields(request)
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        wanted = APP_TOKEN if method == "apps.connections.open" else self.token
        if (given or fields.get("token")) != wanted:
            return web.json_response({"ok": False, "error": "invalid_auth"})
        is_post = method in ("chat.postMessage", "chat.update")
        if (refused := self._refusal(is_post)) is not None:
            return refused
        fault = self.faults.pop(0) if self.faults and is_post else self.down
        if fault in _ANSWERS:
            return _ANSWERS[fault]()
        if fault == "unmade":
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if self.blind and method.startswith("conversations."):
            return web.json_response({"ok": False, "error": self.blind})
        answer = self._done(method, fields)
        if fault == "unheard":
            assert request.transport is not None
            request.transport.abort()
        return web.json_response(answer)

    def _refusal(self, is_post: bool) -> web.Response | None:
        if not is_post or not self.most_at_once:
            return None
        self._since_pause += 1
        if self._since_pause <= self.most_at_once:
            return None
        self.limited += 1
        return _ANSWERS["429"]()

    def _done(self, method: str, fields: dict[str, Any]) -> dict[str, Any]:
        name = "_" + method.replace(".", "_")
        done: dict[str, Any] = getattr(self, name)(fields)
        return done

    def _chat_postMessage(self, fields: dict[str, Any]) -> dict[str, Any]:  # noqa: N802 - Slack's
        attachments = fields.get("attachments") or []
        if any(block_faults(it["blocks"]) for it in attachments):
            return {"ok": False, "error": "invalid_blocks"}
        if fields["channel"] != CHANNEL:
            return {"ok": False, "error": "channel_not_found"}
        post = Post(
            f"1796028647.{len(self.posts):06}",
            fields["text"],
            attachments,
            fields.get("thread_ts"),
            fields.get("metadata") or {},
        )
        self.posts.append(post)
        return {"ok": True, "channel": CHANNEL, "ts": post.ts}

    def _chat_update(self, fields: dict[str, Any]) -> dict[str, Any]:
        found = [it for it in self.posts if it.ts == fields["ts"]]
        if not found:
            return {"ok": False, "error": "message_not_found"}
        found[0].text, found[0].attachments = fields["text"], fields["attachments"]
        found[0].edits += 1
        return {"ok": True, "channel": CHANNEL, "ts": fields["ts"]}

    def _chat_postEphemeral(self, fields: dict[str, Any]) -> dict[str, Any]:  # noqa: N802 - Slack's
        self.whispers.append({"user": fields["user"], "text": fields["text"]})
        return {"ok": True}

    def _conversations_history(self, fields: dict[str, Any]) -> dict[str, Any]:
        assert fields["channel"] == CHANNEL
        return {"ok": True, "messages": [_seen(it) for it in reversed(self.mains)]}

    def _conversations_replies(self, fields: dict[str, Any]) -> dict[str, Any]:
        found = [it for it in self.posts if fields["ts"] in (it.ts, it.thread)]
        return {"ok": True, "messages": [_seen(it) for it in found]}

    def _files_getUploadURLExternal(self, fields: dict[str, Any]) -> dict[str, Any]:  # noqa: N802 - Slack's
        id_ = f"F{len(self._uploads)}"
        self._uploads[id_] = b""
        assert int(fields["length"]) > 0
        return {"ok": True, "file_id": id_, "upload_url": f"{self.url}/upload/{id_}"}

    def _files_completeUploadExternal(self, fields: dict[str, Any]) -> dict[str, Any]:  # noqa: N802 - Slack's
        (file,) = (
            fields["files"] if isinstance(fields["files"], list) else json.loads(fields["files"])
        )
        self.files.append(
            {
                "content": self._uploads[file["id"]],
                "title": file["title"],
                "channel": fields.get("channel_id"),
                "thread": fields.get("thread_ts"),
            }
        )
        return {"ok": True, "files": [{"id": file["id"]}]}

    def _apps_connections_open(self, fields: dict[str, Any]) -> dict[str, Any]:
        del fields
        return {"ok": True, "url": self.url.replace("http", "ws") + "/socket"}

    async def _upload(self, request: web.Request) -> web.Response:
        self._uploads[request.match_info["id"]] = await request.read()
        return web.Response(text="OK")

    async def _socket(self, request: web.Request) -> web.WebSocketResponse:
        self.socket = web.WebSocketResponse()
        await self.socket.prepare(request)
        await self.socket.send_json({"type": "hello"})
        self.connected.set()
        async for message in self.socket:
            if message.type is WSMsgType.TEXT:
                self.acknowledged.put_nowait(json.loads(message.data))
        return self.socket

    async def _hook(self, request: web.Request) -> web.Response:
        body = await request.json()
        fault = self.faults.pop(0) if self.faults else self.down
        if fault in _HOOK_ANSWERS:
            return _HOOK_ANSWERS[fault]()
        self.posts.append(Post(str(len(self.posts)), body["text"], body["attachments"]))
        return web.Response(text="ok")


def _seen(post: Post) -> dict[str, Any]:
    return {"ts": post.ts, "text": post.text, "metadata": post.metadata}


async def _fields(request: web.Request) -> dict[str, Any]:
    found: dict[str, Any] = dict(request.query)
    if request.content_type == "application/json":
        body: dict[str, Any] = await request.json()
        return found | body
    return found | dict(await request.post())


_ANSWERS = {
    "429": lambda: web.json_response(
        {"ok": False, "error": "ratelimited"}, status=429, headers={"Retry-After": "7"}
    ),
    "500": lambda: web.Response(status=500, text="<html>oops</html>"),
    "503": lambda: web.json_response({"ok": False, "error": "service_unavailable"}, status=503),
    "internal_error": lambda: web.json_response({"ok": False, "error": "internal_error"}),
    "token_revoked": lambda: web.json_response({"ok": False, "error": "token_revoked"}),
    "msg_too_long": lambda: web.json_response({"ok": False, "error": "msg_too_long"}),
}
_HOOK_ANSWERS = {
    "429": lambda: web.Response(status=429, headers={"Retry-After": "7"}),
    "503": lambda: web.Response(status=503),
    "no_service": lambda: web.Response(status=404, text="no_service"),
    "invalid_payload": lambda: web.Response(status=400, text="invalid_payload"),
}
