"""The status as tables, and the small words that all commands use. A dash: not reported."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

DASH = "-"
_SHOWN_STANDSTILL_SECONDS = 10
_COMING = ("starting", "loading", "warming")
_PHASE_STYLES = {"ready": "green", "failed": "bold red", "quarantined": "bold red"}
_PHASES = ("firing", "pending", "resolved")
_SEVERITIES = ("critical", "warning", "info")
_SEVERITY_STYLES = {"critical": "bold red", "warning": "yellow"}


def number(value: Any) -> str:
    """Return up to four significant digits."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        return DASH
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.2f}" if abs(value) >= 100 else f"{value:.4g}"


def percent(value: Any) -> str:
    """Return a ratio as a percentage."""
    return f"{value * 100:.1f} %" if isinstance(value, int | float) else DASH


def instant(at: Any) -> str:
    """Return an instant in local time."""
    if not isinstance(at, int | float):
        return DASH
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def money(amount: Any, currency: str) -> str:
    """Return a decimal string for people: four places under one unit, two from there on."""
    try:
        value = Decimal(str(amount))
    except InvalidOperation:
        return DASH
    return f"{value:.4f} {currency}" if abs(value) < 1 else f"{value:.2f} {currency}"


def signal(name: str, value: Any) -> str:
    """Return a signal's value in the unit that its name gives."""
    if "_ratio" in name:
        return percent(value)
    if "_bytes" in name and isinstance(value, int | float):
        return f"{value / 2**30:.2f} GiB"
    return number(value)


def status_view(status: Mapping[str, Any]) -> RenderableType:
    """Return the whole status."""
    return Group(*_parts(status))


def _parts(status: Mapping[str, Any]) -> Iterator[RenderableType]:
    yield Text(
        f"ds4watch {status.get('version', '')}, pid {status.get('pid', DASH)}; "
        f"gateway {status.get('gateway_url') or DASH}, admin {status.get('admin_url') or DASH}"
    )
    if status.get("role") == "standby":
        leader = status.get("leader") or {}
        who = f"{leader.get('host', DASH)} ({leader.get('admin_url', DASH)}) leads"
        yield Text(f"on standby: {who}; nothing is done from here", style="yellow")
    for waiting in status.get("waiting_for") or ():
        yield Text(f"waiting for {waiting}", style="yellow")
    if change := status.get("change"):
        yield from _change_line(change)
    yield from _level_lines(status.get("policy"))
    yield _cost_line(status.get("cost") or {})
    for hold in status.get("holds") or ():
        until = instant(hold.get("until_at"))
        line = f"hold on {hold['target']} until {until}, by {hold['who']}: {hold['why']}"
        yield Text(line, style="yellow")
    yield from _steering_lines(status.get("steering") or {})
    if pool := status.get("pool"):
        yield _pool_line(pool)
    yield fleet_table(status.get("fleet") or [])
    alerts = sorted(status.get("alerts") or (), key=_worst_first)
    if all(alert.get("severity") == "none" for alert in alerts):
        yield Text("No alert is pending or firing.", style="green")
    if alerts:
        yield _alert_table(alerts)
    yield _gateway_table(status.get("gateways") or [])
    yield _signal_table(status.get("signals") or {})
    if jobs := status.get("jobs"):
        yield _job_table(jobs)
    if why_not := (status.get("gpus") or {}).get("why_not"):
        yield Text(f"No GPU readings: {why_not}")


def _steering_lines(steering: Mapping[str, Any]) -> Iterator[Text]:
    if steering.get("dry_run"):
        yield Text("the policy is a dry run: actions are told and not done", style="yellow")
    elif until := steering.get("trial_until"):
        yield Text(
            f"first week: until {instant(until)} scaling, rolling care and actions on adopted "
            "workers are only told; what ds4watch started is kept alive",
            style="yellow",
        )
    for it in steering.get("actions") or ():
        line = f"{it['status']}: {it['kind']} on {it['target']}: {it['reason']} (id {it['id']})"
        if it.get("expires_at"):
            who = ", ".join(it["approvers"])
            line += f"; {who} may approve it until {instant(it['expires_at'])}"
        yield Text(line, style="yellow")


def _pool_line(pool: Mapping[str, Any]) -> Text:
    missing, resting = pool.get("missing"), pool.get("resting") or ()
    line = f"warm: {number(pool.get('hot'))} ready, {number(pool.get('min_hot'))} wanted at least"
    line += "".join(f"; {it['worker']} {it['wish']}: {it['why']}" for it in resting)
    if pool.get("trial_until"):
        line += f"; until {instant(pool['trial_until'])} sleep is only told"
    return Text(line, style="yellow" if missing else "green")


def _change_line(change: Mapping[str, Any]) -> Iterator[Text]:
    if change["status"] in ("running", "returning"):
        how = "paused" if change["paused"] else change["status"]
        step = f"step {change['at']} of {len(change['steps'])}"
        yield Text(f"rolling change {how}, {step}: {change['waiting']}", style="yellow")


def _level_lines(policy: Mapping[str, Any] | None) -> Iterator[Text]:
    yield _level_line(policy)
    yield from map(_level_line, (policy or {}).get("pools") or ())


def _level_line(policy: Mapping[str, Any] | None) -> Text:
    if not policy:
        return Text(f"level {DASH}")
    of = f" of {policy['pool']}" if "pool" in policy else ""
    text = f"level {policy['level']} ({policy['level_name']}){of}"
    if policy["level"]:
        text += (
            f" since {instant(policy.get('since'))}: {policy.get('reason') or 'no reason given'}"
        )
    return Text(text, style="yellow" if policy["level"] else "green")


