"""One worker on a Ray cluster, followed: how its job stands, where it listens, what it writes."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from pathlib import Path
from typing import TextIO

from ds4watch.fleet.enter import ANNOUNCEMENT
from ds4watch.fleet.ray_jobs import Job, RayJobs
from ds4watch.model.errors import WorkerError

log = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
_ANNOUNCED = re.compile(f"^{re.escape(ANNOUNCEMENT)}(http://\\S+)\\s", re.MULTILINE)
_HEAD_CHARACTERS = 1 << 16
"""Ray says first what it runs, and then the worker where it is."""


class RayWorker:
    """Follows a job until it has ended. What a cluster that is away would tell stays as it was.

    ended: how the job stood when it ran no more.
    announced: set once the worker has an address, or will never have one.
    """

    def __init__(self, jobs: RayJobs, job_id: str, log_path: Path) -> None:
        self.id = job_id
        self.url = ""
        self.ended: Job | None = None
        self.announced = asyncio.Event()
        self._jobs = jobs
        self._log_path = log_path
        self._head = ""
        self._copied = 0
        self._is_away = False
        self._following = asyncio.create_task(self._follow(), name=f"follow {job_id}")
        self._copying = asyncio.create_task(self._copy(), name=f"log of {job_id}")

    async def close(self, *, log_seconds: float = 0.0) -> None:
        """Follow no more; the end of the log has some seconds to come in."""
        if log_seconds:
            await asyncio.wait({self._copying}, timeout=log_seconds)
        tasks = (self._following, self._copying)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self) -> None:
        while self.ended is None:
            await self._look()
            await asyncio.sleep(0 if self.ended else _LOOK_SECONDS)
        self.announced.set()
        told = self.ended.message.partition("\n")[0]
        log.info("%s: %s: %s", self.id, self.ended.status, told or "no message")

    async def _look(self) -> None:
        try:
            job = await self._jobs.job(self.id) or Job(self.id, "GONE", "Ray knows it no more")
        except WorkerError as error:
            if not self._is_away:
                log.warning("%s: %s", self.id, error)
            self._is_away = True
            return
        if self._is_away:
            log.info("%s: Ray can be asked again", self.id)
        self._is_away = False
        self.ended = None if job.is_running else job

    async def _copy(self) -> None:
        """Copy the log from its beginning; after a break, go on where it broke off."""
        self._log_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        with os.fdopen(os.open(self._log_path, flags, 0o600), "a", encoding="utf-8") as target:
            while True:
                has_ended = self.ended is not None
                await self._copy_until_a_break(target)
                if has_ended:
                    return
                await asyncio.sleep(_LOOK_SECONDS)

    async def _copy_until_a_break(self, target: TextIO) -> None:
        seen = 0
        try:
            async for text in self._jobs.log(self.id):
                new = text[max(0, self._copied - seen) :]
                seen += len(text)
                self._copied = max(self._copied, seen)
                self._find_address(new)
                target.write(new)
                target.flush()
        except WorkerError:
            return  # told by the one that follows, if it lasts
        except OSError as error:
            log.warning("%s: a part of its log is lost: %s", self.id, error)

    def _find_address(self, text: str) -> None:
        if self.url or len(self._head) > _HEAD_CHARACTERS:
            return
        self._head += text
        found = _ANNOUNCED.search(self._head)
        if found is not None:
            self.url = found.group(1)
            self._head = ""
            self.announced.set()
