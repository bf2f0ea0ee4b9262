"""`ds4watch version`."""

from __future__ import annotations

import typer

from ds4watch import __version__

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def version() -> None:
    """Print the version.

    Example: ds4watch version
    """
    typer.echo(f"ds4watch {__version__}")
