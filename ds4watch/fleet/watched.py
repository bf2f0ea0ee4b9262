"""What a daemon on standby has in place of workers and gateways of its own: it only watches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from ds4watch.fleet.board import BoardPublisher
from ds4watch.fleet.supervisor import Supervisor
from ds4watch.model.service_policy import Board, ServicePolicy
from ds4watch.model.worker import FleetSnapshot, WorkerPhase, WorkerView


class WatchedFleet(Supervisor):
    """Shows the workers of the daemon that leads; starts, asks and stops none."""

    _shown: tuple[WorkerView, ...] = ()

    def show(self, views: Sequence[WorkerView]) -> None:
        """Take over how the leader says that its workers stand."""
        self._shown = tuple(views)

    def views(self) -> tuple[WorkerView, ...]:
        """Return the leader's workers."""
        return self._shown

    def stopped(self) -> frozenset[str]:
        """Return the workers that are stopped; one that starts anew passes through it too."""
        return frozenset(it.id for it in self._shown if it.phase is WorkerPhase.ABSENT)

    def waiting_for(self) -> tuple[str, ...]:
        """Return nothing: what is awaited is the leader's affair."""
        return ()

    def log_path(self, worker_id: str) -> Path:
        """Return the name of a worker's log, which is where the leader is."""
        return Path(f"{worker_id}.log")


class SilentBoard(BoardPublisher):
    """A board that nobody reads: no file, no socket, no gateway."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    def show(self, policy: ServicePolicy) -> None:
        """Take over the policy that the leader has put in force."""
        self.board = Board(
            version=self.board.version,
            fleet=self.board.fleet,
            policy=policy,
            keys=self.board.keys,
        )

    def is_news(self, fleet: FleetSnapshot) -> bool:
        """Return False: nobody is told."""
        del fleet
        return False

    def _publish(self, board: Board) -> None:
        self.board = board
