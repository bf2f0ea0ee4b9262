"""Where settings and state are, from the environment as a value; nothing is read here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ds4watch.config.settings import Settings
from ds4watch.model.errors import ConfigError, Located


def config_candidates(given: Path | None, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return where the settings file may be, best first; one alone must exist.

    A single entry was named by a person, so that its absence is an error, not a default.
    """
    if given is not None:
        return (given,)
    if environ.get("DS4WATCH_CONFIG"):
        return (Path(environ["DS4WATCH_CONFIG"]),)
    return (Path("ds4watch.yml"), Path("/etc/ds4watch/ds4watch.yml"))


def resolve_state_dir(settings: Settings, environ: Mapping[str, str]) -> Path:
    """Return the state folder: the setting, $STATE_DIRECTORY, $XDG_STATE_HOME, then ~/.local/state.

    Raises ConfigError if none of these is known.
    """
    if settings.state_dir:
        return _with_home(settings.state_dir, environ)
    if environ.get("STATE_DIRECTORY"):
        # systemd lists several folders with colons; the first is ours.
        return Path(environ["STATE_DIRECTORY"].split(":", 1)[0])
    xdg = environ.get("XDG_STATE_HOME", "")
    if xdg.startswith("/"):  # The XDG rules: a relative path is to be ignored.
        return Path(xdg) / "ds4watch"
    return _with_home("~/.local/state/ds4watch", environ)


def _with_home(path: str, environ: Mapping[str, str]) -> Path:
    if path != "~" and not path.startswith("~/"):
        return Path(path)
    home = environ.get("HOME")
    if not home:
        finding = Located(
            "there is no $HOME to put the state folder into",
            field="state_dir",
            mend="set state_dir, or $STATE_DIRECTORY",
        )
        raise ConfigError(finding)
    return Path(home) / path.removeprefix("~").removeprefix("/")
