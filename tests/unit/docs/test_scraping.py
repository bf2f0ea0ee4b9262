from __future__ import annotations

import re

from ds4watch.config.loader import load_settings
from ds4watch.scrape.listing import read_yaml
from ds4watch.scrape.relabel import compile_rules
from ds4watch.scrape.targets import TargetRules, resolve
from tests.unit.docs.documents import document


def test_the_example_of_a_fleet_elsewhere_gives_the_targets_that_it_says() -> None:
    text = document("scraping.md")
    settings, listed = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    vllm, spares = load_settings(settings, "ds4watch.yml").scrape.groups
    assert spares.http_sd_configs
    rules = TargetRules(
        name=vllm.name, scheme=vllm.scheme.value, rules=compile_rules(vllm.relabel_configs)
    )
    targets = resolve(rules, read_yaml(listed.encode(), {})).targets
    assert [dict(target.labels) for target in targets] == [
        {
            "job": "vllm",
            "instance": f"{worker}.dc1.example:8000",
            "worker": worker,
            "profile": "llama-70b",
            "zone": "dc1",
        }
        for worker in ("gpu-17", "gpu-18")
    ]
    assert targets[0].url == "https://gpu-17.dc1.example:8000/metrics"
    for target in targets:
        for name, value in target.labels:
            assert f'{name}="{value}"' in text or name == "instance", name
