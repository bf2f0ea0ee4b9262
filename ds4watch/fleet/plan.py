"""From settings and profiles to the workers that are wanted."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ds4watch.config.api_key import NoKeyError, placed
from ds4watch.config.external import ExtraWorker
from ds4watch.config.profile import Engine, Profile
from ds4watch.config.settings import FleetSettings, WorkerSettings
from ds4watch.fleet.recipe import WorkerSpec
from ds4watch.fleet.worker_keys import key_of
from ds4watch.model.errors import ConfigError, Located

_KEY_MEND = "give the daemon the key there, or leave the setting out if no key is asked for"


def wanted_specs(
    workers: Sequence[WorkerSettings],
    profiles: Mapping[str, Profile],
    fleet: FleetSettings,
    base: Path,
) -> tuple[WorkerSpec, ...]:
    """Return a spec for each worker: `<profile>-<number>`, and those that others run.

    base: the folder of the settings, which names of files start from.
    """
    here = {name: _with_key_placed(profile, base) for name, profile in profiles.items()}
    own = [
        WorkerSpec(
            f"{wanted.profile}-{number}",
            here[wanted.profile],
            is_spare=number >= wanted.count - wanted.spare,
        )
        for wanted in workers
        for number in range(wanted.count)
    ]
    return (*own, *(_external(worker, base) for worker in fleet.external))


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


def check_keys(
    specs: Sequence[WorkerSpec],
    environ: Mapping[str, str] | None,
    file: str | None,
    *,
    on_ray: bool,
) -> None:
    """Refuse API keys that cannot be had. Raises ConfigError with one finding for each.

    environ: None if it is not the daemon's; then variables are not looked for.
    """
    findings = []
    for spec in {it.id if it.url else it.profile.name: it for it in specs}.values():
        profile, is_ours = spec.profile, spec.url is None
        name = "api_key_env" if profile.api_key_file is None else "api_key_file"
        where = f"{profile.name}.yml" if is_ours else file
        field = name if is_ours else f"fleet.external.{spec.id}.{name}"
        if profile.key_source and is_ours and on_ray:
            message = "a key given to a worker on Ray can be read in Ray's dashboard"
            findings.append(Located(message, where, field=field, mend="leave it out"))
        elif profile.api_key_file is not None or (profile.key_source and environ is not None):
            try:
                key_of(profile, environ or {})
            except NoKeyError as error:
                findings.append(Located(str(error), where, field=field, mend=_KEY_MEND))
    if findings:
        raise ConfigError(*findings)


def _is_vllm(spec: WorkerSpec) -> bool:
    return spec.profile.engine is Engine.VLLM


def _is_missing_folder(model: str) -> bool:
    return model.startswith("/") and not Path(model).exists()


def _external(worker: ExtraWorker, base: Path) -> WorkerSpec:
    profile = Profile(
        name=worker.profile,
        engine=Engine.VLLM,
        served_names=worker.models or (worker.name,),
        model="external",
        api_key_file=worker.api_key_file,
        api_key_env=worker.api_key_env,
    )
    return WorkerSpec(worker.name, _with_key_placed(profile, base), url=worker.url)


def _with_key_placed(profile: Profile, base: Path) -> Profile:
    """Return the profile with the whole path of its workers' API key."""
    if profile.api_key_file is None:
        return profile
    return profile.model_copy(update={"api_key_file": placed(profile.api_key_file, base)})
