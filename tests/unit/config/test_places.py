from __future__ import annotations

from pathlib import Path

import pytest

from ds4watch.config.places import config_candidates, resolve_state_dir
from ds4watch.config.settings import Settings
from ds4watch.model.errors import ConfigError


@pytest.mark.parametrize(
    ("setting", "environ", "expected"),
    [
        ("/a", {"STATE_DIRECTORY": "/s", "HOME": "/h"}, "/a"),
        ("~/a", {"HOME": "/h"}, "/h/a"),
        ("~", {"HOME": "/h"}, "/h"),
        (None, {"STATE_DIRECTORY": "/s", "XDG_STATE_HOME": "/x", "HOME": "/h"}, "/s"),
        (None, {"STATE_DIRECTORY": "/s:/t"}, "/s"),
        (None, {"XDG_STATE_HOME": "/x", "HOME": "/h"}, "/x/ds4watch"),
        (None, {"XDG_STATE_HOME": "relative", "HOME": "/h"}, "/h/.local/state/ds4watch"),
        (None, {"HOME": "/h"}, "/h/.local/state/ds4watch"),
    ],
)
def test_the_state_folder_comes_from_the_first_that_names_one(
    setting: str | None, environ: dict[str, str], expected: str
) -> None:
    assert resolve_state_dir(Settings(state_dir=setting), environ) == Path(expected)


def test_without_a_home_the_state_folder_has_to_be_set() -> None:
    with pytest.raises(ConfigError, match="state_dir: there is no \\$HOME"):
        resolve_state_dir(Settings(), {})


def test_settings_are_looked_for_where_a_person_said_else_in_two_places() -> None:
    given = Path("x.yml")
    assert config_candidates(given, {"DS4WATCH_CONFIG": "/e.yml"}) == (given,)
    assert config_candidates(None, {"DS4WATCH_CONFIG": "/e.yml"}) == (Path("/e.yml"),)
    assert config_candidates(None, {}) == (
        Path("ds4watch.yml"),
        Path("/etc/ds4watch/ds4watch.yml"),
    )
