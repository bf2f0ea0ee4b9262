"""`ds4watch version`."""

from __future__ import annotations

import typer

from ds4watch import __version__
from ds4watch.cli.common import new_app

app = new_app()


@app.command()
def version() -> None:
    """Print the version.

    Example: ds4watch version
    """
    typer.echo(f"ds4watch {__version__}")
