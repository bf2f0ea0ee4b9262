"""Answers scored, some of them: one of so many, a few a second, and the beginning of each."""

from __future__ import annotations

from ds4watch.model.ports import Clock
from ds4watch.shaping.text_score import MAX_BYTES, score_of_answer

_PAUSE_SECONDS = 0.2
"""A score takes half a millisecond; so it takes a quarter of a percent of a core at most."""
_MAX_WORKERS = 4096


class AnswerScores:
    """Sums of scores by worker since the start of this process."""

    def __init__(self, clock: Clock, *, every: int) -> None:
        """Score one of `every` answers; 0: none."""
        self._clock = clock
        self._every = every
        self._waited = 0
        self._next_at = 0.0
        self.sums: dict[str, tuple[int, float]] = {}
        """Answers scored and the sum of their scores, by worker."""

    def tap(self) -> bytearray | None:
        """Return where the bytes of an answer that is to be scored go, None for the others."""
        if not self._every:
            return None
        self._waited += 1
        if self._waited < self._every:
            return None
        now = self._clock.monotonic()
        if now < self._next_at:
            return None
        self._waited = 0
        self._next_at = now + _PAUSE_SECONDS
        return bytearray()

    def note(self, worker: str, answer: bytes | bytearray, *, stream: bool) -> None:
        """Score an answer of a worker, as it was sent."""
        if len(answer) > MAX_BYTES and not stream:
            return
        score = score_of_answer(bytes(answer[:MAX_BYTES]), stream=stream)
        if score is None or (worker not in self.sums and len(self.sums) >= _MAX_WORKERS):
            return
        count, total = self.sums.get(worker, (0, 0.0))
        self.sums[worker] = count + 1, total + score.value
