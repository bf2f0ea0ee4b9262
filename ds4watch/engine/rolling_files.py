"""The fleet as the files say that it is to be, read anew, and what its workers would run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ds4watch.config.files import LoadedSettings, find_settings, load_profiles, wanted_workers
from ds4watch.config.profile import Engine, Profile
from ds4watch.config.settings import BackendKind
from ds4watch.fleet.command import revision
from ds4watch.fleet.plan import check_keys, check_specs, find_vllm, wanted_specs
from ds4watch.fleet.recipe import WorkerSpec
from ds4watch.fleet.rolling_plan import Slot
from ds4watch.model.alert import fingerprint_of
from ds4watch.model.series import labels_of


@dataclass(frozen=True, slots=True)
class FleetFiles:
    """Where the daemon's own settings came from, and the place that its workers run in."""

    loaded: LoadedSettings
    sim: bool
    state_dir: Path
    vllm_python: Path
    has_gpu: bool

    def read(self, file: Path | None = None) -> tuple[WorkerSpec, ...]:
        """Return the fleet of a settings file; of the daemon's own, as it is now, without one.

        Raises ConfigError with all findings. Blocks for as long as it takes to read.
        """
        path = file or self.loaded.file
        loaded = find_settings(path, os.environ) if path else self.loaded
        fleet = loaded.settings.fleet
        workers = wanted_workers(loaded.settings, sim=self.sim)
        profiles = load_profiles(loaded, tuple(worker.profile for worker in workers))
        python = find_vllm(fleet, loaded.base, os.environ)
        here = {name: self._placed(profile, python) for name, profile in profiles.items()}
        specs = wanted_specs(workers, here, fleet, loaded.base)
        check_specs(specs, python, loaded.named)
        on_ray = fleet.backend is BackendKind.RAY
        check_keys(specs, os.environ, loaded.named, on_ray=on_ray)
        return specs

    def slot(self, spec: WorkerSpec) -> Slot:
        """Return what a worker runs, in short."""
        return Slot(spec.id, spec.profile.name, self.revision(spec), spec.profile.served_names)

    def revision(self, spec: WorkerSpec) -> str:
        """Return a digest of what a worker runs."""
        return revision(
            spec.profile, python=self.vllm_python, state_dir=self.state_dir, has_gpu=self.has_gpu
        )

    def _placed(self, profile: Profile, python: Path) -> Profile:
        """Return the profile with its interpreter, if that is not the one the daemon began with."""
        is_other = profile.engine is Engine.VLLM and python != self.vllm_python
        if profile.vllm_python is not None or not is_other:
            return profile
        return profile.model_copy(update={"vllm_python": str(python)})


def own_workers(specs: Sequence[WorkerSpec]) -> tuple[WorkerSpec, ...]:
    """Return the workers that we run."""
    return tuple(spec for spec in specs if spec.url is None)


def digest_of(slots: Sequence[Slot]) -> str:
    """Return a digest of a fleet: the same for the same workers that run the same."""
    return fingerprint_of(labels_of({it.worker: f"{it.profile} {it.revision}" for it in slots}))
