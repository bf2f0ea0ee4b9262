"""`ds4watch sim`: arguments only."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from ds4watch.cli.common import new_app
from ds4watch.sim.server import run
from ds4watch.sim.settings import ServerSettings, SimSettings

app = new_app()

_EXAMPLES = """Examples:

  ds4watch sim --port 8201 --served-model-name sim-full --served-model-name sim

  ds4watch sim --port 0 --count 300 --decode-tokens-per-second 20

  ds4watch sim --fault slow=4 --precision-noise 0.05 --dev-mode

  curl -d '{"fault": "hang", "on": true}' 127.0.0.1:8201/sim/fault
"""


@app.command(epilog=_EXAMPLES)
def sim(
    *,
    more_names: Annotated[
        list[str] | None,
        typer.Argument(help="Further served names, as after vllm's --served-model-name."),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to bind. There is no login: keep it on loopback.")
    ] = ("127.0.0.1"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="First port; 0: any free.")] = 8201,
    count: Annotated[int, typer.Option(min=1, max=2000, help="Workers, one port each.")] = 1,
    served_model_name: Annotated[
        list[str] | None, typer.Option(help="Name of the model; may be given several times.")
    ] = None,
    max_num_seqs: Annotated[int, typer.Option(min=1, help="Sequences in one batch.")] = 8,
    max_model_len: Annotated[int, typer.Option(min=16, help="Longest context.")] = 8192,
    max_num_batched_tokens: Annotated[
        int, typer.Option(min=1, help="Tokens in one step; longer prompts take several.")
    ] = 2048,
    kv_blocks: Annotated[int, typer.Option(min=1, help="Blocks of the KV cache.")] = 4096,
    block_size: Annotated[int, typer.Option(min=1, help="Tokens in one block.")] = 16,
    prefill_tokens_per_second: Annotated[
        float, typer.Option(min=0.001, help="Prompt tokens computed in a second.")
    ] = 8000.0,
    decode_tokens_per_second: Annotated[
        float, typer.Option(min=0.001, help="Tokens generated in a second, each sequence.")
    ] = 50.0,
    startup_seconds: Annotated[float, typer.Option(min=0, help="Time until it listens.")] = 0.0,
    first_request_seconds: Annotated[
        float, typer.Option(min=0, help="Extra time of the first step.")
    ] = 0.0,
    wake_seconds: Annotated[
        float, typer.Option(min=0, help="Time that waking up from sleep takes.")
    ] = 0.0,
    precision_noise: Annotated[
        float, typer.Option(min=0, help="Deviation added to log probabilities.")
    ] = 0.0,
    shutdown_timeout: Annotated[
        float, typer.Option(min=0, help="Seconds that open requests get at SIGTERM.")
    ] = 0.0,
    fault: Annotated[
        list[str] | None, typer.Option(help="Fault to start with: hang, slow=4, http_500=0.1, …")
    ] = None,
    api_key: Annotated[
        list[str] | None,
        typer.Option(
            envvar="VLLM_API_KEY", show_envvar=True, help="Key asked for under /v1, as vLLM does."
        ),
    ] = None,
    dev_mode: Annotated[bool, typer.Option(help="Add /sleep, /wake_up and the like.")] = False,
    seed: Annotated[int, typer.Option(help="Other seeds give other texts.")] = 1,
) -> None:
    """Run simulated vLLM workers by themselves: vLLM's API and metrics page without a model."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    names = (*(served_model_name or ()), *(more_names or ()))
    settings = SimSettings(
        served_names=names or ("sim",),
        max_num_seqs=max_num_seqs,
        max_model_len=max_model_len,
        max_num_batched_tokens=max_num_batched_tokens,
        kv_blocks=kv_blocks,
        block_size=block_size,
        prefill_tokens_per_second=prefill_tokens_per_second,
        decode_tokens_per_second=decode_tokens_per_second,
        startup_seconds=startup_seconds,
        first_request_seconds=first_request_seconds,
        wake_seconds=wake_seconds,
        precision_noise=precision_noise,
        dev_mode=dev_mode,
        seed=seed,
    )
    server = ServerSettings(
        host=host,
        port=port,
        count=count,
        shutdown_timeout_seconds=shutdown_timeout,
        faults=tuple(fault or ()),
        api_keys=tuple(api_key or ()),
    )
    code = run(settings, server, typer.echo)
    if code:
        raise typer.Exit(code)
