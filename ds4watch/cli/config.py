"""`ds4watch config`: about the settings themselves; for those who write documentation."""

from __future__ import annotations

import typer

from ds4watch.cli.common import new_app
from ds4watch.config.reference import render_reference
from ds4watch.vocabulary.reference import render_metrics

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


@app.command()
def metrics() -> None:
    """Print docs/metrics.md: every metric that ds4watch exposes.

    Example: ds4watch config metrics > docs/metrics.md
    """
    typer.echo(render_metrics(), nl=False)
