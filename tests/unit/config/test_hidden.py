"""Settings as they may be shown."""

from __future__ import annotations

import json

from ds4watch.config.hidden import HIDDEN, shown
from ds4watch.config.loader import load_settings
from ds4watch.config.settings import Settings

WRITTEN = """\
store: {url: "postgresql://ds4:hunter2@db/ds4"}
notify: {webhook_url: "https://hooks.example/T0/hunter2"}
fleet:
  ray: {token: hunter2}
scrape:
  groups:
    - name: others
      authorization: {credentials: hunter2}
      params: {key: [hunter2]}
      static_configs: [{targets: ["10.0.0.1:9"]}]
    - name: more
      authorization: {credentials_file: /etc/ds4watch/token}
      http_sd_configs: [{url: "https://sd.example/t?key=hunter2"}]
"""


def test_nothing_that_lets_anybody_in_is_shown_and_all_else_is() -> None:
    found = shown(load_settings(WRITTEN, "ds4watch.yml"))
    assert "hunter2" not in json.dumps(found)
    assert found["notify"]["webhook_url"] == HIDDEN
    others, more = found["scrape"]["groups"]
    assert others["static_configs"][0]["targets"] == ["10.0.0.1:9"]
    assert more["authorization"]["credentials_file"] == "/etc/ds4watch/token"
    assert more["http_sd_configs"][0]["url"] == f"https://sd.example/t?{HIDDEN}"


def test_defaults_are_shown_as_they_are() -> None:
    found = shown(Settings())
    assert found["admin"]["host"] == "127.0.0.1"
    assert HIDDEN not in json.dumps(found)