def _cost_line(cost: Mapping[str, Any]) -> Text:
    currency = str(cost.get("currency") or "")
    per_hour = money(cost.get("per_hour"), currency)
    today, total = (money(cost.get(key), currency) for key in ("spent_today", "spent_total"))
    return Text(f"cost {per_hour} an hour; today {today}, in all {total}")


def fleet_table(fleet: list[dict[str, Any]]) -> RenderableType:
    """Return the workers."""
    if not fleet:
        return Text("No workers.")
    table = _table("worker", "phase", "model", "running", "waiting", "KV use", "miss", "tok/s", "")
    for worker in fleet:
        load = worker.get("load") or {}
        signals = worker.get("signals") or {}
        table.add_row(
            worker["id"],
            _phase(worker),
            (worker.get("models") or [DASH])[0],
            number(load.get("running")),
            number(load.get("waiting")),
            percent(load.get("kv_usage_ratio")),
            percent(signals.get("ds4_cache_miss_ratio")),
            number(_generated_rate(signals)),
            Text("; ".join(_notes(worker))),
        )
    return table


def _phase(worker: Mapping[str, Any]) -> Text:
    text = Text(worker["phase"], style=_PHASE_STYLES.get(worker["phase"], "yellow"))
    blind = _blindness(worker)
    return text.append(f", {blind['state']}", style="yellow") if blind else text


def _notes(worker: Mapping[str, Any]) -> Iterator[str]:
    if blind := _blindness(worker):
        yield f"since {instant(blind.get('since'))}: {blind.get('why') or 'no reason given'}"
    still = worker.get("standstill_seconds") or 0
    if still >= _SHOWN_STANDSTILL_SECONDS:
        yield f"its requests have stood still for {still:.0f} s"
    wanted = worker.get("wanted") or {}
    if wanted.get("wish") not in (None, "ready", worker["phase"]):
        yield f"wanted {wanted['wish']}"
    if steps := worker.get("memory_steps"):
        yield f"started with less for want of memory: {', '.join(steps)}"
    if worker["phase"] in _COMING and worker.get("startup_seconds"):
        yield f"it usually takes {worker['startup_seconds']:.0f} s to come up"
    if worker.get("reason"):
        yield str(worker["reason"])


def _blindness(worker: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return what is told of a worker whose metrics cannot be read; None if they can."""
    found: Mapping[str, Any] | None = worker.get("monitoring")
    return found if found and found.get("state") != "monitored" else None


def _generated_rate(signals: Mapping[str, Any]) -> Any:
    return signals.get('ds4_tokens_per_second{kind="generated"}')


def _worst_first(alert: Mapping[str, Any]) -> tuple[int, int]:
    """Sort by phase, then severity; the watchdog (severity none) is there to be last."""
    phase, severity = str(alert.get("phase")), str(alert.get("severity"))
    if severity == "none":
        return len(_PHASES), 0
    return _place(phase, _PHASES), _place(severity, _SEVERITIES)


def _place(word: str, order: tuple[str, ...]) -> int:
    return order.index(word) if word in order else len(order) - 1


def _alert_table(alerts: list[dict[str, Any]]) -> Table:
    table = _table("alert", "severity", "phase", "value", "since", "")
    for alert in alerts:
        style = _SEVERITY_STYLES.get(alert.get("severity", ""), "")
        phase = f"{alert['phase']} (held: no data)" if alert.get("held") else alert["phase"]
        table.add_row(
            Text(alert["name"]),
            alert.get("severity") or DASH,
            Text(phase, style=style if alert["phase"] == "firing" else ""),
            number(alert.get("value")),
            instant(alert.get("since")),
            Text(alert.get("summary") or ""),
        )
    return table


def _gateway_table(gateways: list[dict[str, Any]]) -> RenderableType:
    if not gateways:
        return Text("No gateway is connected.", style="yellow")
    table = _table("gateway", "connected", "in flight", "policy", "pid")
    for gateway in gateways:
        is_up = bool(gateway.get("connected"))
        table.add_row(
            gateway["name"],
            Text("yes" if is_up else "no", style="green" if is_up else "bold red"),
            number(gateway.get("inflight")),
            number(gateway.get("policy_version")),
            str(gateway.get("pid") or DASH),
        )
    return table


def _signal_table(signals: Mapping[str, Any]) -> Table:
    table = _table("signal", "value")
    for name in sorted(signals):
        table.add_row(Text(name), signal(name, signals[name]))
    return table


def _job_table(jobs: list[dict[str, Any]]) -> Table:
    table = _table("job", "last run", "took", "result")
    for job in jobs:
        took = job.get("took_seconds")
        is_running = (job.get("last_finished_at") or 0) < (job.get("last_started_at") or 0)
        result = Text(job.get("result") or DASH, style="bold red" if job.get("ok") is False else "")
        table.add_row(
            job["name"],
            instant(job.get("last_started_at")),
            f"{took:.1f} s" if isinstance(took, int | float) and not is_running else DASH,
            Text("running") if is_running else result,
        )
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def audit_line(row: Mapping[str, Any]) -> str:
    """Return one line of the story: time, kind, who, target, summary."""
    target = str(row.get("target") or row.get("subject") or DASH)
    who = str(row.get("who") or DASH)
    kind = str(row.get("kind") or DASH)
    text = f"{instant(row.get('at'))}  {kind:<10} {who:<10} {target:<18} {row.get('summary', '')}"
    return printable(text)


def printable(text: str) -> str:
    """Return a text without what would move the cursor of who reads it."""
    return "".join(sign if sign.isprintable() else " " for sign in text)
