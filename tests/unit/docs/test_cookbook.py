"""Every recipe of the cookbook loads as the daemon loads it, and names alerts that there are."""

from __future__ import annotations

import re

import pytest
import yaml

from ds4watch.alerting.rulefile import load_rules
from ds4watch.model.alert import AlertRule
from ds4watch.policy.policyfile import PolicyFile
from tests.unit.docs.documents import DOCS, ROOT, Block
from tests.unit.docs.yaml_kinds import as_parameters, kind_of, policy_in_full, yaml_blocks

BLOCKS = yaml_blocks(DOCS / "policy-cookbook.md")
RECIPES = [it for it in BLOCKS if kind_of(it) == "policy.yml"]
RULES = [
    *((str(it), it.read_text(encoding="utf-8")) for it in (ROOT / "rules").glob("*.yml")),
    *((str(it), it.text) for it in BLOCKS if kind_of(it) == "rules.yml"),
]
ALERTS = {
    (rule.name, dict(rule.labels).get("severity"))
    for file, text in RULES
    for group in load_rules(text, file)
    for rule in group.rules
    if isinstance(rule, AlertRule)
}
"""Names and tiers of the shipped rules, and of those that the cookbook writes itself."""


@pytest.mark.parametrize("recipe", as_parameters(RECIPES))
def test_a_recipe_is_a_policy(recipe: Block) -> None:
    policy = policy_in_full(recipe.text)
    assert policy.bindings
    assert policy.pools["default"].ladder


@pytest.mark.parametrize("recipe", RECIPES, ids=str)
def test_a_recipe_names_alerts_that_there_are(recipe: Block) -> None:
    for binding in yaml.safe_load(recipe.text)["bindings"]:
        if binding["match"].get("source") == "alertmanager":
            continue
        match, pattern = binding["match"], binding.get("match_re", {}).get("alertname", "")
        names = [match["alertname"]] if "alertname" in match else pattern.split("|")
        for name in names:
            tiers = {tier for known, tier in ALERTS if known == name}
            assert tiers, name
            assert match.get("severity") in {None, *tiers}, (name, tiers)


def test_there_are_as_many_recipes_as_a_cook_needs() -> None:
    text = (DOCS / "policy-cookbook.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^## ", text, re.MULTILINE)) >= len(RECIPES) >= 10
    assert isinstance(policy_in_full(RECIPES[0].text), PolicyFile)
