"""How golden runs and the choice table look to people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from ds4watch.cli.display import instant
from ds4watch.model.money import NANOS_PER_UNIT

_WIDTH, _HEIGHT = 56, 9
_SIGNS = "abcdefghijklmnopqrstuvwxyz"
_UNKNOWN = "-"


def run_line(run: Mapping[str, Any]) -> str:
    """Return a run in one line."""
    pair = run["profile"] + (f" against {run['reference']}" if run["reference"] else "")
    shares = ", ".join(
        f"{name} {right} of {run['asked'][name]} right" for name, right in run["right"].items()
    )
    told = f"; {run['told']}" if run["told"] else ""
    return (
        f"{run['id']}  {instant(run['at'])}  {pair}: {run['status']}, "
        f"{run['answered']} of {run['questions']} answered"
        + (f" ({shares})" if shares else "")
        + _spent(run)
        + told
    )


def _spent(run: Mapping[str, Any]) -> str:
    if not run["spent_nanos"]:
        return ""
    bound = run["budget_nanos"]
    most = f" of {bound / NANOS_PER_UNIT:.3g}" if bound is not None else ""
    return f", cost {run['spent_nanos'] / NANOS_PER_UNIT:.3g}{most}"


def profile_table(found: Mapping[str, Any]) -> Table:
    """Return the profiles side by side; * marks those that no other beats."""
    table = Table(box=None, pad_edge=False)
    for name in (
        "",
        "PROFILE",
        "RIGHT",
        "95 %",
        "ASKED",
        "|Δ LOG P|",
        "AGE",
        "WEIGHTS",
        "TOKENS/S",
    ):
        table.add_column(name, justify="left" if name in ("", "PROFILE") else "right")
    table.add_column("FIRST TOKEN", justify="right")
    table.add_column(f"{found['currency']}/M TOKENS", justify="right")
    for row in found["profiles"]:
        right = row["accuracy"]
        is_known = right["ratio"] is not None
        table.add_row(
            "*" if row["unbeaten"] else "",
            row["profile"] + (" (reference)" if row["profile"] == found["reference"] else ""),
            _told(right["ratio"], ".1%"),
            f"{right['low']:.1%}-{right['high']:.1%}" if is_known else _UNKNOWN,
            str(right["asked"]),
            _told(row["divergence_nats"], ".4f"),
            _age(row.get("divergence_age_seconds")),
            _bytes(row["weights_bytes"]),
            _told(row["tokens_per_second"], ".1f"),
            _told(row["first_token_seconds"], ".3f", " s"),
            _told(row["cost_per_million_tokens"], ".3f"),
        )
    return table


def routes_table(found: Mapping[str, Any]) -> Table:
    """Return what tokens within the time limit cost, by profile."""
    table = Table(box=None, pad_edge=False)
    table.add_column("PROFILE")
    table.add_column(f"{found['currency']}/1,000 TOKENS IN TIME", justify="right")
    for row in found["profiles"]:
        table.add_row(row["profile"], _told(row["slo_cost_per_thousand_tokens"], ".6f"))
    return table


def regret_line(regret: Mapping[str, Any]) -> str:
    """Return by how much other workers would have been sooner."""
    if not regret["judged"]:
        return "route regret: nothing is judged yet; one in eight streamed requests is"
    most = _told(regret["p95_seconds"], ".3f", " s")
    return (
        f"route regret: {regret['mean_seconds']:.3f} s on average, 95 % within {most}, "
        f"of {regret['judged']:,} requests judged since the daemon's start"
    )


def points(found: Mapping[str, Any]) -> list[tuple[str, float, float, bool]]:
    """Return (profile, cost a million tokens, share right, unbeaten) where both are known."""
    return [
        (it["profile"], it["cost_per_million_tokens"], it["accuracy"]["ratio"], it["unbeaten"])
        for it in found["profiles"]
        if it["cost_per_million_tokens"] is not None and it["accuracy"]["ratio"] is not None
    ]


def chart_lines(found: Mapping[str, Any]) -> list[str]:
    """Return the share of right answers over the cost, in letters; capitals are unbeaten."""
    known = points(found)[: len(_SIGNS)]
    if len(known) < 2:
        return []
    costs, shares = [it[1] for it in known], [it[2] for it in known]
    grid = [[" "] * _WIDTH for _ in range(_HEIGHT)]
    for sign, (_, cost, share, is_best) in zip(_SIGNS, known, strict=False):
        column = _place(cost, costs, _WIDTH)
        row = _HEIGHT - 1 - _place(share, shares, _HEIGHT)
        grid[row][column] = sign.upper() if is_best else sign
    ends = (max(shares), min(shares))
    edges = {0: f"{ends[0]:7.1%} ", _HEIGHT - 1: f"{ends[1]:7.1%} "}
    lines = [edges.get(number, " " * 8) + "|" + "".join(row) for number, row in enumerate(grid)]
    low, high = (f"{it:.3f}" for it in (min(costs), max(costs)))
    axis = f"{low} {found['currency']} a million tokens".ljust(_WIDTH - len(high)) + high
    legend = ", ".join(f"{sign}: {it[0]}" for sign, it in zip(_SIGNS, known, strict=False))
    return ["", *lines, " " * 9 + "-" * _WIDTH, " " * 9 + axis, " " * 9 + legend, ""]


def advice_lines(found: Mapping[str, Any]) -> list[str]:
    """Return what is advised for each class of work, and why."""
    if not found["advice"]:
        return ["nothing is advised: ask the reference too, `ds4watch quality run P --against R`"]
    lines = []
    for advice in found["advice"]:
        lines.append(f"{advice['class']}: {advice['profile']}")
        lines += [f"  {name}: {_loss(loss)}" for name, loss in advice["losses"].items()]
    allowed = found["allowed"]
    lines.append(
        f"allowed: {allowed['loss_points']:g} points lost as measured, "
        f"{allowed['bound_points']:g} at most with 95 % certainty"
    )
    return lines


def _loss(loss: Mapping[str, Any]) -> str:
    if not loss["questions"]:
        return "was not asked the same questions"
    verdicts = {
        "recommended": "within what is allowed",
        "too_lossy": "loses too much",
        "undecided": f"undecided, about {loss['more_questions']:,} more questions",
    }
    return (
        f"{verdicts[loss['verdict']]}: loses {loss['points']:.2f} points "
        f"({loss['lower_points']:.2f} to {loss['upper_points']:.2f}) on {loss['questions']:,} "
        f"questions; {loss['worse']} worse, {loss['better']} better, p = {loss['p_value']:.3g}"
    )


def _place(value: float, values: list[float], size: int) -> int:
    span = max(values) - min(values)
    return round((value - min(values)) / span * (size - 1)) if span > 0 else size // 2


def _told(value: float | None, form: str, unit: str = "") -> str:
    return _UNKNOWN if value is None else f"{value:{form}}{unit}"


def _age(seconds: float | None) -> str:
    if seconds is None:
        return _UNKNOWN
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.0f}s"


def _bytes(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value / 2**30:.2f} GiB"
