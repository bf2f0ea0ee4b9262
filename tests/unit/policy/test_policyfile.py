"""The policy file: the shipped one, and what is refused of others."""

from __future__ import annotations

import pytest

from ds4watch.config.shipped import shipped
from ds4watch.model.errors import ConfigError
from ds4watch.policy.policyfile import load_policy

POOL = """\
pools:
  default:
    ladder:
      - name: short
        max_tokens_cap: 8
"""


def test_the_shipped_policy_acts_on_the_queue_and_on_nothing_that_informs() -> None:
    path = shipped("serving/policy.yml")
    policy = load_policy(path.read_text(encoding="utf-8"), str(path))
    assert {binding.match["alertname"] for binding in policy.bindings} == {"QueueDepthHigh"}
    assert not policy.dry_run


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("dry_run: maybe\n", 1, "dry_run: must be true or false"),
        ("dryrun: true\n", 1, "did you mean `dry_run`?"),
        ("pools:\n  default:\n    ladder: []\n", 3, "pools.default.ladder: must have at least 1"),
        (POOL + "        max_tokens_cup: 3\n", 6, "did you mean `max_tokens_cap`?"),
        (
            POOL + "bindings:\n  - match: {alertname: A}\n    pool: other\n    level: 1\n",
            8,
            "there is no pool 'other' (known: default)",
        ),
        (
            POOL + "bindings:\n  - match: {alertname: A}\n    level: 2\n",
            8,
            "level 2 is above the top of pool 'default' (its ladder has 1 levels)",
        ),
        (POOL + "bindings:\n  - match: {}\n    level: 1\n", 7, "must have at least 1 entry"),
    ],
)
def test_a_fault_is_told_with_its_line_and_its_mend(text: str, line: int, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_policy(text, "policy.yml")
    (finding,) = caught.value.findings
    assert str(finding).startswith(f"policy.yml:{line}: ")
    assert said in str(finding)
