"""A rolling change as it is kept: from values to a JSON document and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ds4watch.config.profile import Profile
from ds4watch.fleet.recipe import WorkerSpec
from ds4watch.fleet.rolling import Change, Stage, Status
from ds4watch.fleet.rolling_plan import Kind, Move, Slot
from ds4watch.fleet.rolling_watch import Baseline
from ds4watch.history.asked_values import RollingChange


@dataclass(frozen=True, slots=True)
class Kept:
    """A change with what its slots stand for. own: digest of the daemon's own file's fleet."""

    number: int
    change: Change
    profiles: Mapping[tuple[str, str], Profile]
    own: str
    who: str
    why: str
    externals: tuple[WorkerSpec, ...] = field(default=())

    def spec(self, slot: Slot) -> WorkerSpec:
        """Return what a slot stands for."""
        return WorkerSpec(slot.worker, self.profiles[slot.profile, slot.revision])

    def specs(self, slots: Iterable[Slot]) -> tuple[WorkerSpec, ...]:
        """Return what slots stand for."""
        return tuple(self.spec(slot) for slot in slots)


def profiles_of(
    pairs: Iterable[tuple[Slot, WorkerSpec]],
) -> dict[tuple[str, str], Profile]:
    """Return the profile of each revision; of several with the same, the last."""
    return {(slot.profile, slot.revision): spec.profile for slot, spec in pairs}


def to_row(kept: Kept, at: float) -> RollingChange:
    """Return what is stored."""
    change = kept.change
    document = asdict(change) | {
        name: sorted(getattr(change, name)) for name in ("undone", "stands_in", "trusted")
    }
    return RollingChange(
        number=kept.number,
        plan=change.id,
        status=change.status.value,
        who=kept.who,
        why=kept.why,
        begun_at=change.begun_at,
        updated_at=at,
        own=kept.own,
        document={
            "change": document,
            "profiles": [
                {"revision": revision, "profile": profile.model_dump(mode="json")}
                for (_, revision), profile in kept.profiles.items()
            ],
        },
    )


def from_row(row: RollingChange) -> Kept:
    """Read what `to_row` wrote. Raises KeyError, TypeError or ValueError on anything else."""
    profiles = {
        (it["profile"]["name"], it["revision"]): Profile.model_validate_json(_json(it["profile"]))
        for it in row.document["profiles"]
    }
    change = _change(row.document["change"])
    return Kept(row.number, change, profiles, row.own, row.who, row.why)


def _json(value: Any) -> str:
    return json.dumps(value)


def _change(data: Mapping[str, Any]) -> Change:
    found = dict(data)
    found |= {name: frozenset(data[name]) for name in ("undone", "stands_in", "trusted")}
    found["before"], found["after"] = _slots(data["before"]), _slots(data["after"])
    found["moves"] = tuple(
        Move(Kind(it["kind"]), it["worker"], it["profile"], _slot(it["old"]), _slot(it["new"]))
        for it in data["moves"]
    )
    found["status"], found["stage"] = Status(data["status"]), Stage(data["stage"])
    found["baselines"] = {name: Baseline(**it) for name, it in data["baselines"].items()}
    return Change(**found)


def _slots(rows: Sequence[Mapping[str, Any]]) -> tuple[Slot, ...]:
    return tuple(slot for row in rows if (slot := _slot(row)) is not None)


def _slot(row: Mapping[str, Any] | None) -> Slot | None:
    if row is None:
        return None
    return Slot(row["worker"], row["profile"], row["revision"], tuple(row["models"]))
