"""Everything that is read and checked before anything is started."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from ds4watch.alerting.rulefile import RuleFile, read_rules
from ds4watch.config.files import (
    LoadedSettings,
    authorities_file,
    filter_file,
    load_profiles,
    policy_file,
    read_filter,
    read_text,
    rule_files,
    wanted_workers,
)
from ds4watch.config.lints.findings import Lint
from ds4watch.config.profile import Profile
from ds4watch.config.settings import BackendKind, Settings
from ds4watch.cost.prices import PriceEntry
from ds4watch.engine.cost_plan import gpu_model, prices_of
from ds4watch.engine.order_check import check_order
from ds4watch.engine.remote_source import elsewhere_of
from ds4watch.engine.rolling_files import FleetFiles
from ds4watch.engine.rulebook import RuleBook
from ds4watch.fleet.plan import check_keys, check_specs, find_vllm, wanted_specs
from ds4watch.fleet.recipe import WorkerSpec
from ds4watch.model.errors import ConfigError, Located
from ds4watch.model.ports import Clock
from ds4watch.policy.policyfile import PolicyFile, load_policy
from ds4watch.scrape.gpu_watch import GpuWatch
from ds4watch.scrape.groups import ScrapePlan, scrape_plan
from ds4watch.scrape.nvml import GpuReader
from ds4watch.scrape.remote_plan import RemoteOptions, remote_options
from ds4watch.shaping.filter_rules import compile_filter

_GPU_SECONDS = 10.0
"""Opening NVML takes seconds where the driver does not stay loaded."""


@dataclass(frozen=True, slots=True)
class Blueprint:
    """Everything that is read before anything is started."""

    settings: Settings
    state_dir: Path
    specs: tuple[WorkerSpec, ...]
    profiles: Mapping[str, Profile]
    vllm_python: Path
    gpus: GpuWatch
    has_gpu: bool
    rules: RuleBook
    policy: PolicyFile
    prices: tuple[PriceEntry, ...]
    scrape: ScrapePlan = field(default_factory=ScrapePlan)
    remote: RemoteOptions | None = None
    """The server that evaluates rules, if one does."""
    file: Path | None = None
    sim: bool = False
    out_of_order: tuple[Lint, ...] = ()
    """What of it does not go together, and is no reason not to start."""

    @property
    def fleet_files(self) -> FleetFiles:
        """Where the fleet is read anew."""
        return FleetFiles(
            loaded=LoadedSettings(self.settings, self.file),
            sim=self.sim,
            state_dir=self.state_dir,
            vllm_python=self.vllm_python,
            has_gpu=self.has_gpu,
        )


class Faults:
    """Gathers what several readings find, so that a person is told everything at once."""

    def __init__(self) -> None:
        self._findings: list[Located] = []

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if isinstance(error, ConfigError):
            self._findings += error.findings
            return True
        return False

    def raise_if_any(self) -> None:
        """Raise ConfigError with all findings, if there are any."""
        if self._findings:
            raise ConfigError(*self._findings)


def read_blueprint(
    loaded: LoadedSettings, state_dir: Path, clock: Clock, *, sim: bool
) -> Blueprint:
    """Read and check all files. Raises ConfigError with the findings of all of them."""
    settings = loaded.settings
    workers = wanted_workers(settings, sim=sim)
    vllm_python = find_vllm(settings.fleet, loaded.base, os.environ)
    faults = Faults()
    profiles: Mapping[str, Profile] = {}
    specs: tuple[WorkerSpec, ...] = ()
    read: list[RuleFile] = []
    policy = PolicyFile()
    scrape = ScrapePlan()
    with faults:
        scrape = scrape_plan(loaded)
    with faults:
        profiles = load_profiles(loaded, tuple(worker.profile for worker in workers))
        specs = wanted_specs(workers, profiles, settings.fleet, loaded.base)
        on_ray = settings.fleet.backend is BackendKind.RAY
        if not on_ray:  # whose nodes have a vLLM of their own
            check_specs(specs, vllm_python, loaded.named)
        check_keys(specs, os.environ, loaded.named, on_ray=on_ray)
    files: tuple[Path, ...] = ()
    with faults:
        files = rule_files(loaded)
    for file in files:
        with faults:
            read.append(read_rules(read_text(file), str(file)))
    remote: RemoteOptions | None = None
    with faults:
        remote = remote_options(loaded)
    rules = RuleBook(())
    with faults:
        groups = [group for file in read for group in file.groups]
        rules = RuleBook(groups, elsewhere_of(loaded))
    with faults:
        policy = load_policy(read_text(policy_file(loaded)), str(policy_file(loaded)))
    with faults:
        settings = _with_gateway_files(loaded)
    faults.raise_if_any()
    gpus = GpuWatch(GpuReader(clock))
    reading = gpus.read_blocking(_GPU_SECONDS)
    return Blueprint(
        settings=settings,
        state_dir=state_dir,
        specs=specs,
        profiles=profiles,
        vllm_python=vllm_python,
        gpus=gpus,
        has_gpu=reading.has_gpu,
        rules=rules,
        policy=policy,
        prices=prices_of(settings, profiles, gpu_model(reading)),
        scrape=scrape,
        remote=remote,
        file=loaded.file,
        sim=sim,
        out_of_order=check_order(
            settings,
            profiles,
            workers,
            read,
            policy,
            file=loaded.named,
        ),
    )


def _with_gateway_files(loaded: LoadedSettings) -> Settings:
    """Return the settings with the gateway's files as gateways find them; they are in order."""
    found = {"output_filter": filter_file(loaded), "tls_ca_file": authorities_file(loaded)}
    if found["output_filter"] is not None:
        path = found["output_filter"]
        compile_filter(read_filter(path)[0], str(path))
    update = {name: str(path) for name, path in found.items() if path is not None}
    gateway = loaded.settings.gateway.model_copy(update=update)
    return loaded.settings.model_copy(update={"gateway": gateway})
