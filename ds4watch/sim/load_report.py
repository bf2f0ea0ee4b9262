"""How a load run shows itself: a bar or plain lines while it runs, a summary at its end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from ds4watch.model.ports import Clock
from ds4watch.sim.load import LoadRun, LoadSettings, LoadSummary

_LINE_EVERY_SECONDS = 5.0


def run_load(settings: LoadSettings, clock: Clock, console: Console, *, as_json: bool) -> int:
    """Run, show, and return the exit code: 1 if nothing was answered well.

    Raises ConfigError for settings out of bounds, UpstreamError if nobody listens.
    """
    with _progress(settings, clock, console, quiet=as_json) as reporter:
        run = LoadRun(settings, clock, reporter)
        summary = asyncio.run(run.run())
    if as_json:
        console.print_json(json.dumps(summary.as_json()))
    else:
        for line in summary_lines(summary):
            console.print(line, highlight=False)
    return 0 if summary.ok or summary.shed else 1


class _Reporter:
    """Called after each answer; shows the state, plain lines no more often than each 5 s."""

    def __init__(self, clock: Clock, console: Console | None, bar: Progress | None) -> None:
        self._clock = clock
        self._console = console
        self._bar = bar
        self._started_at = clock.monotonic()
        self._line_at = self._started_at + _LINE_EVERY_SECONDS

    def __call__(self, summary: LoadSummary) -> None:
        now = self._clock.monotonic()
        elapsed = now - self._started_at
        if self._bar is not None:
            task = self._bar.task_ids[0]
            self._bar.update(task, completed=elapsed, description=_state(summary))
        elif self._console is not None and now >= self._line_at:
            self._line_at = now + _LINE_EVERY_SECONDS
            self._console.print(f"{elapsed:5.0f} s  {_state(summary)}", highlight=False)


@contextmanager
def _progress(
    settings: LoadSettings, clock: Clock, console: Console, *, quiet: bool
) -> Iterator[_Reporter]:
    if quiet:
        yield _Reporter(clock, None, None)
        return
    if not console.is_terminal:
        yield _Reporter(clock, console, None)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        bar.add_task("starting", total=settings.seconds)
        yield _Reporter(clock, console, bar)


def _state(summary: LoadSummary) -> str:
    errors = sum(summary.errors.values()) - summary.shed
    return (
        f"{summary.requests} sent, {summary.ok} ok, {summary.shed} shed, {errors} errors, "
        f"{summary.degraded} degraded"
    )


def summary_lines(summary: LoadSummary) -> list[str]:
    """Return the summary as text."""
    errors = ", ".join(f"{count} with {status}" for status, count in sorted(summary.errors.items()))
    data = summary.as_json()
    per_second, tokens_per_second = data["requests_per_second"], data["tokens_per_second"]
    p50, p95 = (_seconds(summary.percentile(percent)) for percent in (50, 95))
    sent = f"{summary.requests} in {summary.elapsed_seconds:.1f} s"
    rows = {
        "requests": f"{sent} ({per_second} a second)",
        "ok": str(summary.ok),
        "errors": errors or "none",
        "shed": str(summary.shed),
        "degraded": str(summary.degraded),
        "latency": f"p50 {p50}, p95 {p95}",
        "prompt": f"{summary.prompt_tokens} tokens, {summary.cached_tokens} of them cached",
        "generated": f"{summary.completion_tokens} tokens ({tokens_per_second} a second)",
    }
    return [f"{name:<12}{value}" for name, value in rows.items()]


def _seconds(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3f} s"
