"""The lints of profiles, with what this machine tells of models and GPUs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ds4watch.config.files import LoadedSettings, profile_files, read_profiles, wanted_workers
from ds4watch.config.lints.check import lint_profiles
from ds4watch.config.lints.findings import Lint, Severity
from ds4watch.config.lints.fleet import Fleet, room_fault, sleep_fault, unpriced_fault
from ds4watch.config.lints.gpus import GpuFacts
from ds4watch.config.shipped import shipped
from ds4watch.engine.model_facts import look_at
from ds4watch.model.errors import Located
from ds4watch.scrape.gpu import GpuReport


def check_profiles(
    loaded: LoadedSettings,
    state_dir: Path,
    environ: Mapping[str, str],
    gpus: GpuFacts,
    *,
    sim: bool = False,
) -> tuple[Lint, ...]:
    """Return what the lints say of all profiles that can be read, and of those that are wanted."""
    files, _ = read_profiles(loaded, tuple(profile_files(loaded)))
    models = {name: look_at(it.profile, state_dir, environ) for name, it in files.items()}
    wanted = wanted_workers(loaded.settings, sim=sim)
    own = {
        name
        for name, path in profile_files(loaded).items()
        if path.parent != shipped("serving/profiles")
    }
    examples = frozenset(files) - own - {it.profile for it in wanted}
    found = lint_profiles(tuple(files.values()), models, gpus, loaded.settings, examples=examples)
    profiles = {name: it.profile for name, it in files.items()}
    fleet = Fleet(profiles, models, loaded.settings)
    workers, prices = "fleet.workers", "cost.prices"
    faults = (
        (Severity.ERROR, workers, room_fault(wanted, profiles, gpus)),
        (Severity.WARNING, workers, sleep_fault(wanted, fleet, _host_bytes(), gpus)),
        (Severity.WARNING, prices, unpriced_fault(wanted, profiles, loaded.settings)),
    )
    file = str(loaded.file) if loaded.file else None
    told = (
        Lint(severity, Located(fault[0], file, field=field, mend=fault[1]))
        for severity, field, fault in faults
        if fault is not None
    )
    return (*found, *told)


def _host_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def gpu_facts(report: GpuReport) -> GpuFacts:
    """Return what a reading of this host's GPUs says; MIG instances are not counted."""
    whole = [it for it in report.readings if not it.mig]
    memory = [it.memory_total_bytes for it in whole if it.memory_total_bytes is not None]
    name = whole[0].name if whole else ""
    return GpuFacts(len(whole), name, min(memory, default=None))
