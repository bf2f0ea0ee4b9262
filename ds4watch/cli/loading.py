"""Imports what a command needs, when it needs it."""

from __future__ import annotations

import gc
import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

_BLAS_THREADS = "OPENBLAS_NUM_THREADS"


def loaded(name: str) -> ModuleType:
    """Return a module, imported now.

    All of it stays, so looking for garbage meanwhile, or ever again, would be time lost.
    """
    gc.disable()
    try:
        with _no_idle_threads():
            return importlib.import_module(name)
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def _no_idle_threads() -> Iterator[None]:
    """Keep numpy from starting a thread for each core: they spin for a while, for no matrix.

    Only for a moment: workers are started with the environment that we were started with.
    """
    if _BLAS_THREADS in os.environ:
        yield
        return
    os.environ[_BLAS_THREADS] = "1"
    try:
        yield
    finally:
        del os.environ[_BLAS_THREADS]
