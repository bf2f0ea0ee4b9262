"""The status as tables. A dash: not reported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ds4watch.cli.alert_rows import AlertRow, active_rows, alert_line, over_line
from ds4watch.cli.display import DASH, NARROW, instant, money, number, plain_table, signal
from ds4watch.cli.fleet_rows import fleet_table


def status_parts(status: Mapping[str, Any], width: int) -> Iterator[RenderableType]:
    """Yield the whole status for a terminal of `width` columns."""
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
    yield fleet_table(status.get("fleet") or [], width)
    yield from _alert_parts(status.get("alerts") or (), width)
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
            "workers are only told (provisioning.dry_run and care.dry_run may say otherwise); "
            "what ds4watch started is kept alive",
            style="yellow",
        )
    for it in steering.get("actions") or ():
        what = f"{it['kind']} on {it['target']}: {it['reason']}"
        if it["status"] != "waiting":
            yield Text(f"{it['status']}: {what} (id {it['id']})", style="yellow")
            continue
        who = ", ".join(it.get("approvers") or ()) or "*"
        until = f" until {instant(it['expires_at'])}" if it.get("expires_at") else ""
        yield Text(
            f"waits for approval: {what}; {'anybody' if who == '*' else who} may say yes{until}: "
            f"ds4watch approve {it['id']}",
            style="yellow",
        )


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


def _alert_parts(alerts: Sequence[Mapping[str, Any]], width: int) -> Iterator[RenderableType]:
    rows = active_rows(alerts)
    if all(row.alert.get("severity") == "none" for row in rows):
        yield Text("No alert is pending or firing.", style="green")
    if rows and width < NARROW:
        yield from (Text(alert_line(row), row.style) for row in rows)
    elif rows:
        yield _alert_table(rows)
    if over := over_line(alerts):
        yield Text(over)


def _alert_table(rows: list[AlertRow]) -> Table:
    table = plain_table("alert", "severity", "phase", "value", "since", "")
    for row in rows:
        alert = row.alert
        phase = f"{alert['phase']} (held: no data)" if alert.get("held") else alert["phase"]
        table.add_row(
            Text(alert["name"]),
            alert.get("severity") or DASH,
            Text(phase, style=row.style),
            number(alert.get("value")),
            instant(alert.get("since")),
            Text(row.summary),
        )
    return table


def _gateway_table(gateways: list[dict[str, Any]]) -> RenderableType:
    if not gateways:
        return Text("No gateway is connected.", style="yellow")
    table = plain_table("gateway", "connected", "in flight", "policy", "pid")
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
    table = plain_table("signal", "value")
    for name in sorted(signals):
        table.add_row(Text(name), signal(name, signals[name]))
    return table


def _job_table(jobs: list[dict[str, Any]]) -> Table:
    table = plain_table("job", "last run", "took", "result")
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
