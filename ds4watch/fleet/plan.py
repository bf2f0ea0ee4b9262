"""From settings and profiles to the workers that are wanted."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ds4watch.config.profile import Engine, Profile
from ds4watch.config.settings import ExtraWorker, FleetSettings, WorkerSettings
from ds4watch.fleet.recipe import WorkerSpec
from ds4watch.model.errors import ConfigError, Located


def wanted_specs(
    workers: Sequence[WorkerSettings], profiles: Mapping[str, Profile], fleet: FleetSettings
) -> tuple[WorkerSpec, ...]:
    """Return a spec for each worker: `<profile>-<number>`, and those that others run."""
    own = [
        WorkerSpec(
            f"{wanted.profile}-{number}",
            profiles[wanted.profile],
            is_spare=number >= wanted.count - wanted.spare,
        )
        for wanted in workers
        for number in range(wanted.count)
    ]
    return (*own, *(_external(worker) for worker in fleet.external))


def find_vllm(fleet: FleetSettings, base: Path, environ: Mapping[str, str]) -> Path:
    """Return the interpreter that has vLLM: the setting, the environment, or .venv-vllm nearby."""
    if fleet.vllm_python is not None:
        return base / Path(fleet.vllm_python).expanduser()
    if environ.get("DS4WATCH_VLLM_PYTHON"):
        return Path(environ["DS4WATCH_VLLM_PYTHON"])
    for folder in (base, Path()):
        path = folder / ".venv-vllm" / "bin" / "python"
        if path.exists():
            return path.absolute()
    return (base / ".venv-vllm" / "bin" / "python").absolute()


def check_specs(specs: Sequence[WorkerSpec], vllm_python: Path, file: str | None) -> None:
    """Refuse what cannot start. Raises ConfigError with one finding for each fault."""
    findings = []
    needs_vllm = [spec for spec in specs if spec.url is None and _is_vllm(spec)]
    if needs_vllm and not os.access(vllm_python, os.X_OK):
        findings.append(
            Located(
                f"there is no vLLM interpreter at {vllm_python}",
                file,
                field="fleet.vllm_python",
                mend="run `make run`, which installs one, or `ds4watch up --sim` to do without",
            )
        )
    findings += [
        Located(
            f"the model folder {profile.model} does not exist",
            f"{profile.name}.yml",
            field="model",
            mend="put the model there, or name a model of the hub",
        )
        for profile in {spec.profile.name: spec.profile for spec in needs_vllm}.values()
        if profile.prepare is None and _is_missing_folder(profile.model or "")
    ]
    if findings:
        raise ConfigError(*findings)


def _is_vllm(spec: WorkerSpec) -> bool:
    return spec.profile.engine is Engine.VLLM


def _is_missing_folder(model: str) -> bool:
    return model.startswith("/") and not Path(model).exists()


def _external(worker: ExtraWorker) -> WorkerSpec:
    names = worker.models or (worker.name,)
    profile = Profile(name=worker.profile, engine=Engine.VLLM, served_names=names, model="external")
    return WorkerSpec(worker.name, profile, url=worker.url)
