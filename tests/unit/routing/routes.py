"""Fleets written in a line, and choices among them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ds4watch.config.routing import RoutingSettings
from ds4watch.model.worker import FleetSnapshot, WorkerLoad, WorkerPhase, WorkerView
from ds4watch.routing.choice import Ask, NoRoute, RouteDecision, View, choose
from ds4watch.routing.pools import Routes, routes_of

NOW = 10_000.0
SETTINGS = RoutingSettings()


def worker(
    name: str,
    *,
    models: tuple[str, ...] = ("m",),
    phase: WorkerPhase = WorkerPhase.READY,
    kv: float | None = 0.0,
    **more: Any,
) -> WorkerView:
    view = WorkerView(name, "p", models, "http://127.0.0.1:1", phase, since=0.0)
    return replace(view, load=WorkerLoad(kv_usage_ratio=kv), **more)


def routes(*workers: WorkerView, excluded: Iterable[str] = (), **more: Any) -> Routes:
    settings = more.pop("settings", SETTINGS)
    fleet = FleetSnapshot(NOW, workers)
    options = {"now": NOW} | more
    return routes_of(fleet, settings, excluded=frozenset(excluded), **options)


def drawing(*draws: float) -> Callable[[], float]:
    return iter(draws).__next__


def view_of(inflight: Mapping[str, int] | None = None, **more: Any) -> View:
    longs, dead = more.pop("longs", {}), more.pop("dead", {})
    return View(inflight=inflight or {}, longs=longs, dead=dead, **more)


def choice(
    among: Routes,
    ask: Ask | None = None,
    *draws: float,
    inflight: Mapping[str, int] | None = None,
    **more: Any,
) -> RouteDecision | NoRoute:
    return choose(
        among, ask or Ask("m"), view_of(inflight, **more), drawing(*(draws or (0.0, 0.0)))
    )


def chosen(*given: Any, **more: Any) -> str:
    """Return the id of the worker chosen; there has to be one."""
    route = choice(*given, **more)
    assert isinstance(route, RouteDecision), route
    return route.worker.id
