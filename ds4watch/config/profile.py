"""A worker profile: what to start, and what it costs to know about it."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, Field, model_validator

from ds4watch.config.api_key import EnvironmentName, see_to_one_source
from ds4watch.config.section import Seconds, Section
from ds4watch.model.worker import Ability


class Engine(StrEnum):
    """What runs behind a worker's port."""

    VLLM = "vllm"
    SIM = "sim"


class Prepare(StrEnum):
    """How a missing model folder is made."""

    TINY_MODEL = "tiny-model"


class WorkClass(StrEnum):
    """What kind of requests a worker is kept for."""

    ANY = "any"
    INTERACTIVE = "interactive"
    BATCH = "batch"
    LONG = "long"


class Geometry(Section):
    """The numbers of a model that its memory follows from, where its folder cannot be read."""

    layers: int | None = Field(None, ge=1, description="Layers with attention.")
    kv_heads: int | None = Field(None, ge=1, description="Key and value heads of a layer.")
    head_dim: int | None = Field(None, ge=1, description="Width of one head.")
    parameters: int | None = Field(
        None, ge=1, description="Parameters; weights are reckoned from it and `precision`."
    )
    weights_mib: float | None = Field(
        None, gt=0, description="Size of the weight files; goes before `parameters`."
    )


class PriceChange(Section):
    """What a GPU costs for an hour from an instant on. History is never priced anew."""

    price_gpu_hour: Decimal = Field(ge=0, description="Price of a GPU for an hour.")
    valid_from: AwareDatetime = Field(description="Instant from which it holds (UTC).")


