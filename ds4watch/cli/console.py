"""Where people read. Apart, for what runs unattended has no use for it and starts sooner."""

from __future__ import annotations

import sys

from rich.console import Console


def console() -> Console:
    """Return where people read; without colours, and wide, when it is not a terminal.

    Square brackets are what they are: reasons and labels are others' words, no markup of ours.
    """
    if sys.stdout.isatty():
        return Console(highlight=False, markup=False)
    return Console(highlight=False, markup=False, no_color=True, color_system=None, width=200)
