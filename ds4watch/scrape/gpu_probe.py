"""Whether a new engine could use a GPU, asked in a new process.

An open NVML goes on after the driver's files were replaced: only who loads them anew finds out.
"""

from __future__ import annotations

import asyncio
import logging
import sys

import pynvml

from ds4watch.scrape.gpu import MISMATCH

log = logging.getLogger(__name__)

_PROGRAM = """
import pynvml
try:
    pynvml.nvmlInit()
except pynvml.NVMLError as error:
    raise SystemExit(error.value % 256)
"""
_PATIENCE_SECONDS = 15.0


async def gpu_start_fault() -> str:
    """Return why no new engine can use a GPU here; empty if it can, or if nobody knows."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _PROGRAM,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            code = await process.wait()
    except TimeoutError:
        log.warning("a new process got no answer from NVML within %g s", _PATIENCE_SECONDS)
        process.kill()
        return ""
    return MISMATCH if code == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH else ""
