"""`ds4watch cost`."""

from __future__ import annotations

import csv
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.table import Table

from ds4watch.cli.common import Admin, Config, Json, State, connect, new_app, print_json
from ds4watch.cli.console import console
from ds4watch.cli.cost_bands import tell_bands
from ds4watch.cli.display import money
from ds4watch.cli.instants import instant
from ds4watch.cost.budgets import Period, period_start
from ds4watch.cost.hours import Measure
from ds4watch.model.money import NANOS_PER_UNIT, Nanos

app = new_app(no_args_is_help=True)

_DAY_SECONDS = 86_400
_COST_COLUMNS = ("hour_at", "worker", "profile", "part", "method", "nanos")
_WORK_COLUMNS = (
    "hour_at",
    "key",
    "model",
    "requests",
    "prompt_tokens",
    "cached_tokens",
    "completion_tokens",
    "nanos",
)
Days = Annotated[int, typer.Option(min=1, max=62, help="Days (UTC), today included.")]


class By(StrEnum):
    """What money is told by."""

    WORKER = "worker"
    PROFILE = "profile"
    PART = "part"
    KEY = "key"
    MODEL = "model"
    CONTEXT = "context"


@app.command()
def today(
    config: Config = None, state: State = None, admin: Admin = None, as_json: Json = False
) -> None:
    """Tell what was spent today (UTC), by what it was spent on.

    Example: ds4watch cost today
    """
    now = time.time()
    start = period_start(now, Period.DAY)
    _tell(connect(config, admin, state).client.cost(start, now), By.PART, as_json=as_json)


@app.command()
def hour(
    config: Config = None, state: State = None, admin: Admin = None, as_json: Json = False
) -> None:
    """Tell what was spent in the running hour, by what it was spent on.

    Example: ds4watch cost hour
    """
    now = time.time()
    start = period_start(now, Period.HOUR)
    _tell(connect(config, admin, state).client.cost(start, now), By.PART, as_json=as_json)


@app.command()
def by(
    what: Annotated[By, typer.Argument(help="What to tell it by.")],
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
    days: Days = 1,
) -> None:
    """Tell today's money by worker, profile, part, key, model or context.

    Context is the length of prompts, in bands up to 128K tokens: money of the time with requests
    running, time that they were at workers, their share of what is kept in KV caches meanwhile.

    A key or a model has its share, by tokens computed, of the hours in which it had requests; the
    rest is of hours without.

    Example: ds4watch cost by model --days 7
    """
    found = connect(config, admin, state).client.cost(*_last(days))
    if what is By.CONTEXT:
        tell_bands(found, as_json=as_json)
    else:
        _tell(found, what, as_json=as_json)


@app.command()
def why(
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
    at: Annotated[
        str | None, typer.Option(metavar="INSTANT", help="An instant of the hour, or an age.")
    ] = None,
    measure: Annotated[Measure, typer.Option(help="What is explained.")] = Measure.SPENT,
) -> None:
    """Tell why the running hour costs more or less than usual, in money, cause by cause.

    Usual is the median of the same hour of earlier days, weekdays and weekends apart, else the hour
    before. The causes sum to the difference; each is the mean over all orders of taking them.

    Example: ds4watch cost why --at 2h
    """
    wanted = instant(at, time.time(), option="--at") if at is not None else None
    found = connect(config, admin, state).client.cost_why(wanted)
    if as_json:
        print_json(found)
        return
    currency = found["currency"]
    for it in found["measures"]:
        if it["measure"] == measure.value:
            _tell_causes(it, currency)
            return
    sys.stdout.write("nothing to compare with: no earlier hour was watched whole\n")


@app.command()
def export(
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    days: Days = 1,
    work: Annotated[
        bool, typer.Option("--work", help="By key and model, with their tokens.")
    ] = False,
) -> None:
    """Print the hourly rows as CSV: by worker, profile and part. `nanos` are 1e-9 of the currency.

    Example: ds4watch cost export --days 31 > cost.csv
    """
    found = connect(config, admin, state).client.cost(*_last(days))
    columns = _WORK_COLUMNS if work else _COST_COLUMNS
    rows = csv.DictWriter(sys.stdout, columns, extrasaction="ignore", lineterminator="\n")
    rows.writeheader()
    rows.writerows(_typed(row) for row in found["work" if work else "costs"])


def _typed(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "hour_at": int(row["hour_at"])}


def _last(days: int) -> tuple[float, float]:
    now = time.time()
    return period_start(now, Period.DAY) - (days - 1) * _DAY_SECONDS, now


def _tell(found: Mapping[str, Any], what: By, *, as_json: bool) -> None:
    whole = sum(row["nanos"] for row in found["costs"])
    rows = found["work" if what in (By.KEY, By.MODEL) else "costs"]
    sums = _sums(rows, what)
    left = whole - sum(sums.values())
    if as_json:
        named = {"by": what.value, "nanos": dict(sums), "nobody": left, "total": whole}
        print_json({**found, **named})
        return
    table = Table("what", "money", "share", box=None, pad_edge=False)
    for name, nanos in sorted(sums.items(), key=lambda it: (-it[1], it[0])):
        table.add_row(name or "(none)", *_amounts(nanos, whole, found["currency"]))
    if left:
        table.add_row("hours without requests", *_amounts(left, whole, found["currency"]))
    table.add_row("total", *_amounts(whole, whole, found["currency"]))
    kept = sum(row["nanos"] for row in found["storage"])
    if kept and what is By.PART:
        table.add_row("storage, beside it", money(kept / NANOS_PER_UNIT, found["currency"]), "")
    console().print(table)


def _sums(rows: Iterable[Mapping[str, Any]], what: By) -> Counter[str]:
    sums: Counter[str] = Counter()
    for row in rows:
        sums[str(row[what.value])] += int(row["nanos"])
    return sums


def _amounts(nanos: Nanos, whole: Nanos, currency: str) -> tuple[str, str]:
    share = f"{nanos / whole:.1%}" if whole else ""
    return money(nanos / NANOS_PER_UNIT, currency), share


def _tell_causes(found: Mapping[str, Any], currency: str) -> None:
    expected, actual = found["expected"], found["actual"]
    table = Table("cause", "money", box=None, pad_edge=False)
    table.add_row("usual", money(expected / NANOS_PER_UNIT, currency))
    causes = sorted(found["causes"].items(), key=lambda it: -abs(it[1]))
    for name, nanos in causes:
        if nanos:
            sign = "+" if nanos > 0 else ""
            table.add_row(name.replace("_", " "), sign + money(nanos / NANOS_PER_UNIT, currency))
    table.add_row(f"this hour ({found['measure']})", money(actual / NANOS_PER_UNIT, currency))
    console().print(table)
