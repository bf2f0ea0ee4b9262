"""The files of an installation as a service: what they say, and writing them with care."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ds4watch.model.errors import ConfigError, Located

_UNITS = Path("/etc/systemd/system")
_POLKIT = Path("/etc/polkit-1/rules.d")
_SHIPPED_PROGRAM = "/opt/ds4watch/bin/ds4watch"
_SHIPPED_CONFIG = "/etc/ds4watch/ds4watch.yml"
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_PATH = re.compile(r"/[A-Za-z0-9._/+@-]+")


@dataclass(frozen=True, slots=True)
class InstallPlan:
    """Where the program and its settings are, and who runs it."""

    program: Path
    config: Path
    user: str


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file to write. Not ours to change: one that is there stays, whatever it says."""

    path: Path
    text: str
    mode: int = 0o644
    is_ours_to_change: bool = True


def units_of(plan: InstallPlan, templates: Mapping[str, str]) -> tuple[PlannedFile, ...]:
    """Return units and polkit rule as the plan has them, from the shipped ones.

    Raises ConfigError for what could not stand in a unit as it is.
    """
    _check(plan)
    return tuple(
        PlannedFile(_folder_of(name) / name, _filled(text, plan))
        for name, text in templates.items()
    )


def write_missing(files: Iterable[PlannedFile], root: Path) -> Iterator[str]:
    """Write what is not there; yield a line for each file. Raises ConfigError if it cannot.

    A file of ours that differs from the one there goes beside it, as `.new`.
    """
    for file in files:
        path = root / file.path.relative_to("/")
        try:
            yield _written(file, path)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            mend = "run it as root, or with --root DIR or --dry-run"
            raise ConfigError(Located(f"cannot be written: {reason}", str(path), mend=mend)) from (
                error
            )


def _written(file: PlannedFile, path: Path) -> str:
    if not path.exists():
        _write(path, file)
        return f"written   {path}"
    if not file.is_ours_to_change:
        return f"kept      {path}"
    if path.read_text(encoding="utf-8") == file.text:
        return f"as it was {path}"
    beside = path.with_name(path.name + ".new")
    _write(beside, file)
    return f"kept      {path}: it differs from the new one, {beside}"


def _write(path: Path, file: PlannedFile) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(file.text, encoding="utf-8")
    os.chmod(path, file.mode)  # noqa: PTH101 - whatever the umask says


def _folder_of(name: str) -> Path:
    return _POLKIT if name.endswith(".rules") else _UNITS


def _filled(text: str, plan: InstallPlan) -> str:
    return (
        text.replace(_SHIPPED_PROGRAM, str(plan.program))
        .replace(_SHIPPED_CONFIG, str(plan.config))
        .replace("User=ds4watch", f"User={plan.user}")
        .replace("Group=ds4watch", f"Group={plan.user}")
        .replace('"ds4watch"', f'"{plan.user}"')
    )


def _check(plan: InstallPlan) -> None:
    findings = [
        Located(f"{path} cannot stand in a unit", field=field, mend="use a plain path")
        for field, path in (("program", plan.program), ("config", plan.config))
        if not _PATH.fullmatch(str(path))
    ]
    if not _USER.fullmatch(plan.user):
        findings.append(
            Located(f"{plan.user!r} is no user name", field="user", mend="take one like ds4watch")
        )
    if findings:
        raise ConfigError(*findings)
