"""`ds4watch requests`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from ds4watch.cli.common import Admin, Config, Json, State, connect, new_app, print_json
from ds4watch.cli.console import console
from ds4watch.cli.display import DASH, instant, number, printable
from ds4watch.model.money import NANOS_PER_UNIT

app = new_app()

_COUNTS = (
    "requests", "errors", "refused", "shed", "gone", "retries", "prompt_tokens",
    "cached_tokens", "completion_tokens",
)  # fmt: skip
_SECONDS = (
    "queue_seconds", "lost_seconds", "prefill_seconds", "decode_seconds", "unsplit_seconds"
)  # fmt: skip
_HEADS = (
    "requests", "errors", "refused", "shed", "gone", "retries", "prompt", "cached", "generated",
    "queue s", "lost s", "prefill s", "decode s", "unsplit s",
)  # fmt: skip


class By(StrEnum):
    """What to add up by."""

    KEY = "key"
    MODEL = "model"
    WORKER = "worker"
    PROFILE = "profile"
    CLASS = "class"


@app.command()
def requests(
    by: Annotated[By, typer.Option("--by", help="What to add up by.")] = By.KEY,
    hours: Annotated[
        int, typer.Option("--hours", min=1, max=9600, help="Hours, the running one included.")
    ] = 24,
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
) -> None:
    """Add up requests, tokens, time and cost by key, model, worker, profile or class.

    Example: ds4watch requests --by model --hours 24
    """
    found = connect(config, admin, state).client.requests(by=by.value, hours=hours)
    if as_json:
        print_json(found)
        return
    title = f"since {instant(found['since_at'])}, money in {found['currency']}"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column(by.value)
    for head in (*_HEADS, "cost"):
        table.add_column(head, justify="right")
    for row in found["requests"]:
        table.add_row(Text(printable(row["name"]) or DASH), *_cells(row))
    console().print(table)


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        *(number(row[name]) for name in _COUNTS),
        *(f"{row[name]:,.2f}" for name in _SECONDS),
        f"{row['nanos'] / NANOS_PER_UNIT:.4f}",
    ]
