"""What does not go together under `notify`, each with its line."""

from __future__ import annotations

import pytest

from ds4watch.config.loader import load_settings
from ds4watch.model.errors import ConfigError


def faults(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_settings(text, "ds4watch.yml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("notify:\n  slack:\n    token: x\n", "a token is of no use without a channel"),
        (
            "notify:\n  slack:\n    token: x\n    channel: '#ops'\n",
            "ds4watch.yml:4: notify.slack.channel",
        ),
        (
            "notify:\n  slack:\n    token: x\n    token_file: /x\n    channel: C0123456\n",
            "ds4watch.yml:4: notify.slack.token_file: is not used beside token",
        ),
        ("notify:\n  slack:\n    signing_secret: x\n", "nobody may press a button"),
        ("notify:\n  apprise:\n  - name: a\n", "ds4watch.yml:3: notify.apprise[0]: has no address"),
        (
            "notify:\n  apprise:\n  - {name: a, url: 'x://'}\n  - {name: a, url: 'x://'}\n",
            "'a' is taken",
        ),
        ("notify:\n  apprise:\n  - {name: slack, url: 'x://'}\n", "'slack' is taken"),
        ("notify:\n  alertmanager:\n    urls: [host]\n", "is no address: 'host'"),
    ],
)
def test_what_does_not_go_together_is_named(text: str, said: str) -> None:
    assert said in faults(text)


def test_secrets_are_in_no_representation() -> None:
    text = "notify:\n  slack: {token: xoxb-hush, channel: C0123456}\n  heartbeat: {url: 'http://hush'}\n"
    assert "hush" not in repr(load_settings(text, "ds4watch.yml"))
