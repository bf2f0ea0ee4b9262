"""What a simulated worker is told when it starts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ds4watch.model.errors import ConfigError, Located


@dataclass(frozen=True, slots=True)
class SimSettings:
    """One simulated worker; rates are tokens per second, the decode rate is for each sequence."""

    served_names: tuple[str, ...] = ("sim",)
    max_num_seqs: int = 8
    max_model_len: int = 8192
    max_num_batched_tokens: int = 2048
    kv_blocks: int = 4096
    block_size: int = 16
    prefill_tokens_per_second: float = 8000.0
    decode_tokens_per_second: float = 50.0
    startup_seconds: float = 0.0
    first_request_seconds: float = 0.0
    wake_seconds: float = 0.0
    precision_noise: float = 0.0
    dev_mode: bool = False
    seed: int = 1


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Where simulated workers listen, and how they stop."""

    host: str = "127.0.0.1"
    port: int = 8201
    count: int = 1
    shutdown_timeout_seconds: float = 0.0
    faults: tuple[str, ...] = ()
    api_keys: tuple[str, ...] = field(default=(), repr=False)


def check(settings: SimSettings, server: ServerSettings) -> None:
    """Raise ConfigError with one finding for each value that no worker could run with."""
    findings = tuple(_findings(settings, server))
    if findings:
        raise ConfigError(*findings)


def _findings(settings: SimSettings, server: ServerSettings) -> Iterator[Located]:
    if not settings.served_names:
        yield Located("no model name", field="--served-model-name", mend="give at least one")
    if server.port and server.port + server.count - 1 > 65535:
        yield Located(
            f"{server.count} ports from {server.port} end beyond 65535",
            field="--count",
            mend="lower --port or --count, or use --port 0",
        )
    capacity = settings.kv_blocks * settings.block_size
    if capacity < settings.max_model_len:
        yield Located(
            f"{settings.kv_blocks} blocks of {settings.block_size} hold {capacity} tokens, and one "
            f"request of {settings.max_model_len} tokens would not fit",
            field="--kv-blocks",
            mend="raise --kv-blocks or lower --max-model-len",
        )
