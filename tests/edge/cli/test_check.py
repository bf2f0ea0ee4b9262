from __future__ import annotations

import json
from pathlib import Path

from tests.edge.cli.test_commands import ds4watch

RULES = "groups:\n  - name: g\n    rules:\n      - alert: A\n        expr: ds4_queue_depth > 5\n"


async def test_good_files_are_named_as_good(tmp_path: Path) -> None:
    (tmp_path / "ds4watch.yml").write_text("rules: [a.yml]\n")
    (tmp_path / "a.yml").write_text(RULES)
    ended = await ds4watch("check", cwd=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0] == "ok  settings: ds4watch.yml"
    assert lines[1] == "ok  workers: tiny-full, tiny-quantized"
    assert any(line.startswith("ok  rules: ") for line in lines)


async def test_faults_of_all_files_come_together_with_their_places(tmp_path: Path) -> None:
    (tmp_path / "ds4watch.yml").write_text(
        "rules: [a.yml]\npolicy: p.yml\nfleet: {workers: [{profile: gone}], profiles_dir: own}\n"
    )
    (tmp_path / "a.yml").write_text(RULES.replace("> 5", "> > 5"))
    (tmp_path / "p.yml").write_text("dry_runn: true\n")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "bad.yml").write_text("name: bad\nengine: tgi\n")
    ended = await ds4watch("check", cwd=tmp_path)
    assert ended.code == 2
    starts = [
        "ds4watch: ds4watch.yml:3: fleet.workers[0].profile: there is no profile gone",
        "ds4watch: own/bad.yml:1: served_names: is missing",
        "ds4watch: own/bad.yml:2: engine: must be one of 'vllm' or 'sim', got \"tgi\"",
        "ds4watch: a.yml:",
        "ds4watch: p.yml:1: dry_runn: unknown key (did you mean `dry_run`?)",
    ]
    lines = ended.err.splitlines()
    assert len(lines) == len(starts), ended.err
    for line, start in zip(lines, starts, strict=True):
        assert line.startswith(start)

    asked = await ds4watch("check", "--json", cwd=tmp_path)
    assert asked.code == 2
    assert len(json.loads(asked.out)["findings"]) == len(starts)


async def test_golden_sets_of_ones_own_are_read_and_each_bad_line_told(tmp_path: Path) -> None:
    (tmp_path / "ds4watch.yml").write_text("quality: {golden_sets: ['*.jsonl']}\n")
    good = {"id": "a", "class": "c", "prompt": "1?", "judge": {"kind": "exact", "answer": "1"}}
    (tmp_path / "a.jsonl").write_text(json.dumps(good) + "\n")
    ended = await ds4watch("check", cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert "ok  golden sets" in ended.out.splitlines()

    (tmp_path / "b.jsonl").write_text("\n" + json.dumps(good) + "\n")
    ended = await ds4watch("check", cwd=tmp_path)
    assert ended.code == 2
    assert ended.err == "ds4watch: b.jsonl:2: the id 'a' is there twice, first in a.jsonl:1\n"

    bad = good | {"judge": {"kind": "guess"}}
    (tmp_path / "a.jsonl").write_text(json.dumps(good) + "\n{\n")
    (tmp_path / "b.jsonl").write_text(json.dumps(bad) + "\n")
    ended = await ds4watch("check", cwd=tmp_path)
    assert ended.code == 2
    first, second = ended.err.splitlines()
    assert first.startswith("ds4watch: a.jsonl:2: ")
    assert second.startswith("ds4watch: b.jsonl:1: there is no judge 'guess'")


PROFILE = (
    "name: big\nmodel: org/big\nserved_names: [big]\nmax_model_len: 4096\nexpected_tokens: 1000\n"
    "max_num_seqs: 4\ngpu_kind: L4\ngpus: 1\n"
    "geometry: {layers: 32, kv_heads: 8, head_dim: 128, weights_mib: 8000}\n"
)


async def test_profiles_are_linted_and_a_warning_alone_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "ds4watch.yml").write_text("fleet: {profiles_dir: own}\n")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "big.yml").write_text(PROFILE)
    ended = await ds4watch("check", cwd=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines()[-1] == (
        "warning  own/big.yml:8: gpus: has no price: 1 GPU(s) are charged as any worker, "
        "0.95 USD an hour (add price_gpu_hour)"
    )

    (tmp_path / "own" / "big.yml").write_text(
        PROFILE.replace("seqs: 4", "seqs: 256") + "engine_args: [--enforce-egaer]\n"
    )
    ended = await ds4watch("check", cwd=tmp_path)
    assert ended.code == 2
    errors = ended.err.splitlines()
    assert "own/big.yml:6: max_num_seqs: 256 sequences of 1000 tokens x 128 KiB" in errors[0]
    assert "(did you mean --enforce-eager?)" in errors[1]
    assert ended.out.startswith("warning  own/big.yml:8: gpus")

    asked = await ds4watch("check", "--json", cwd=tmp_path)
    assert asked.code == 2
    told = [(it["severity"], it["line"]) for it in json.loads(asked.out)["findings"]]
    assert told == [("error", 6), ("warning", 8), ("error", 10)]


async def test_keys_of_workers_are_looked_for_in_their_files(tmp_path: Path) -> None:
    external = "{name: w, url: 'http://127.0.0.1:9', api_key_file: w.key}"
    (tmp_path / "ds4watch.yml").write_text(f"fleet: {{external: [{external}]}}\n")
    ended = await ds4watch("check", cwd=tmp_path)
    assert ended.code == 2
    assert "fleet.external.w.api_key_file: cannot read" in ended.err
    (tmp_path / "w.key").write_text("s3cret\n")
    ended = await ds4watch("check", cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert "ok  workers' API keys" in ended.out.splitlines()
