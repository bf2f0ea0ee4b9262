"""What the admin API needs from the rest; bound by the daemon."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ds4watch.history.asked_values import GivenAnswer
from ds4watch.model.question import Question
from ds4watch.web.commands_port import AdminCommands
from ds4watch.web.hooks import Hooks


class AdminSource(Protocol):
    """Where answers come from. Everything returned is JSON-ready."""

    def status(self) -> dict[str, Any]:
        """Return the state of everything, as in docs/admin-api.md; must not block."""
        ...

    async def audit(
        self, *, limit: int, before: int | None, kind: str | None
    ) -> list[dict[str, Any]]:
        """Return audit rows, newest first: those with an `id` under `before`, of one `kind`.

        Each has `id`, `at`, `kind`, `who`, `target` and `summary`, and may have more.
        """
        ...

    async def cost(self, *, start_at: float, end_at: float) -> dict[str, Any]:
        """Return what was spent in the hours that begin in [start_at, end_at), in nanos."""
        ...

    def cost_why(self, *, at: float) -> dict[str, Any]:
        """Return why an instant's hour costs more or less than usual; must not block."""
        ...

    async def requests(self, *, by: str, hours: int) -> dict[str, Any]:
        """Return `by`, `since_at`, `currency` and `requests`: the sums of so many hours.

        by: one of web.bodies.SumBy. The running hour is the last of them.
        """
        ...

    def fleet_change(self) -> dict[str, Any] | None:
        """Return the rolling change under way, or the last; must not block."""
        ...

    def forecast(self, hours: float) -> dict[str, Any]:
        """Return the load of the next hours by profile, and the workers it asks for."""
        ...

    def explain(self, name: str) -> list[dict[str, Any]]:
        """Return what the rules of a name see now, empty if there are none; must not block."""
        ...

    def rules(self) -> list[dict[str, Any]]:
        """Return each alert with its value, and its distance to each tier; must not block."""
        ...

    def explain_policy(self, labels: Mapping[str, str]) -> dict[str, Any]:
        """Return what alerts with these labels lead to now, guard by guard; must not block."""
        ...

    def rule_names(self) -> list[str]:
        """Return the names of all rules."""
        ...


class AdminDesk(Protocol):
    """Silences, actions, commands, records: JSON-ready. All of it may raise StoreError."""

    async def silence(
        self,
        *,
        matchers: Sequence[str],
        starts_at: float | None,
        until: float,
        who: str,
        why: str,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Mute the messages of alerts for a while; return the silence, and in `told` of whom.

        Raises RefusedError.
        """
        ...

    async def unsilence(self, silence: str, *, who: str, dry_run: bool = False) -> str | None:
        """End a silence; return what follows, None if none is in force or to come by this id."""
        ...

    async def listed_silences(self, *, over: bool) -> list[dict[str, Any]]:
        """Return the silences in force and to come, with `over` also those that ended."""
        ...

    async def one_silence(self, silence: str) -> dict[str, Any] | None:
        """Return a silence by its id, one that is over too."""
        ...

    async def ask(self, *, kind: str, body: Mapping[str, Any], who: str) -> dict[str, Any]:
        """Store what a person asks for and wake who carries it out; return the command."""
        ...

    async def reload(self, *, who: str, why: str) -> None:
        """Have settings, rules and policy read anew, once their check finds no fault."""
        ...

    async def command(self, number: int) -> dict[str, Any] | None:
        """Return a command by its id."""
        ...

    async def actions(
        self,
        *,
        limit: int,
        before: tuple[float, str] | None,
        status: str | None,
        kind: str | None,
        target: str | None,
    ) -> list[dict[str, Any]]:
        """Return actions, newest first: those before (planned_at, id)."""
        ...

    async def action(self, action: str) -> dict[str, Any] | None:
        """Return an action by its id."""
        ...

    async def quality_runs(
        self, *, limit: int, before: int | None, profile: str | None
    ) -> list[dict[str, Any]]:
        """Return quality runs, newest first: those with an id under `before`."""
        ...

    def config(self) -> dict[str, Any]:
        """Return the settings in force, without secrets."""
        ...

    def profiles(self) -> list[dict[str, Any]]:
        """Return the profiles of the workers that we run, without secrets."""
        ...

    def export(
        self,
        *,
        form: str,
        start_at: float,
        end_at: float,
        targets: Sequence[str],
        names: Sequence[str],
    ) -> AsyncIterator[bytes]:
        """Yield stored samples as text."""
        ...

    async def events_after(self, after: int, limit: int) -> list[dict[str, Any]]:
        """Return audit rows above an id, oldest first."""
        ...

    async def newest_event(self) -> int:
        """Return the id of the newest audit row; 0 if there is none."""
        ...

    async def given_answer(self, who: str, key: str) -> GivenAnswer | None:
        """Return what was answered to this key of somebody's."""
        ...

    async def keep_answer(self, given: GivenAnswer) -> None:
        """Keep an answer for who asks again."""
        ...


class QuerySource(Protocol):
    """Where the history answers."""

    async def ask_body(self, question: Question) -> bytes:
        """Return the body of an answer in Prometheus's shape.

        Raises BadQueryError, QueryTimeoutError, QueryError or StoreError.
        """
        ...


class PrometheusSource(Protocol):
    """What of Prometheus's answers is in memory: JSON-ready, in its shapes."""

    def rule_groups(self) -> list[dict[str, Any]]:
        """Return all groups with their rules, and these with their alerts."""
        ...

    def alerts(self) -> list[dict[str, Any]]:
        """Return the alerts that are pending or firing."""
        ...

    def targets(self) -> list[dict[str, Any]]:
        """Return everything that is scraped, with how its last scrape went."""
        ...

    def metadata(self) -> Mapping[str, list[dict[str, str]]]:
        """Return type and help of metric families, by name."""
        ...


class QualityPort(Protocol):
    """Golden questions: runs, and the table that comes of them. JSON-ready."""

    async def runs(self) -> list[dict[str, Any]]:
        """Return the newest runs, newest first, with how far they are."""
        ...

    async def table(
        self,
        profiles: Sequence[str],
        *,
        reference: str | None,
        loss_points: float,
        bound_points: float,
    ) -> dict[str, Any]:
        """Return profiles (all, if none is named) side by side, and the cheapest that will do."""
        ...

    async def begin(
        self,
        profile: str,
        *,
        reference: str,
        questions: int,
        budget: int | None,
        who: str,
        why: str,
    ) -> int:
        """Begin a run, or let a stopped one go on; return its id.

        budget: in 1e-9 of the currency. Raises ConfigError or RefusedError.
        """
        ...

    async def stop(self, who: str) -> int | None:
        """Stop the run under way; return its id, None if there is none."""
        ...

    async def accept(self, profile: str, *, who: str, why: str) -> bool:
        """Forget what a profile gave at its starts before; False if nothing is kept of it."""
        ...


@dataclass(frozen=True, slots=True)
class Ports:
    """All that the admin API needs from the rest."""

    source: AdminSource
    commands: AdminCommands
    facts: PrometheusSource
    queries: QuerySource
    desk: AdminDesk
    quality: QualityPort
    hooks: Hooks | None = None
