"""Settings, profiles, rule and policy files from disk; every fault of reading is a finding."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ds4watch.config.document import MAX_TEXT_CHARS, Document, dotted, read_document
from ds4watch.config.document import Path as Place
from ds4watch.config.filter_file import FilterFile, load_filter
from ds4watch.config.loader import ProfileFile, load_settings, read_profile
from ds4watch.config.places import config_candidates
from ds4watch.config.profile import Profile
from ds4watch.config.settings import Settings, WorkerSettings
from ds4watch.config.shipped import shipped
from ds4watch.model.errors import ConfigError, Located

_CERTIFICATE = "-----BEGIN CERTIFICATE-----"
MAX_FILE_BYTES = 4 * MAX_TEXT_CHARS
_GOLDEN_SETS = ("mathematics-500.jsonl", "tasks-120.jsonl")
_PLAIN = {
    errno.ENOENT: "there is no such file",
    errno.EISDIR: "is a folder, not a file",
    errno.EACCES: "may not be read",
}


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Settings and the file that they came from; None: defaults throughout."""

    settings: Settings
    file: Path | None = None

    @property
    def base(self) -> Path:
        """The folder that relative paths in the settings start from."""
        return self.file.parent if self.file else Path()

    @property
    def named(self) -> str | None:
        """The file's name for findings; None without one."""
        return str(self.file) if self.file else None


