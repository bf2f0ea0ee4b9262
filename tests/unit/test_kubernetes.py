"""The manifests of serving/kubernetes against Kubernetes' own schemas, and each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from ds4watch.config.loader import load_settings
from ds4watch.config.shipped import shipped

FOLDER = Path(str(shipped("serving/kubernetes")))
MANIFESTS = ("budget.yml", "ds4watch.yml", "profile.yml", "services.yml", "workers.yml")
VERSIONS = ("1.30", "1.34")
"""Oldest and newest that the manifests are meant for."""


def manifest(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
    return loaded


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", MANIFESTS)
def test_kubernetes_own_schema_has_nothing_to_say(name: str, version: str) -> None:
    for document in yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8")):
        kubernetes_validate.validate(document, version, strict=True)


def test_ds4watch_in_a_pod_has_settings_that_load_and_ports_that_it_serves() -> None:
    text = (FOLDER / "ds4watch.yml").read_text(encoding="utf-8")
    config, service, pods = yaml.safe_load_all(text)
    settings = load_settings(config["data"]["ds4watch.yml"], "ds4watch.yml")
    (container,) = pods["spec"]["template"]["spec"]["containers"]
    ports = {it["name"]: it["containerPort"] for it in container["ports"]}
    assert ports == {"gateway": settings.gateway.port, "admin": settings.admin.port}
    assert {it["targetPort"]: it["port"] for it in service["spec"]["ports"]} == ports
    assert len(settings.fleet.external) == manifest("workers.yml")["spec"]["replicas"]
    grace = pods["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace > settings.gateway.drain_seconds


def test_a_misspelt_field_would_be_found() -> None:
    wrong = manifest("workers.yml")
    wrong["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="readynessProbe"):
        kubernetes_validate.validate(wrong, VERSIONS[0], strict=True)


def test_all_files_are_applied_but_the_one_that_needs_an_operator() -> None:
    assert sorted(manifest("kustomization.yml")["resources"]) == sorted(MANIFESTS)
    others = {"kustomization.yml", "monitor.yml"}
    assert {it.name for it in FOLDER.glob("*.yml")} == {*MANIFESTS, *others}


def test_names_labels_and_ports_of_the_files_fit_together() -> None:
    workers, service = manifest("workers.yml"), manifest("services.yml")
    profile = manifest("profile.yml")
    pod = workers["spec"]["template"]
    labels = pod["metadata"]["labels"]
    monitor = manifest("monitor.yml")["spec"]
    selectors = [
        workers["spec"]["selector"]["matchLabels"],
        service["spec"]["selector"],
        manifest("budget.yml")["spec"]["selector"]["matchLabels"],
        monitor["selector"]["matchLabels"],
        service["metadata"]["labels"],
    ]
    assert all(selector == labels for selector in selectors)
    assert workers["spec"]["serviceName"] == service["metadata"]["name"]
    (container,) = pod["spec"]["containers"]
    (port,) = container["ports"]
    assert service["spec"]["ports"][0]["targetPort"] == port["name"]
    assert monitor["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]
    assert container["envFrom"] == [{"configMapRef": {"name": profile["metadata"]["name"]}}]
    assert f"--port={port['containerPort']}" in container["args"]
    named = {part[2:-1] for it in container["args"] if (part := it.partition("=")[2])[:1] == "$"}
    assert named <= set(profile["data"])
    mounted = {it["name"] for it in container["volumeMounts"]}
    claimed = {it["metadata"]["name"] for it in workers["spec"]["volumeClaimTemplates"]}
    assert mounted == {it["name"] for it in pod["spec"]["volumes"]} | claimed


def test_readiness_is_a_canary_and_a_stop_leaves_time_for_open_requests() -> None:
    workers, profile = manifest("workers.yml"), manifest("profile.yml")
    pod = workers["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["readinessProbe"]["exec"]["command"] == ["python3", "/profile/canary.py"]
    compile(profile["data"]["canary.py"], "canary.py", "exec")
    wait = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] >= wait + 300
    assert manifest("budget.yml")["spec"]["minAvailable"] < workers["spec"]["replicas"]


def test_the_readme_names_every_file_and_workers_that_exist() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert all(f"`{it.name}`" in text for it in FOLDER.glob("*.yml"))
    block = text.partition("```yaml\n")[2].partition("```")[0]
    external = yaml.safe_load(block)["fleet"]["external"]
    replicas = manifest("workers.yml")["spec"]["replicas"]
    assert [it["name"] for it in external] == [f"qwen-7b-{number}" for number in range(replicas)]