class Profile(Section):
    """One file of `serving/profiles/`."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,62}$", description="Name; the file's stem.")
    engine: Engine = Field(Engine.VLLM, description="vllm, or sim for the simulated worker.")
    vllm_python: str | None = Field(
        None,
        description="Interpreter that has this profile's version of vLLM; absolute. Default: "
        "`fleet.vllm_python`.",
    )
    served_names: tuple[str, ...] = Field(
        min_length=1, description="Model names clients may ask for; the first is its own."
    )
    model: str | None = Field(
        None, description="Model folder or hub name; relative to the state folder with `prepare`."
    )
    prepare: Prepare | None = Field(None, description="How to make a missing model folder.")
    prepare_args: tuple[str, ...] = Field((), description="Arguments for the maker.")
    precision: str = Field("fp16", description="fp16, gptq-int4, awq-int3, mixed, …")
    reference: str | None = Field(
        None, description="Full-precision profile that a quantized one is compared with."
    )
    max_model_len: int | None = Field(None, ge=16, description="Longest context.")
    min_model_len: int | None = Field(
        None,
        ge=16,
        description="Shortest context that it may be restarted with when it ran out of memory; "
        "never shortened if not given.",
    )
    abilities: tuple[Ability, ...] = Field(
        (),
        description="What it can do beside text: `tools`, `structured` (JSON and other forms), "
        "`media`. It stands in for another model only in what is named here.",
    )
    max_num_seqs: int | None = Field(None, ge=1, description="Sequences in one batch.")
    max_inflight: int | None = Field(
        None,
        ge=1,
        description="Requests that the gateway has open at one worker at most; 16 times "
        "`max_num_seqs` if not given.",
    )
    engine_args: tuple[str, ...] = Field((), description="Further arguments, as given to vllm.")
    cpu_args: tuple[str, ...] = Field((), description="Arguments added without a GPU.")
    environment: dict[str, str] = Field(default_factory=dict, description="Environment.")
    cpu_environment: dict[str, str] = Field(
        default_factory=dict, description="Environment added without a GPU."
    )
    gpus: int | None = Field(
        None, ge=1, le=64, description="GPUs that one worker takes; those of its arguments if none."
    )
    gpu_share: float = Field(
        1.0,
        gt=0,
        le=1,
        description="Share that it takes of each; workers whose shares add up to 1 are on one GPU.",
    )
    gpu_kind: str | None = Field(
        None, min_length=1, description="Kind of GPU, as nvidia-smi names it: L4, L40S, H100, …"
    )
    gpu_memory_mib: float | None = Field(
        None, gt=0, description="Memory of one GPU, if its kind is not a known one."
    )
    reserve_mib: float = Field(
        2048.0, ge=0, description="Memory of each GPU for activations, CUDA graphs and the driver."
    )
    price_gpu_hour: Decimal | None = Field(
        None, ge=0, description="Price of a GPU for an hour; goes before cost.prices."
    )
    price_changes: tuple[PriceChange, ...] = Field(
        (), description="What `price_gpu_hour` is from later instants on."
    )
    work: WorkClass = Field(WorkClass.ANY, description="What kind of requests it is kept for.")
    expected_tokens: int | None = Field(
        None, ge=1, description="Prompt and answer of a usual request, for the check of the batch."
    )
    expected_start_seconds: Seconds | None = Field(
        None,
        description="Time from start to ready until measured; a start may take thrice that.",
    )
    api_key_file: str | None = Field(
        None,
        min_length=1,
        description="File that holds nothing but the API key that a worker is started with "
        "(`VLLM_API_KEY`) and asked with; relative to ds4watch.yml. Read as a worker starts.",
    )
    api_key_env: EnvironmentName | None = Field(
        None, description="The same from a variable of the daemon's own environment."
    )
    geometry: Geometry = Field(
        default_factory=Geometry, description="Numbers of a model that is not in a folder here."
    )

    sleep: bool = Field(
        default=False,
        description="Idle workers may be put to sleep: adds vLLM's sleep mode and development"
        " endpoints, on loopback only.",
    )
    warmup_lengths: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (16, 512, 2048),
        description="Lengths, in tokens, of the requests that a new worker answers before it is"
        " ready; what does not fit into max_model_len is left out.",
    )
    warmup_prompts: tuple[str, ...] = Field(
        (), description="Texts that it answers then, too: system prompts that many requests share."
    )

    @model_validator(mode="after")
    def _development_endpoints_stay_on_loopback(self) -> Profile:
        host = host_given(self.engine_args)
        if self.has_dev_mode and host is not None and not is_loopback(host):
            message = (
                f"`sleep` opens endpoints that no key guards, and `engine_args` bind {host}: "
                "leave out --host, or sleep (and VLLM_SERVER_DEV_MODE)"
            )
            raise ValueError(message)
        return self

    @property
    def key_source(self) -> str:
        """Where the API key of its workers comes from; empty if they ask for none."""
        if self.api_key_file is not None:
            return self.api_key_file
        return "" if self.api_key_env is None else f"${self.api_key_env}"

    @property
    def has_dev_mode(self) -> bool:
        """Whether its workers have vLLM's development endpoints."""
        is_told = self.environment.get("VLLM_SERVER_DEV_MODE", "0").strip() == "1"
        return self.sleep or is_told or "--dev-mode" in self.engine_args

    @model_validator(mode="after")
    def _key_has_one_source(self) -> Profile:
        see_to_one_source(self.api_key_file, self.api_key_env)
        return self

    @model_validator(mode="after")
    def _changes_are_of_a_price(self) -> Profile:
        if self.price_changes and self.price_gpu_hour is None:
            message = "`price_changes` say what `price_gpu_hour` becomes: give that, too"
            raise ValueError(message)
        return self

    @model_validator(mode="after")
    def _vllm_needs_a_model(self) -> Profile:
        if self.engine is Engine.VLLM and self.model is None:
            message = "a vllm profile needs `model`"
            raise ValueError(message)
        return self


def host_given(engine_args: Sequence[str]) -> str | None:
    """Return the address that engine arguments bind; None if they say nothing of it."""
    found = None
    for argument, following in zip(engine_args, (*engine_args[1:], ""), strict=False):
        flag, given, value = argument.partition("=")
        if flag == "--host":
            found = value if given else following
    return found


def is_loopback(host: str) -> bool:
    """Return whether an address to bind is reachable from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