def read_text(path: Path) -> str:
    """Return a file's text. Raises ConfigError, with one finding, if there is none to be had."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        code = error.errno or 0
        message = _PLAIN.get(code, (error.strerror or str(error)).lower())
        mend = "name one that is there" if code == errno.ENOENT else "name a file that can be read"
        raise ConfigError(Located(message, str(path), mend=mend)) from error
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(Located(f"larger than {MAX_FILE_BYTES >> 20} MiB", str(path)))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        finding = Located("is not UTF-8 text", str(path), line, mend="save it as UTF-8")
        raise ConfigError(finding) from error


def find_settings(given: Path | None, environ: Mapping[str, str]) -> LoadedSettings:
    """Load the settings from the first place that has them, else the defaults.

    Raises ConfigError; also if a file that was named is not there.
    """
    candidates = config_candidates(given, environ)
    if len(candidates) == 1:
        return _loaded(candidates[0])
    found = next((path for path in candidates if path.exists()), None)
    return _loaded(found) if found else LoadedSettings(Settings())


def _loaded(path: Path) -> LoadedSettings:
    return LoadedSettings(load_settings(read_text(path), str(path)), path)


def wanted_workers(settings: Settings, *, sim: bool) -> tuple[WorkerSettings, ...]:
    """Return what the fleet is to run; the full and quantized pair if nothing is said."""
    if settings.fleet.workers is not None:
        return settings.fleet.workers
    kind = "sim" if sim else "tiny"
    return tuple(WorkerSettings(profile=f"{kind}-{form}") for form in ("full", "quantized"))


def profile_dirs(loaded: LoadedSettings) -> tuple[Path, ...]:
    """Return the folders that profiles are looked for in, best first."""
    own = loaded.settings.fleet.profiles_dir
    shipped_dir = shipped("serving/profiles")
    return (loaded.base / own, shipped_dir) if own else (shipped_dir,)


def profile_files(loaded: LoadedSettings) -> dict[str, Path]:
    """Return every profile's file by name; the user's hide shipped ones of the same name."""
    found: dict[str, Path] = {}
    for folder in reversed(profile_dirs(loaded)):
        found |= {path.stem: path for path in sorted(folder.glob("*.yml"))}
    return found


def load_profiles(loaded: LoadedSettings, names: tuple[str, ...]) -> dict[str, Profile]:
    """Load the named profiles. Raises ConfigError with the findings of all of them."""
    read, findings = read_profiles(loaded, names)
    if findings:
        raise ConfigError(*findings)
    return {name: file.profile for name, file in read.items()}


def read_profiles(
    loaded: LoadedSettings, names: tuple[str, ...]
) -> tuple[dict[str, ProfileFile], list[Located]]:
    """Return those of the named profiles that can be read, and what is wrong with the others."""
    files = profile_files(loaded)
    profiles: dict[str, ProfileFile] = {}
    findings: list[Located] = []
    for name in names:
        if name not in files:
            findings.append(_unknown_profile(loaded, name, tuple(files)))
            continue
        try:
            profiles[name] = _read_profile(files[name])
        except ConfigError as error:
            findings += error.findings
    return profiles, findings


def _read_profile(path: Path) -> ProfileFile:
    read = read_profile(read_text(path), str(path))
    model = Path(read.profile.model or "")
    if read.profile.prepare is None and model.is_absolute() and not model.is_dir():
        message = f"there is no folder {model}"
        mend = "put the model there, or name another"
        raise ConfigError(Located(message, str(path), field="model", mend=mend))
    return read


def _unknown_profile(loaded: LoadedSettings, name: str, known: tuple[str, ...]) -> Located:
    told = f"known: {', '.join(known) or 'none'}"
    if loaded.settings.fleet.profiles_dir is None:
        told += "; a folder of your own is named in fleet.profiles_dir"
    asked = [worker.profile for worker in loaded.settings.fleet.workers or ()]
    place = (asked.index(name), "profile") if name in asked else ()
    return _placed(loaded, ("fleet", "workers", *place), f"there is no profile {name}", told)


def _placed(loaded: LoadedSettings, path: Place, message: str, mend: str) -> Located:
    """Return a finding about a key of the settings, with its line if it stands in a file."""
    if loaded.file is None:
        return Located(message, field=dotted(path), mend=mend)
    try:
        document = read_document(read_text(loaded.file), str(loaded.file))
    except ConfigError:  # gone since it was read
        document = Document(str(loaded.file))
    return document.finding(path, message, mend=mend)


def rule_files(loaded: LoadedSettings) -> tuple[Path, ...]:
    """Return the rule files, in order. Raises ConfigError if a pattern matches none."""
    patterns = loaded.settings.rules
    if patterns is None:
        return tuple(sorted(shipped("rules").glob("*.yml")))
    return _matched(loaded, patterns, "rules")


def _matched(loaded: LoadedSettings, patterns: tuple[str, ...], setting: str) -> tuple[Path, ...]:
    found: list[Path] = []
    findings: list[Located] = []
    for position, pattern in enumerate(patterns):
        matches = matching_files(loaded.base, pattern)
        if not matches:
            mend = f"patterns start from {loaded.base.absolute()}"
            place: Place = (*setting.split("."), position)
            findings.append(_placed(loaded, place, f"no file matches {pattern}", mend))
        found += [path for path in matches if path not in found]
    if findings:
        raise ConfigError(*findings)
    return tuple(found)


def matching_files(base: Path, pattern: str) -> list[Path]:
    """Return the files that a name or a pattern (* ? [) stands for, starting from `base`."""
    path = base / pattern
    if not any(sign in pattern for sign in "*?["):
        return [path] if path.exists() else []
    anchor = Path(path.anchor) if path.is_absolute() else Path()
    return sorted(anchor.glob(str(path.relative_to(anchor))))


def filter_file(loaded: LoadedSettings) -> Path | None:
    """Return the file of the output filter, None if there is none."""
    own = loaded.settings.gateway.output_filter
    return loaded.base.absolute() / own if own else None


def read_filter(path: Path) -> tuple[FilterFile, tuple[Path, ...]]:
    """Return the output filter's rules, and all files that they stand in. Raises ConfigError."""
    files = [path]

    def read(name: str) -> str:
        files.append(path.parent / name)
        return read_text(files[-1])

    return load_filter(read_text(path), str(path), read), tuple(files)


def authorities_file(loaded: LoadedSettings) -> Path | None:
    """Return the file of those whom HTTPS workers are trusted by. Raises ConfigError."""
    own = loaded.settings.gateway.tls_ca_file
    if own is None:
        return None
    path = loaded.base.absolute() / own
    if _CERTIFICATE not in read_text(path):
        mend = "gateway.tls_ca_file takes certificates in PEM"
        raise ConfigError(Located("holds no certificate", str(path), mend=mend))
    return path


def policy_file(loaded: LoadedSettings) -> Path:
    """Return the policy file: the one in the settings, else the shipped one."""
    own = loaded.settings.policy
    return loaded.base / own if own else shipped("serving/policy.yml")


def golden_files(loaded: LoadedSettings) -> tuple[Path, ...]:
    """Return the files of golden questions. Raises ConfigError if a pattern matches none."""
    patterns = loaded.settings.quality.golden_sets
    if patterns is None:
        return tuple(shipped(f"serving/golden/{name}") for name in _GOLDEN_SETS)
    return _matched(loaded, patterns, "quality.golden_sets")
