"""What became of questions that were asked in Slack (notify.slack_questions.Decisions)."""

from __future__ import annotations

from ds4watch.history.rows import ActionRecord
from ds4watch.history.state import StateStore
from ds4watch.model.action import ActionStatus
from ds4watch.model.ports import Clock
from ds4watch.notify.slack_questions import Decision


class QuestionAnswers:
    """Reads them from the actions, whoever decided and by whatever way."""

    def __init__(self, state: StateStore, clock: Clock) -> None:
        self._state = state
        self._clock = clock

    async def decision(self, action: str) -> Decision | None:
        """Return what became of a question; None: it waits still. Raises StoreError."""
        found = await self._state.desk.action(action)
        if found is None:
            return Decision("there is no such action any more", "", self._clock.now())
        if found.status is ActionStatus.WAITING:
            return None
        return _decision(found, self._clock.now())


def _decision(found: ActionRecord, now: float) -> Decision:
    what, who = f"{found.plan.kind} on {found.plan.target}", found.decided_by or ""
    at = found.finished_at or now
    if found.status is ActionStatus.REFUSED:
        return Decision(f"{what} is refused", who, at, found.detail)
    if found.status is ActionStatus.EXPIRED:
        return Decision(f"{what} is not done", who, at, found.detail)
    return Decision(f"{what} is approved", who, found.started_at or now)
