"""The Ray backend on a real Ray of one node, kept small. `make ray` installs it in .venv-ray."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import jsonschema_rs
import pytest
import yaml

from ds4watch.model.errors import WorkerError
from tests.conftest import ROOT, is_missing
from tests.edge.fleet.contract import Contract
from tests.edge.fleet.fleets import RayFleet, read, sim, until, until_up
from tests.flow.daemon import free_ports

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

_MIB = 1 << 20


def test_rays_own_schema_has_nothing_to_say_of_the_cluster_file() -> None:
    found = (ROOT / ".venv-ray").glob("lib/python3*/site-packages/ray/autoscaler/ray-schema.json")
    schema = next(found, None)
    if schema is None:
        is_missing("no Ray in .venv-ray (make ray)")
    text = (ROOT / "serving" / "ray" / "cluster.yml").read_text(encoding="utf-8")
    jsonschema_rs.validate(json.loads(schema.read_text(encoding="utf-8")), yaml.safe_load(text))


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Yield the address of the dashboard of a cluster that is ours alone."""
    program = Path(os.environ.get("DS4WATCH_RAY") or ROOT / ".venv-ray/bin/ray")
    if not program.exists():
        is_missing(f"no Ray: {program} is not there (make ray)")
    gcs, dashboard, client = free_ports(3)
    # Ray's sockets lie deep in this folder, and their paths may have 107 bytes
    with tempfile.TemporaryDirectory(prefix="r", ignore_cleanup_errors=True) as folder:
        head = subprocess.Popen(
            [
                *(program, "start", "--head", "--block", "--disable-usage-stats"),
                *("--num-cpus=4", "--num-gpus=0", f"--memory={512 * _MIB}"),
                *(f"--object-store-memory={80 * _MIB}", f"--temp-dir={folder}"),
                *("--node-ip-address=127.0.0.1", f"--port={gcs}"),
                *("--include-dashboard=true", "--dashboard-host=127.0.0.1"),
                *(f"--dashboard-port={dashboard}", f"--ray-client-server-port={client}"),
                *("--min-worker-port=0", "--max-worker-port=0"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert head.stdout is not None
        try:
            said = []
            for line in head.stdout:
                said.append(line)
                if "Ray runtime started" in line:
                    break
            else:
                pytest.fail("Ray did not start:\n" + "".join(said))
            yield f"http://127.0.0.1:{dashboard}"
        finally:
            head.terminate()
            head.wait(timeout=60)
            head.stdout.close()


class TestRay(Contract):
    @pytest.fixture
    async def fleet(self, cluster: str, state_dir: Path) -> AsyncIterator[RayFleet]:
        async with AsyncExitStack() as stack:
            yield RayFleet(state_dir, free_ports(1)[0], cluster, stack)


async def test_what_the_cluster_has_no_room_for_waits_and_can_be_called_off(
    cluster: str, state_dir: Path
) -> None:
    async with AsyncExitStack() as stack:
        backend = await RayFleet(state_dir, 8101, cluster, stack, cpus=1000.0).daemon()
        spec = sim()
        await backend.start(spec)
        assert backend.is_alive(spec)
        assert backend.url(spec) == ""
        assert await backend.stop(spec)


async def test_a_log_is_copied_whole_and_an_adopted_workers_again(
    cluster: str, state_dir: Path
) -> None:
    async with AsyncExitStack() as stack:
        fleet, spec = RayFleet(state_dir, free_ports(1)[0], cluster, stack), sim()
        first = await fleet.daemon()
        await first.start(spec)
        url = await until_up(first, spec)
        await until(lambda: url in read(first.log_path(spec)), "the log")
        await first.close()
        first.log_path(spec).write_text("")
        second = await fleet.daemon()
        await second.adopt([spec])
        assert read(second.log_path(spec)).count(f"the worker is at {url}") == 1
        assert await second.stop(spec)


async def test_a_cluster_that_is_away_is_said_so(state_dir: Path) -> None:
    async with AsyncExitStack() as stack:
        nowhere = f"http://127.0.0.1:{free_ports(1)[0]}"
        backend = await RayFleet(state_dir, 8101, nowhere, stack).daemon()
        with pytest.raises(WorkerError, match="Ray cannot be asked at http"):
            await backend.start(sim())
