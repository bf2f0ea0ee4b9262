"""Imports what a command needs, when it needs it."""

from __future__ import annotations

import gc
import importlib
from types import ModuleType


def loaded(name: str) -> ModuleType:
    """Return a module, imported now.

    All of it stays, so looking for garbage meanwhile, or ever again, would be time lost.
    """
    gc.disable()
    try:
        return importlib.import_module(name)
    finally:
        gc.freeze()
        gc.enable()
