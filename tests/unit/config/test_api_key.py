from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from ds4watch.config.api_key import NoKeyError, placed, read_key, sound_key
from ds4watch.config.external import ExtraWorker
from ds4watch.config.hidden import shown
from ds4watch.config.profile import Profile


@pytest.mark.parametrize("text", ["k-1", "k-1\n", " k-1 \r\n\n"])
def test_a_key_is_what_stands_in_the_file_without_the_line_end(text: str, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(text)
    assert read_key(file) == "k-1"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        (" \n", "is empty"),
        ("s3cret\ns3cret2", "holds more than a key"),
        ("s3cret\r\nX-Evil: 1", "holds more than a key"),
        ("s3crét", "holds more than a key"),
    ],
)
def test_what_could_not_be_sent_is_refused_and_not_repeated(text: str, said: str) -> None:
    with pytest.raises(NoKeyError, match=said) as caught:
        sound_key(text, "the file")
    assert "s3cr" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(NoKeyError, match="No such file"):
        read_key(tmp_path / "missing")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(NoKeyError, match="holds no text"):
        read_key(tmp_path / "binary")


def test_names_of_files_start_from_the_settings() -> None:
    assert placed("keys/a", Path("/etc/ds4watch")) == "/etc/ds4watch/keys/a"
    assert placed("/run/key", Path("/etc/ds4watch")) == "/run/key"
    assert placed("~/key", Path("/etc")) == str(Path("~/key").expanduser())


def test_a_key_has_one_source() -> None:
    both = {"api_key_file": "a", "api_key_env": "B"}
    with pytest.raises(ValidationError, match="one key twice"):
        Profile(name="p", served_names=("m",), model="o/m", **both)
    with pytest.raises(ValidationError, match="one key twice"):
        ExtraWorker(name="w", url="http://w", **both)
    with pytest.raises(ValidationError):
        ExtraWorker(name="w", url="http://w", api_key_env="sk-not a name")


def test_settings_show_where_a_file_is_and_no_variable() -> None:
    own = ExtraWorker(name="w", url="http://w", api_key_file="k")
    assert shown(own)["api_key_file"] == "k"
    other = ExtraWorker(name="w", url="http://w", api_key_env="SK_LOOKS_LIKE_ONE")
    assert "SK_LOOKS" not in str(shown(other))
