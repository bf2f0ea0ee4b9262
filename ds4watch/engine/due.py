"""When a group of rules is due, in rounds that come about as often."""

from __future__ import annotations

from dataclasses import dataclass

from ds4watch.model.ports import UnixSeconds


@dataclass(slots=True)
class Due:
    """What comes every `interval_seconds`. at: when it is due next, taken_at: when it last was."""

    interval_seconds: float
    at: UnixSeconds = 0.0
    taken_at: UnixSeconds | None = None
    _last_at: UnixSeconds = 0.0

    def is_now(self, now: UnixSeconds) -> bool:
        """Say whether it is due in the round of `now`; if so, note when next.

        Rounds come at the end of waves, now sooner, now later. It is due in the one nearest to its
        time, and that is counted from the time before: else one as frequent as waves misses some.
        """
        apart_seconds, self._last_at = max(0.0, now - self._last_at), now
        ahead = self.at - now
        was_set_back = ahead > 1.5 * self.interval_seconds
        if not was_set_back and ahead > min(apart_seconds, self.interval_seconds) / 2:
            return False
        was_missed = was_set_back or ahead + self.interval_seconds <= 0
        self.taken_at = now
        self.at = (now if was_missed else self.at) + self.interval_seconds
        return True
