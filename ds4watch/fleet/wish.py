"""What each worker is to be. Pure: whoever decides gives wishes, the merged ones are carried out.

A restart and a pardon are asked for by an instant, not by a count: what is older than it is meant.
So wishes merge, are repeated without harm, and hold over the death of a daemon.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any

from ds4watch.model.ports import UnixSeconds


class Wish(StrEnum):
    """What a worker is to be.

    DRAINED: loaded, but not routed to. ASLEEP without a sleep mode means kept loaded, as READY.
    """

    READY = "ready"
    ASLEEP = "asleep"
    DRAINED = "drained"
    STOPPED = "stopped"


class By(IntEnum):
    """Who wishes beyond the settings; the higher goes before the lower."""

    WARM_POOL = 1
    PROVISIONING = 2
    CARE = 3
    POLICY = 4
    ROLLING = 5
    PERSON = 6


@dataclass(frozen=True, slots=True)
class Wanted:
    """What one of them wishes for a worker.

    wish: None leaves it to the others.
    restart_at: a process started before it is drained, stopped and started anew.
    pardon_at: a quarantine from before it is lifted, failures from before it are forgotten.
    share: of the requests for its models it gets that many at most; 1 is no limit.
    """

    wish: Wish | None = None
    restart_at: UnixSeconds = 0.0
    pardon_at: UnixSeconds = 0.0
    why: str = ""
    share: float = 1.0

    def as_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict."""
        return {
            "wish": self.wish.value if self.wish is not None else None,
            "restart_at": self.restart_at or None,
            "why": self.why,
        }


AS_SET = Wanted(Wish.READY)
"""What holds for a worker of which nobody says anything: it is in the settings, so it runs."""


def merged(wishes: Mapping[By, Mapping[str, Wanted]], worker_id: str) -> Wanted:
    """Return what a worker is to be when all are heard: the highest decides, each may restart."""
    heard = [
        wishes[by][worker_id] for by in sorted(wishes, reverse=True) if worker_id in wishes[by]
    ]
    decides = next((it for it in heard if it.wish is not None), AS_SET)
    restart = max(heard, key=lambda it: it.restart_at, default=AS_SET)
    is_told_by_restart = decides.wish is Wish.READY and restart.restart_at > 0 and not decides.why
    return Wanted(
        wish=decides.wish,
        restart_at=restart.restart_at,
        pardon_at=_last(it.pardon_at for it in heard),
        why=restart.why if is_told_by_restart else decides.why,
        share=min((it.share for it in heard), default=1.0),
    )


def taken(wishes: Mapping[By, Mapping[str, Wanted]], above: By) -> frozenset[str]:
    """Return the workers of which somebody above says what they are to be."""
    heard = (wanted for by, wanted in wishes.items() if by > above)
    return frozenset(name for wanted in heard for name, it in wanted.items() if it.wish is not None)


def _last(instants: Iterable[UnixSeconds]) -> UnixSeconds:
    return max(instants, default=0.0)
