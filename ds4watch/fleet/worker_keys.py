"""The API keys that workers ask for: from files or the environment to those who talk to them.

Whoever talks to a worker reads its key in a file, whose path is in the worker's view; the key
itself is on no board and in no command line.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Container, Mapping
from pathlib import Path

from ds4watch.config.api_key import NoKeyError, read_key, sound_key
from ds4watch.config.profile import Profile
from ds4watch.fleet.recipe import WorkerSpec
from ds4watch.model.errors import EdgeReason, WorkerError

VARIABLE = "VLLM_API_KEY"
"""By which vLLM, and a simulated worker, takes its key."""
_FOLDER = "worker-keys"

log = logging.getLogger(__name__)


def key_of(profile: Profile, environ: Mapping[str, str]) -> str:
    """Return the key of a profile's workers as it is now. Raises NoKeyError."""
    if profile.api_key_file is not None:
        return read_key(Path(profile.api_key_file))
    name = profile.api_key_env or ""
    return sound_key(environ.get(name, ""), f"the variable {name}")


class WorkerKeys:
    """Keeps for each worker the key that it was started with, until it is started anew."""

    def __init__(self, state_dir: Path, environ: Mapping[str, str]) -> None:
        self._folder = state_dir / _FOLDER
        self._environ = environ
        self._files: dict[str, str] = {}
        self._failing: set[str] = set()

    def file_of(self, spec: WorkerSpec) -> str | None:
        """Return the file that holds a worker's key; None if it asks for none.

        A file that somebody gave for a worker of theirs is read itself, so that a new key is found.
        """
        profile = spec.profile
        if not profile.key_source:
            return None
        is_theirs = spec.url is not None and profile.api_key_file is not None
        return profile.api_key_file if is_theirs else str(self._folder / spec.id)

    def keep(self, spec: WorkerSpec) -> dict[str, str]:
        """Return the environment that gives a worker its key, which is kept. Raises WorkerError."""
        if not spec.profile.key_source:
            return {}
        try:
            key = key_of(spec.profile, self._environ)
            if self.file_of(spec) != spec.profile.api_key_file:
                _write(self._folder / spec.id, key)
        except NoKeyError as error:
            raise WorkerError(f"no API key: {error}", reason=EdgeReason.OTHER) from error
        except OSError as error:
            message = f"its API key cannot be kept in {self._folder}: {error.strerror}"
            raise WorkerError(message, reason=EdgeReason.OTHER) from error
        return {VARIABLE: key}

    def join(self, spec: WorkerSpec) -> str | None:
        """Return `file_of`, for a worker that is in the fleet from now on.

        What somebody else runs is not started by us: its key is kept now.
        """
        if spec.url is not None:
            try:
                self.keep(spec)
            except WorkerError as error:
                log.warning("%s: %s", spec.id, error)
        return self.file_of(spec)

    def keep_only(self, names: Container[str]) -> None:
        """Remove the keys of workers that are in the fleet no more."""
        try:
            for path in list(self._folder.iterdir()):
                if path.name not in names:
                    path.unlink(missing_ok=True)
        except (FileNotFoundError, NotADirectoryError):
            return  # there never was one
        except OSError as error:
            log.warning("keys of workers that are gone stay in %s: %s", self._folder, error)

    def note(self, url: str, file: str | None) -> None:
        """Note what whoever asks a worker at that address has to show."""
        if file is None:
            self._files.pop(url, None)
        else:
            self._files[url] = file

    def at(self, url: str) -> str:
        """Return the key for an address; empty if none is known. A fault is logged once."""
        file = self._files.get(url)
        if file is None:
            return ""
        try:
            key = read_key(Path(file))
        except NoKeyError as error:
            if file not in self._failing:
                self._failing.add(file)
                log.warning("the worker at %s is asked without its API key: %s", url, error)
            return ""
        self._failing.discard(file)
        return key


def _write(path: Path, key: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(temporary, flags, 0o600), "w", encoding="ascii") as stream:
        stream.write(key + "\n")
    temporary.replace(path)
