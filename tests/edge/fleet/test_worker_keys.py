"""Keys of workers: kept for who talks to them, in the environment of who is started."""

from __future__ import annotations

import logging
from pathlib import Path

import aiohttp
import pytest

from ds4watch.config.external import ExtraWorker
from ds4watch.config.profile import Profile
from ds4watch.config.settings import FleetSettings
from ds4watch.fleet.backend import LocalBackend
from ds4watch.fleet.client import WorkerClient
from ds4watch.fleet.command import revision
from ds4watch.fleet.plan import check_keys, wanted_specs
from ds4watch.fleet.process import ProcessTable
from ds4watch.fleet.recipe import WorkerSpec
from ds4watch.fleet.worker_keys import WorkerKeys
from ds4watch.model.errors import ConfigError, WorkerError
from ds4watch.sim.server import RunningWorker
from ds4watch.sim.settings import SimSettings
from tests.edge.clock import SystemClock
from tests.edge.fleet.fleets import place_of, sim, until_up
from tests.flow.daemon import free_ports

PROFILE = Profile(name="p", served_names=("m",), model="org/model")


def own(**more: str) -> WorkerSpec:
    return WorkerSpec("p-0", PROFILE.model_copy(update=more))


def theirs(base: Path, **more: str) -> WorkerSpec:
    worker = ExtraWorker(name="theirs", url="http://127.0.0.1:9", **more)
    (spec,) = wanted_specs([], {}, FleetSettings(external=(worker,)), base)
    return spec


def test_a_key_is_kept_for_this_user_alone_until_the_next_start(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("first\n")
    keys = WorkerKeys(tmp_path / "state", {})
    spec = own(api_key_file=str(source))
    assert keys.keep(spec) == {"VLLM_API_KEY": "first"}
    kept = Path(keys.file_of(spec) or "")
    assert kept.read_text() == "first\n"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.parent.stat().st_mode & 0o777 == 0o700
    source.write_text("second")
    keys.note("http://w", str(kept))
    assert keys.at("http://w") == "first"  # which is what it was started with
    keys.keep(spec)
    assert keys.at("http://w") == "second"


def test_a_worker_without_a_key_gets_none(tmp_path: Path) -> None:
    keys = WorkerKeys(tmp_path, {"VLLM_API_KEY": "ours"})
    assert keys.keep(own()) == {}
    assert keys.file_of(own()) is None
    assert keys.at("http://w") == ""
    assert not list(tmp_path.iterdir())


def test_the_file_of_somebody_elses_worker_is_read_itself(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("one")
    keys = WorkerKeys(tmp_path / "state", {"THEIR_KEY": "of-the-environment"})
    by_file = theirs(tmp_path, api_key_file="key")
    assert keys.join(by_file) == str(tmp_path / "key")
    by_name = theirs(tmp_path, api_key_env="THEIR_KEY")
    keys.note("http://w", keys.join(by_name))
    assert keys.at("http://w") == "of-the-environment"
    keys.note("http://w", None)
    assert keys.at("http://w") == ""


def test_keys_of_workers_that_are_gone_are_removed(tmp_path: Path) -> None:
    keys = WorkerKeys(tmp_path, {"A": "k"})
    keys.keep_only({"p-0"})
    keys.keep(own(api_key_env="A"))
    keys.keep_only({"p-0"})
    assert [it.name for it in (tmp_path / "worker-keys").iterdir()] == ["p-0"]
    keys.keep_only({"p-1"})
    assert not list((tmp_path / "worker-keys").iterdir())


def test_what_cannot_be_read_is_told_once_and_not_started(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keys = WorkerKeys(tmp_path, {})
    with pytest.raises(WorkerError, match="no API key: cannot read"):
        keys.keep(own(api_key_file=str(tmp_path / "missing")))
    with pytest.raises(WorkerError, match="no API key: the variable GONE is empty"):
        keys.keep(own(api_key_env="GONE"))
    caplog.set_level(logging.WARNING)
    keys.note("http://w", str(tmp_path / "missing"))
    assert [keys.at("http://w") for _ in range(3)] == ["", "", ""]
    assert caplog.text.count("is asked without its API key") == 1


def test_missing_keys_are_found_before_a_start(tmp_path: Path) -> None:
    specs = [
        own(api_key_file=str(tmp_path / "missing")),
        own(api_key_file=str(tmp_path / "missing")),
        theirs(tmp_path, api_key_env="GONE"),
    ]
    with pytest.raises(ConfigError) as caught:
        check_keys(specs, {}, "ds4watch.yml", on_ray=False)
    told = [(it.file, it.field) for it in caught.value.findings]
    assert told == [
        ("p.yml", "api_key_file"),
        ("ds4watch.yml", "fleet.external.theirs.api_key_env"),
    ]
    with pytest.raises(ConfigError, match="Ray's dashboard"):
        check_keys([own(api_key_env="A")], {"A": "k"}, None, on_ray=True)
    check_keys([own(api_key_env="A"), own()], {"A": "k"}, None, on_ray=False)
    check_keys([own(api_key_env="A")], None, None, on_ray=False)  # not the daemon's environment


def test_another_source_is_another_version_another_key_is_none(tmp_path: Path) -> None:
    def of(profile: Profile) -> str:
        return revision(profile, python=Path("/p"), state_dir=tmp_path, has_gpu=True)

    plain, keyed = PROFILE, PROFILE.model_copy(update={"api_key_env": "A"})
    assert of(plain) != of(keyed)
    assert of(keyed) == of(PROFILE.model_copy(update={"api_key_env": "A"}))


async def test_a_worker_that_we_start_has_its_key_in_the_environment_alone(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("s3cret-of-ours")
    plain = sim()
    profile = plain.profile.model_copy(update={"api_key_file": str(tmp_path / "key")})
    spec = WorkerSpec(plain.id, profile)
    (port,) = free_ports(1)
    place = place_of(tmp_path / "state", port)
    backend = LocalBackend(place, ProcessTable(place.state_dir, SystemClock()), SystemClock())
    await backend.start(spec)
    try:
        url = await until_up(backend, spec)
        arguments = Path(f"/proc/{backend.pid(spec)}/cmdline").read_bytes()
        async with aiohttp.ClientSession() as session:
            with pytest.raises(WorkerError, match=r"401 .*its API key is missing"):
                await WorkerClient(session, url).canary("sim")
            keyed = WorkerClient(session, url, api_key="s3cret-of-ours")
            assert (await keyed.canary("sim")).completion_tokens > 0
            assert await keyed.models() == ("sim",)
    finally:
        await backend.stop(spec)
    assert b"s3cret" not in arguments
    for record in (place.state_dir / "run").glob("*"):
        assert "s3cret" not in record.read_text()


async def test_a_simulated_worker_asks_for_its_key_where_vllm_does() -> None:
    running = RunningWorker(SimSettings(), api_keys=("k1", "k2"))
    async with running, aiohttp.ClientSession() as session:
        asked = {"": 401, "Bearer no": 401, "Basic k1": 401, "bearer k2": 200}
        for given, expected in asked.items():
            headers = {"Authorization": given} if given else {}
            async with session.get(f"{running.url}/v1/models", headers=headers) as answer:
                assert answer.status == expected
                if expected == 401:
                    assert await answer.json() == {"error": "Unauthorized"}
        for path in ("/health", "/metrics", "/version"):
            async with session.get(running.url + path) as answer:
                assert answer.status == 200
