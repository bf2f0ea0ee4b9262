"""A profile proved to do a class of work worse: alert, diversion, whom gateways ask, the undo."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.flow.daemon import Daemon, ask, chat, new_daemon, until

QUESTIONS = 60
CLASS = {"x-ds4-class": "mathematics"}


def profile(name: str, seed: int, **more: Any) -> dict[str, Any]:
    """Return a profile whose answers are those of a seed."""
    args = ["--decode-tokens-per-second=2000", f"--seed={seed}"]
    names = [name, "both"]
    return {"name": name, "engine": "sim", "served_names": names, "engine_args": args, **more}


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """Yield a daemon with the shipped rules and policy, whose quantized profile is always wrong."""
    for it in (profile("wide", 1), profile("narrow", 2, precision="int4", reference="wide")):
        (tmp_path / f"{it['name']}.yml").write_text(yaml.safe_dump(it), encoding="utf-8")
    fleet = {
        "profiles_dir": str(tmp_path),
        "workers": [{"profile": "wide"}, {"profile": "narrow"}],
    }
    sections = {
        "rules": None,
        "policy": None,
        "quality": {"golden_sets": ["golden.jsonl"], "golden_at": None},
    }
    with new_daemon(fleet=fleet, sections=sections) as daemon:
        daemon.start()
        daemon.until_ready()
        until(lambda: {"wide", "narrow"} <= set(daemon.models()), "both models at the gateway")
        yield daemon


def said(daemon: Daemon, model: str, text: str, **headers: str) -> tuple[str, str]:
    """Return what a model answers through the gateway, and which model it was."""
    body = chat(text, model=model, max_tokens=8, temperature=0, seed=0) | {"ignore_eos": False}
    answer = ask(daemon.gateway_port, "/v1/chat/completions", body, headers=headers)
    assert answer.status == 200, answer.body
    return answer.json()["choices"][0]["message"]["content"], answer.json()["model"]


def write_golden(daemon: Daemon) -> None:
    """Right is what the reference says: in mathematics and, as far as it goes, in chat."""
    lines = []
    for number in range(QUESTIONS):
        prompt = f"What is {number} and {number}?"
        right, _ = said(daemon, "wide", prompt)
        fields = {"id": f"m-{number}", "class": "mathematics", "prompt": prompt, "max_tokens": 8}
        lines.append(json.dumps(fields | {"judge": {"kind": "exact", "answer": right}}))
        chatty = {"id": f"c-{number}", "class": "chat", "prompt": prompt, "max_tokens": 8}
        lines.append(json.dumps(chatty | {"judge": {"kind": "regex", "pattern": "."}}))
    (daemon.folder / "golden.jsonl").write_text("\n".join(lines), encoding="utf-8")


def diversions(daemon: Daemon) -> list[dict[str, Any]]:
    """Return what was done about it, oldest first."""
    found = ask(daemon.admin_port, "/api/ds4/v1/actions?limit=100").json()["actions"]
    return [it for it in found if it["kind"] == "divert_class"][::-1]


def test_a_proved_loss_sends_its_class_to_the_reference_until_a_person_takes_it_back(
    daemon: Daemon,
) -> None:
    write_golden(daemon)
    assert said(daemon, "narrow", "2 + 2", **CLASS)[1] == "narrow"
    run = ("quality", "run", "narrow", "--against", "wide", *daemon.options)
    done = daemon.command(*run)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"wide {2 * QUESTIONS} of {2 * QUESTIONS} right" in done.stdout
    assert done.stdout.rstrip().endswith("points lost against wide: too lossy")

    until(lambda: "firing" in daemon.phases("QualityBoundBroken"), "the alert")
    [action] = until(
        lambda: [it for it in diversions(daemon) if it["status"] == "applied"], "the diversion"
    )
    assert action["target"] == "narrow:mathematics", action
    until(
        lambda: said(daemon, "narrow", "2 + 2", **CLASS)[1] == "wide",
        "mathematics answered by the reference",
    )
    assert said(daemon, "narrow", "2 + 2")[1] == "narrow", "other work stays"
    other = {"x-ds4-class": "chat"}
    assert said(daemon, "narrow", "2 + 2", **other)[1] == "narrow", "what it does well stays"

    undone = daemon.command("undo", action["id"], "--why", "a test", *daemon.options)
    assert undone.returncode == 0, undone.stdout + undone.stderr
    until(
        lambda: said(daemon, "narrow", "2 + 2", **CLASS)[1] == "narrow",
        "mathematics answered as before",
    )
    told = " ".join(it["summary"] for it in daemon.audit())
    assert "mathematics" in told
