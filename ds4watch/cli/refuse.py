"""`ds4watch refuse`."""

from __future__ import annotations

from ds4watch.cli.deciding import deciding_app

app = deciding_app("refuse", "Say no to an action that waits for approval.")
