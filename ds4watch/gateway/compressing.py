"""Prompts are compressed in a process of their own, started when the first one comes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ds4watch.config.compression import CompressionSettings
from ds4watch.gateway.compress_child import LENGTH_BYTES, framed
from ds4watch.shaping.compress import Scorer, changed_fields, compress

log = logging.getLogger(__name__)

_COMMAND = (sys.executable, "-m", "ds4watch.gateway.compress_child")
_INLINE_BYTES = 2048
"""So much takes a millisecond: less than to ask another process."""


@dataclass(slots=True)
class CompressionCounts:
    """What was done. skipped: passed on whole for their size, for want of time, or by a fault."""

    compressed: int = 0
    skipped: int = 0
    tokens_before: int = 0
    tokens_after: int = 0


class PromptCompressor:
    """Returns shorter prompts; whatever goes wrong, the prompt is passed on as it is."""

    def __init__(self, settings: CompressionSettings, scorer: Scorer | None = None) -> None:
        self.counts = CompressionCounts()
        self._settings = settings
        self._scorer = scorer
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._process: asyncio.subprocess.Process | None = None
        self._is_failing = False

    async def fields(self, body: Mapping[str, Any], ratio: float) -> dict[str, Any] | None:
        """Return the fields of `body` that change, None if nothing does. Never raises."""
        prompt = {name: body[name] for name in ("prompt", "messages") if name in body}
        kept = self._settings.kept_turns, self._settings.cut_last_turns
        job = {
            "body": prompt,
            "ratio": ratio,
            "kept_turns": kept[0],
            "cut_last_turns": kept[1],
            "surprise": None,
        }
        size = len(framed(job))
        if size <= _INLINE_BYTES and self._scorer is None:
            done = compress(prompt, ratio=ratio, kept_turns=kept[0], cut_last_turns=kept[1])
            return self._counted(
                changed_fields(prompt, done), done.tokens_before, done.tokens_after
            )
        if size > self._settings.max_bytes or self._waiting >= self._settings.max_waiting:
            self.counts.skipped += 1
            return None
        self._waiting += 1
        try:
            return await self._apart(job, str(body.get("model")))
        finally:
            self._waiting -= 1

    def stats(self) -> dict[str, Any]:
        """Return what the daemon is told."""
        return {"compression": asdict(self.counts)}

    async def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _apart(self, job: dict[str, Any], model: str) -> dict[str, Any] | None:
        try:
            async with asyncio.timeout(self._settings.timeout_seconds):
                if self._scorer is not None:
                    texts = (await self._ask(job | {"ratio": None}))["texts"]
                    job["surprise"] = await self._scorer.surprise(texts, model) if texts else None
                reply = await self._ask(job)
        except (TimeoutError, OSError, ValueError, asyncio.IncompleteReadError) as error:
            self.counts.skipped += 1
            self._note(error)
            return None
        self._note(None)
        return self._counted(reply["fields"], reply["before"], reply["after"])

    async def _ask(self, job: dict[str, Any]) -> Any:
        async with self._turn:
            try:
                process = await self._running()
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(framed(job))
                await process.stdin.drain()
                head = await process.stdout.readexactly(LENGTH_BYTES)
                reply = await process.stdout.readexactly(int.from_bytes(head, "big"))
            except BaseException:
                # Half an answer may be under way: the next job gets a fresh process.
                await self.close()
                raise
        return json.loads(reply)

    async def _running(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                *_COMMAND, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
            )
        return self._process

    def _counted(
        self, fields: dict[str, Any] | None, before: int, after: int
    ) -> dict[str, Any] | None:
        self.counts.compressed += fields is not None
        self.counts.tokens_before += before
        self.counts.tokens_after += after
        return fields

    def _note(self, error: BaseException | None) -> None:
        if error is not None and not self._is_failing:
            told = str(error) or type(error).__name__
            log.warning("prompts are passed on uncompressed: %s", told)
        elif error is None and self._is_failing:
            log.info("prompts are compressed again")
        self._is_failing = error is not None
