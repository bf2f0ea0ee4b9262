"""`ds4watch load`: arguments only."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from ds4watch.cli.common import new_app
from ds4watch.model.errors import UpstreamError
from ds4watch.sim.clock import SystemClock
from ds4watch.sim.load import MAX_CONCURRENCY, MAX_REQUESTS, MAX_SECONDS, LoadSettings
from ds4watch.sim.load_report import run_load

app = new_app()

_EXAMPLES = """Examples:

  ds4watch load --concurrency 96 --seconds 30

  ds4watch load --url http://127.0.0.1:8201 --requests 100 --json
"""


@app.command(epilog=_EXAMPLES)
def load(
    *,
    url: Annotated[str, typer.Option(help="Gateway or worker; on this machine only.")] = (
        "http://127.0.0.1:8400"
    ),
    model: Annotated[
        str | None,
        typer.Option(help="Model to ask for. [default: an alias that several workers serve]"),
    ] = None,
    concurrency: Annotated[
        int, typer.Option(help=f"Requests at once, at most {MAX_CONCURRENCY}.")
    ] = 16,
    seconds: Annotated[
        float,
        typer.Option(help=f"Time after which no new request is sent, at most {MAX_SECONDS:.0f}."),
    ] = 30.0,
    requests: Annotated[
        int, typer.Option(help=f"Requests in all, at most {MAX_REQUESTS}.")
    ] = MAX_REQUESTS,
    prompt_tokens: Annotated[
        int, typer.Option(help="Length of a prompt, about; the simulated worker counts bytes.")
    ] = 64,
    max_tokens: Annotated[int, typer.Option(help="Longest answer to ask for.")] = 64,
    stream: Annotated[bool, typer.Option(help="Ask for streams.")] = True,
    shared_prefix_ratio: Annotated[
        float,
        typer.Option(
            help="Part of each prompt that is the same for all, 0 to 1: it can be cached."
        ),
    ] = 0.5,
    seed: Annotated[int, typer.Option(help="Other seeds give other prompts.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Send a bounded test load to the gateway, and sum up what came back."""
    settings = LoadSettings(
        url=url.rstrip("/"),
        model=model,
        concurrency=concurrency,
        seconds=seconds,
        requests=requests,
        prompt_tokens=prompt_tokens,
        max_tokens=max_tokens,
        stream=stream,
        shared_prefix_ratio=shared_prefix_ratio,
        seed=seed,
    )
    try:
        code = run_load(settings, SystemClock(), Console(), as_json=json)
    except UpstreamError as error:
        typer.echo(f"ds4watch: {error}", err=True)
        raise typer.Exit(1) from error
    if code:
        raise typer.Exit(code)
