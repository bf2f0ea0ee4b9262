"""The policy file: the shipped one, and what is refused of others."""

from __future__ import annotations

import pytest

from ds4watch.config.shipped import shipped
from ds4watch.model.action import ActionKind
from ds4watch.model.errors import ConfigError
from ds4watch.model.limits import LEVERS, Limits, Substitution
from ds4watch.policy.policyfile import Level, labels_match, load_policy, may_match

POOL = """\
pools:
  default:
    ladder:
      - name: short
        max_tokens_cap: 8
"""


ACTS_ON = {
    *("QueueDepthHigh", "FirstTokenSlow", "UpstreamErrorsHigh", "KvCachePressure"),
    *("BudgetProjected", "BudgetUsed", "BudgetExceeded", "BudgetBurning"),
    "QualityBoundBroken",
}
ACTION = POOL + "actions:\n  again: {kind: restart_worker}\n"


def test_the_shipped_policy_acts_on_load_errors_and_budget_and_on_nothing_that_informs() -> None:
    path = shipped("serving/policy.yml")
    policy = load_policy(path.read_text(encoding="utf-8"), str(path))
    assert {binding.match["alertname"] for binding in policy.bindings} == ACTS_ON
    deeds = [binding for binding in policy.bindings if binding.action is not None]
    assert [policy.actions[it.action or ""].kind for it in deeds] == [ActionKind.DIVERT_CLASS]
    budgets = {
        (it.match["alertname"], it.match.get("severity"), it.match["scope"]): it.level
        for it in policy.bindings
        if it.match["alertname"].startswith("Budget")
    }
    assert budgets == {
        ("BudgetProjected", None, "total"): 1,
        ("BudgetBurning", "warning", "total"): 2,
        ("BudgetBurning", "critical", "total"): 3,
        ("BudgetUsed", "critical", "total"): 2,
        ("BudgetExceeded", "warning", "total"): 2,
        ("BudgetExceeded", "critical", "total"): 3,
    }
    jumps = {(it.match["alertname"], it.match["severity"]) for it in policy.bindings if it.jump}
    assert jumps == {("QueueDepthHigh", "critical"), ("BudgetBurning", "critical")}
    assert not policy.dry_run
    ladder = policy.pools["default"].ladder
    first, second, third, fourth = (level.limits() for level in ladder)
    assert first.max_tokens_cap == 32
    assert first.long_max_inflight is not None
    assert second.warm_up_off
    assert second.compress_ratio is not None
    part = third.substitutions[0]
    assert part.share_of("chat") > part.share_of("") > part.share_of("mathematics") == 0
    assert fourth.shed_below_priority == 5


def test_labels_match_by_value_and_by_regular_expression() -> None:
    text = POOL + (
        "bindings:\n  - {match: {alertname: A}, match_re: {worker: 'w[12]'}, level: 1}\n"
    )
    (binding,) = load_policy(text, "policy.yml").bindings
    assert labels_match(binding, {"alertname": "A", "worker": "w1"})
    assert not labels_match(binding, {"alertname": "A", "worker": "w12"})
    assert not labels_match(binding, {"alertname": "A"})
    assert may_match(binding, {"alertname": "A"})
    assert not may_match(binding, {"alertname": "A", "worker": "x"})


def test_every_lever_of_the_gateway_is_a_key_of_a_level() -> None:
    assert set(Level.model_fields) == {"name", *LEVERS}


def test_a_substitution_is_written_short_or_in_full() -> None:
    text = POOL + "        substitutions: {a: b, c: {model: d, share: 0.5, classes: [chat]}}\n"
    limits = load_policy(text, "policy.yml").pools["default"].ladder[0].limits()
    assert limits == Limits(
        max_tokens_cap=8,
        substitutions=(Substitution("a", "b"), Substitution("c", "d", 0.5, ("chat",))),
    )


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
        (
            POOL + "bindings:\n  - match: {alertname: A}\n    level: 1\n    jump: true\n",
            9,
            "only critical alerts jump (match `severity: critical`, or leave out `jump`)",
        ),
        (
            POOL + "  other:\n    ladder: [{name: short}]\n",
            7,
            "pool 'other' has a ladder and names no profile",
        ),
        (
            POOL + "bindings:\n  - {match: {alertname: A}}\n",
            7,
            "asks for a `level` or for an `action`",
        ),
        (
            ACTION + "bindings:\n  - match: {alertname: A}\n    action: agian\n",
            10,
            "there is no action 'agian' (known: again)",
        ),
        (
            ACTION + "bindings:\n  - match: {alertname: A}\n    action: again\n    target: '*'\n",
            11,
            "restart_worker needs a label that names the worker",
        ),
        (POOL + "actions:\n  a: {kind: set_level}\n", 7, "asked for by `level` of a binding"),
        (POOL + "actions:\n  a: {kind: reboot}\n", 7, "actions.a.kind: must be one of"),
        (
            POOL + "bindings:\n  - {match_re: {alertname: '('}, level: 1}\n",
            7,
            "must be a regular expression",
        ),
        (POOL + "      - name: more\n", 6, "max_tokens_cap: level 2 takes away less than level 1"),
        (POOL + "        compress_ratio: 0.9\n", 6, "compress_ratio: must be at most 0.7"),
        (POOL + "        thinking_off: 3\n", 6, "thinking_off: must be true or false"),
        (POOL + "        substitutions: {a: {share: 0.5}}\n", 6, "model: is missing"),
        (POOL + "        substitutions: {a: {model: b, share: 2}}\n", 6, "must be at most 1"),
    ],
)
def test_a_fault_is_told_with_its_line_and_its_mend(text: str, line: int, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_policy(text, "policy.yml")
    (finding,) = caught.value.findings
    assert str(finding).startswith(f"policy.yml:{line}: ")
    assert said in str(finding)
