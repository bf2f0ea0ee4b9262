"""A worker profile: what to start, and what it costs to know about it."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, model_validator

from ds4watch.config.section import Section


class Engine(StrEnum):
    """What runs behind a worker's port."""

    VLLM = "vllm"
    SIM = "sim"


class Prepare(StrEnum):
    """How a missing model folder is made."""

    TINY_MODEL = "tiny-model"


class Profile(Section):
    """One file of `serving/profiles/`."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,62}$", description="Name; the file's stem.")
    engine: Engine = Field(Engine.VLLM, description="vllm, or sim for the simulated worker.")
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
    max_num_seqs: int | None = Field(None, ge=1, description="Sequences in one batch.")
    engine_args: tuple[str, ...] = Field((), description="Further arguments, as given to vllm.")
    cpu_args: tuple[str, ...] = Field((), description="Arguments added without a GPU.")
    environment: dict[str, str] = Field(default_factory=dict, description="Environment.")
    cpu_environment: dict[str, str] = Field(
        default_factory=dict, description="Environment added without a GPU."
    )

    @model_validator(mode="after")
    def _vllm_needs_a_model(self) -> Profile:
        if self.engine is Engine.VLLM and self.model is None:
            message = "a vllm profile needs `model`"
            raise ValueError(message)
        return self
