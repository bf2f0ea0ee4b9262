"""`ds4watch version`."""

from __future__ import annotations

from ds4watch import __version__
from ds4watch.cli.common import Json, new_app, tell

app = new_app()


@app.command()
def version(as_json: Json = False) -> None:
    """Print the version.

    Example: ds4watch version
    """
    tell(f"ds4watch {__version__}", {"version": __version__}, as_json=as_json)
