"""Asks for the GPUs from a thread of its own, so that NVML can hang without holding up anything."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from typing import Protocol

from ds4watch.scrape.gpu import LATE, NO_DRIVER, GpuReport

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 0.25


class Reader(Protocol):
    """What is asked; it may block."""

    def known(self) -> GpuReport | None:
        """Return what is told without asking, which never blocks; None: it takes a `read`."""
        ...

    def read(self) -> GpuReport:
        """Return what there is now."""
        ...

    def close(self) -> None:
        """Let go what was opened."""
        ...


class GpuWatch:
    """Reads the GPUs, at most one call at a time; what comes late is skipped, and said.

    last: the last report, whoever asked for it.
    """

    def __init__(self, reader: Reader, *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._reader = reader
        self._patience_seconds = patience_seconds
        self._call: concurrent.futures.Future[GpuReport] | None = None
        self._told = ""
        self.last = GpuReport()

    async def read(self) -> GpuReport:
        """Return a report within the patience: of now, or of a call that was late the last time.

        A call that was late is not waited for again, only looked at. Where there is no driver, no
        thread is begun.
        """
        late = self._take()
        if self._call is None:
            known = self._reader.known()
            if known is not None:
                return self._tell(known)
            self._call = self._begin()
            await asyncio.wait({asyncio.wrap_future(self._call)}, timeout=self._patience_seconds)
        return self._tell(self._take() or late or GpuReport(why_not=LATE))

    def read_blocking(self, seconds: float) -> GpuReport:
        """Return a report like `read`, before there is an event loop."""
        self._call = self._call or self._begin()
        concurrent.futures.wait({self._call}, timeout=seconds)
        return self._tell(self._take() or GpuReport(why_not=LATE))

    def close(self) -> None:
        """Let NVML go, unless a call hangs in it."""
        if self._call is None or self._call.done():
            self._reader.close()

    def _begin(self) -> concurrent.futures.Future[GpuReport]:
        """Ask in a new thread: one of a pool would be waited for at the end of the process."""
        call: concurrent.futures.Future[GpuReport] = concurrent.futures.Future()
        call.set_running_or_notify_cancel()  # so that nobody's impatience cancels it
        threading.Thread(target=self._ask, args=(call,), name="nvml", daemon=True).start()
        return call

    def _ask(self, call: concurrent.futures.Future[GpuReport]) -> None:
        try:
            call.set_result(self._reader.read())
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told and ends no tick
            call.set_result(GpuReport(why_not=f"reading failed: {error!r}"))

    def _take(self) -> GpuReport | None:
        if self._call is None or not self._call.done():
            return None
        report = self._call.result()
        self._call = None
        return report

    def _tell(self, report: GpuReport) -> GpuReport:
        self.last = report
        if report.why_not != self._told:
            level = logging.INFO if report.why_not in ("", NO_DRIVER) else logging.WARNING
            told = f"unavailable: {report.why_not}" if report.why_not else "available again"
            log.log(level, "GPU readings are %s", told)
            self._told = report.why_not
        return report
