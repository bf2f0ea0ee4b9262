"""`ds4watch config`: about the settings themselves; for those who write documentation."""

from __future__ import annotations

import typer

from ds4watch.cli.common import new_app
from ds4watch.config.reference import render_reference

app = new_app(no_args_is_help=True)


@app.callback()
def config() -> None:
    """About the settings themselves."""


@app.command()
def reference() -> None:
    """Print docs/configuration.md: every key of ds4watch.yml and of a profile.

    Example: ds4watch config reference > docs/configuration.md
    """
    typer.echo(render_reference(), nl=False)
