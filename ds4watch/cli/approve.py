"""`ds4watch approve`."""

from __future__ import annotations

from ds4watch.cli.deciding import deciding_app

app = deciding_app("approve", "Say yes to an action that waits for it.")
