"""Where people read. Apart, for what runs unattended has no use for it and starts sooner."""

from __future__ import annotations

import sys

from rich.console import Console


def console() -> Console:
    """Return where people read; without colours, and wide, when it is not a terminal."""
    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(highlight=False, no_color=True, color_system=None, width=200)
