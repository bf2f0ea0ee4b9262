"""The ports of silences, actions, quality and hooks, in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from ds4watch.alerting.external import read_webhook
from ds4watch.alerting.silences import read_matchers
from ds4watch.history.asked_values import GivenAnswer
from ds4watch.model.errors import ConfigError, EdgeReason, Located, RefusedError, StoreError
from tests.edge.web.fake_answers import AT, AUDIT

ACTION: dict[str, Any] = {
    "id": "set_level:default:7",
    "kind": "set_level",
    "target": "default",
    "status": "applied",
    "cause": "00000000000000aa",
    "reason": "QueueDepthHigh is firing",
    "planned_at": AT - 30,
    "started_at": AT - 30,
    "finished_at": AT - 29.9,
    "took_seconds": 0.1,
    "detail": "level 2 obeyed",
    "dry_run": False,
    "undoes": None,
    "parameters": {"level": 2},
    "before": {"level": 1},
    "after": {"level": 2},
}
RUN: dict[str, Any] = {
    "at": AT - 100,
    "profile": "sim-quantized",
    "reference": "sim-full",
    "metric": "kl",
    "value": 0.02,
    "prompts": 8,
    "tokens": 512,
    "took_seconds": 3.0,
    "error": None,
}


class FakeDesk:
    """The port of silences, actions, commands and records, in memory."""

    def __init__(self) -> None:
        self.placed: dict[str, dict[str, Any]] = {}
        self.asked: list[dict[str, Any]] = []
        self.stored_actions = [
            ACTION | {"id": f"set_level:default:{it}", "planned_at": AT + it} for it in range(7)
        ]
        self.runs = [RUN | {"id": it} for it in range(1, 6)]
        self.answers: dict[tuple[str, str], GivenAnswer] = {}
        self.events: list[dict[str, Any]] = []
        self.exported = [b"a 1 2\n", b"# EOF\n"]
        self.away = False

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
        self._look()
        begins = AT if starts_at is None else max(AT, starts_at)
        if until <= begins:
            message = "until: the silence would end before it begins"
            raise RefusedError(message)
        found = {
            "id": f"{len(self.placed):08x}-0000-4000-8000-000000000000",
            "matchers": [str(it) for it in read_matchers(matchers)],
            "starts_at": begins,
            "ends_at": until,
            "who": who,
            "why": why,
            "placed_at": AT,
            "ended_by": None,
        }
        if not dry_run:
            self.placed[str(found["id"])] = found
        return found | {"told": "it mutes nothing that fires now"}

    async def unsilence(self, silence: str, *, who: str, dry_run: bool = False) -> str | None:
        found = self.placed.get(silence)
        if found is None or found["ends_at"] <= AT:
            return None
        if not dry_run:
            self.placed[silence] = found | {"ends_at": AT, "ended_by": who}
        return "nothing that it mutes fires now"

    async def listed_silences(self, *, over: bool) -> list[dict[str, Any]]:
        self._look()
        return [it for it in self.placed.values() if over or it["ends_at"] > AT]

    async def one_silence(self, silence: str) -> dict[str, Any] | None:
        return self.placed.get(silence)

    async def ask(self, *, kind: str, body: Mapping[str, Any], who: str) -> dict[str, Any]:
        command = {
            "id": len(self.asked) + 1,
            "at": AT,
            "kind": kind,
            "who": who,
            "body": dict(body),
            "status": "waiting",
            "told": "",
            "finished_at": None,
        }
        self.asked.append(command)
        return command

    async def reload(self, *, who: str, why: str) -> None:
        self.happen("command", f"{who} asks for a reload: {why}")

    async def command(self, number: int) -> dict[str, Any] | None:
        return self.asked[number - 1] if number <= len(self.asked) else None

    async def actions(
        self,
        *,
        limit: int,
        before: tuple[float, str] | None,
        status: str | None,
        kind: str | None,
        target: str | None,
    ) -> list[dict[str, Any]]:
        wanted = {"status": status, "kind": kind, "target": target}
        found = [
            it
            for it in reversed(self.stored_actions)
            if all(value in (None, it[key]) for key, value in wanted.items())
            and (before is None or (it["planned_at"], it["id"]) < before)
        ]
        return found[:limit]

    async def action(self, action: str) -> dict[str, Any] | None:
        return next((it for it in self.stored_actions if it["id"] == action), None)

    async def quality_runs(
        self, *, limit: int, before: int | None, profile: str | None
    ) -> list[dict[str, Any]]:
        found = [
            it
            for it in reversed(self.runs)
            if (before is None or it["id"] < before) and profile in (None, it["profile"])
        ]
        return found[:limit]

    def config(self) -> dict[str, Any]:
        return {"admin": {"port": 9464}}

    def profiles(self) -> list[dict[str, Any]]:
        return [{"name": "sim-full"}]

    async def export(
        self,
        *,
        form: str,
        start_at: float,
        end_at: float,
        targets: Sequence[str],
        names: Sequence[str],
    ) -> AsyncIterator[bytes]:
        del form, start_at, end_at, names
        if "none" in targets:
            message = "nothing is stored of none"
            raise StoreError(message, reason=EdgeReason.OTHER)
        for text in self.exported:
            yield text

    async def events_after(self, after: int, limit: int) -> list[dict[str, Any]]:
        self._look()
        return [it for it in self.events if it["id"] > after][:limit]

    async def newest_event(self) -> int:
        self._look()
        return max((it["id"] for it in self.events), default=0)

    async def given_answer(self, who: str, key: str) -> GivenAnswer | None:
        self._look()
        return self.answers.get((who, key))

    async def keep_answer(self, given: GivenAnswer) -> None:
        self.answers[given.who, given.key] = given

    def happen(self, kind: str, summary: str = "", **detail: Any) -> int:
        """Add a row to the audit and return its id."""
        number = len(self.events) + 1
        row = {"id": number, "kind": kind, "summary": summary, "detail": detail}
        self.events.append(AUDIT[0] | row)
        return number

    def _look(self) -> None:
        if self.away:
            message = "the database is away"
            raise StoreError(message, reason=EdgeReason.GONE)


class FakeQuality:
    """The port of golden questions, in memory."""

    def __init__(self) -> None:
        self.begun: list[dict[str, Any]] = []
        self.table_answer: dict[str, Any] = {}
        self.baselines = {"sim-full"}

    async def runs(self) -> list[dict[str, Any]]:
        return self.begun[::-1]

    async def table(
        self,
        profiles: Sequence[str],
        *,
        reference: str | None,
        loss_points: float,
        bound_points: float,
    ) -> dict[str, Any]:
        allowed = {"loss_points": loss_points, "bound_points": bound_points}
        asked = {"reference": reference, "allowed": allowed, "asked": list(profiles)}
        return {"currency": "EUR", "profiles": [], "advice": [], **asked, **self.table_answer}

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
        if profile == "unknown":
            message = "there is no profile unknown in the fleet; there are sim-full"
            raise RefusedError(message)
        if profile == "broken-set":
            raise ConfigError(Located("`prompt` must be a text", "mine.jsonl", 7))
        run = len(self.begun) + 1
        self.begun.append(
            {
                "id": run, "at": AT, "profile": profile, "reference": reference or None,
                "status": "running", "told": "", "who": who, "why": why,
                "questions": 2 * questions, "answered": 0, "right": {}, "asked": {},
                "spent_nanos": 0, "budget_nanos": budget, "ended_at": None,
            }
        )  # fmt: skip
        return run

    async def stop(self, who: str) -> int | None:
        running = [it for it in self.begun if it["status"] == "running"]
        for it in running:
            it.update(status="stopped", told=f"stopped by {who}")
        return running[0]["id"] if running else None

    async def accept(self, profile: str, *, who: str, why: str) -> bool:
        del who, why
        known = profile in self.baselines
        self.baselines.discard(profile)
        return known


class FakeHooks:
    """The port of those who call us, in memory."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    async def slack(self, headers: Mapping[str, str], body: bytes) -> bool:
        del body
        if self.error is not None:
            raise self.error
        return headers.get("x-slack-signature") == "v0=right"

    async def alertmanager(self, document: Any) -> dict[str, Any]:
        handed = read_webhook(document, AT)
        found = {"firing": len(handed.firing), "resolved": len(handed.over)}
        return found | {"refused": list(handed.faults), "known": len(handed.firing)}

    async def report(self, period: str, *, tell: bool) -> dict[str, Any]:
        return {"period": period, "told": tell}
