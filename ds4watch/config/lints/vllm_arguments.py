"""The names of the arguments of vLLM's server, one version's; to know a misspelt one.

Made by tests/integration/dump_vllm_arguments.py, and compared with vLLM by a test beside it. A
name is written without its `--`; `[no-]x` is a switch with an opposite; after a comma come other
names of the same argument.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

VERSION: Final = "0.32.0"
_NAMES: Final = """
[no-]allow-credentials [no-]allow-deprecated-quantization [no-]async-scheduling
[no-]cohere-is-reasoning-model [no-]cudagraph-metrics [no-]data-parallel-external-lb,-dpe
[no-]data-parallel-hybrid-lb,-dph [no-]dcp-q-replicate [no-]disable-cascade-attn
[no-]disable-chunked-mm-input [no-]disable-custom-all-reduce [no-]disable-fastapi-docs
[no-]disable-hybrid-kv-cache-manager [no-]disable-nccl-for-dp-synchronization
[no-]disable-sliding-window [no-]disable-uvicorn-access-log [no-]enable-auto-tool-choice
[no-]enable-batch-sharded-sampling [no-]enable-chunked-prefill [no-]enable-cumem-allocator
[no-]enable-dbo [no-]enable-elastic-ep [no-]enable-ep-weight-filter [no-]enable-eplb
[no-]enable-expert-parallel,-ep [no-]enable-fault-tolerance [no-]enable-flash-late-interaction
[no-]enable-flashinfer-autotune [no-]enable-force-include-usage [no-]enable-hc-sp
[no-]enable-layerwise-nvtx-tracing [no-]enable-log-deltas [no-]enable-log-outputs
[no-]enable-log-requests [no-]enable-logging-iteration-details [no-]enable-lora
[no-]enable-mamba-cache-stochastic-rounding [no-]enable-mamba-shared-prefix-checkpoint
[no-]enable-mfu-metrics [no-]enable-mixed-moe-lora-format [no-]enable-mm-embeds
[no-]enable-moe-shared-loras [no-]enable-nccl-comm-suspend [no-]enable-offline-docs
[no-]enable-per-request-metrics [no-]enable-prefix-caching [no-]enable-prompt-embeds
[no-]enable-prompt-tokens-details [no-]enable-request-id-headers
[no-]enable-return-routed-experts [no-]enable-scale-out [no-]enable-server-load-tracking
[no-]enable-shm-tensor-arena [no-]enable-sleep-mode [no-]enable-ssl-refresh
[no-]enable-tokenizer-info-endpoint [no-]enable-tower-connector-lora [no-]enable-trace-replay
[no-]enforce-eager [no-]exclude-tools-when-tool-choice-none [no-]fail-on-environ-validation
[no-]fully-sharded-loras [no-]interleave-mm-strings [no-]jit-monitor-verbose
[no-]kv-cache-metrics [no-]kv-sharing-fast-prefill [no-]language-model-only [no-]log-error-stack
[no-]long-prefill-token-threshold-adaptive [no-]mm-device-do-normalize [no-]mm-encoder-only
[no-]numa-bind [no-]ray-workers-use-nsight [no-]return-sampling-mask
[no-]return-tokens-as-token-ids [no-]scheduler-reserve-full-isl [no-]skip-mm-profiling
[no-]skip-tokenizer-init [no-]sleep-mode-offload-cudagraph [no-]specialize-active-lora
[no-]swa-bounded-replay [no-]tokens-only [no-]trust-remote-code [no-]trust-request-chat-template
[no-]trust-request-mm-kwargs [no-]use-fp64-gumbel [no-]use-replayssm [no-]use-tqdm-on-load
additional-config aggregate-engine-logging all2all-backend allowed-headers
allowed-local-media-path allowed-media-domains allowed-methods allowed-origins
anthropic-disabled-thinking-effort api-key api-server-count,-asc attention-backend
attention-config,-ac aux-output-config block-size chat-template chat-template-content-format
code-revision cohere-format collect-detailed-traces compilation-config,-cc config config-format
convert cp-kv-cache-interleave-size cpu-distributed-timeout-seconds cpu-offload-gb
cpu-offload-params cudagraph-capture-sizes custom-histogram-buckets data-parallel-address,-dpa
data-parallel-backend,-dpb data-parallel-multi-port-external-lb,-dpm data-parallel-rank,-dpn
data-parallel-rpc-port,-dpp data-parallel-size,-dp data-parallel-size-local,-dpl
data-parallel-start-rank,-dpr data-parallel-supervisor-port dbo-decode-token-threshold
dbo-prefill-token-threshold dcp-comm-backend dcp-kv-cache-interleave-size
decode-context-parallel-size,-dcp default-chat-template-kwargs default-mm-loras device-ids
device-memory-utilization,--gpu-memory-utilization diffusion-config,-dc
disable-access-log-for-endpoints disable-log-stats distributed-executor-backend
distributed-timeout-seconds download-dir dp-supervisor-probe-failure-threshold
dp-supervisor-probe-interval-s dp-supervisor-probe-timeout-s dp-sync-interval dtype
ec-manager-config ec-transfer-config elastic-ep-max-dp-size engram-config eplb-config
expert-placement-strategy fault-tolerance-config fingerprint-mode fingerprint-value
gdn-prefill-backend generation-config grpc grpc-port h11-max-header-count
h11-max-incomplete-event-size headless help,-h hf-config-path hf-overrides hf-token host
ignore-patterns io-processor-plugin ir-op-priority jit-monitor-mode kda-decode-backend
kda-prefill-backend kernel-config kv-cache-dtype kv-cache-dtype-skip-layers
kv-cache-memory-bytes kv-cache-metrics-sample kv-events-config kv-offloading-backend
kv-offloading-size kv-transfer-config limit-mm-per-prompt linear-backend load-format
log-config-file log-level logging-config logits-processors logprobs-mode
long-prefill-token-threshold lora-dtype lora-modules lora-target-modules mamba-backend
mamba-block-size mamba-cache-dtype mamba-cache-mode mamba-cache-philox-rounds
mamba-ssm-cache-dtype mamba-ssu-algorithm master-addr master-port max-cpu-loras
max-cudagraph-capture-size max-log-len max-logprobs max-lora-cls-labels max-lora-rank max-loras
max-model-len max-num-active-seqs max-num-batched-tokens max-num-queued-reqs
max-num-queued-tokens max-num-scheduled-tokens max-num-seqs max-parallel-loading-workers
media-io-kwargs middleware mm-encoder-attn-backend mm-encoder-attn-dtype
mm-encoder-fp8-scale-path mm-encoder-fp8-scale-save-margin mm-encoder-fp8-scale-save-path
mm-encoder-tp-mode mm-hasher-algorithm mm-ipc-gpu-memory-gb mm-processor-cache-gb
mm-processor-cache-type mm-processor-device mm-processor-kwargs mm-shm-cache-max-object-size-mb
mm-tensor-ipc model model-class-overrides model-impl model-loader-extra-config moe-backend
nnodes,-n node-rank,-r num-gpu-blocks-override numa-bind-cpus numa-bind-nodes offload-backend
offload-group-size offload-num-in-group offload-params offload-prefetch-step optimization-level
otlp-traces-endpoint override-generation-config per-request-spec-decode-metrics performance-mode
pipeline-parallel-size,-pp pooler-config port prefill-context-parallel-size,-pcp
prefill-schedule-interval prefix-cache-retention-interval prefix-caching-hash-algo
prefix-match-unit profiler-config pt-load-map-location quantization,-q quantization-config
reasoning-config reasoning-parser reasoning-parser-plugin renderer-num-workers
replayssm-buffer-len response-role revision root-path runner safetensors-load-strategy
safetensors-prefetch-block-size safetensors-prefetch-num-threads scheduler-cls scheduling-policy
seed served-model-name show-hidden-metrics-for-version shutdown-timeout
sleep-preserve-parameter-names sparse-indexer-topk-backend spec-method spec-model spec-tokens
speculative-config,-sc sse-keep-alive-interval ssl-ca-certs ssl-cert-reqs ssl-certfile
ssl-ciphers ssl-keyfile stream-interval structured-outputs-config tensor-parallel-size,-tp
tokenizer tokenizer-mode tokenizer-revision tool-call-parser tool-parser-plugin tool-server
tool-strict-level ubatch-size uds uvicorn-log-level video-pruning-method video-pruning-rate
watermark watermark-config weight-transfer-config worker-cls worker-extension-cls
"""


def _spellings(entry: str) -> Iterator[str]:
    first, *others = entry.split(",")
    bare = first.removeprefix("[no-]")
    yield f"--{bare}"
    if bare != first:
        yield f"--no-{bare}"
    yield from others


ENTRIES: Final = tuple(_NAMES.split())
ARGUMENTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        spelling: f"--{entry.split(',')[0].removeprefix('[no-]')}"
        for entry in ENTRIES
        for spelling in _spellings(entry)
    }
)
"""Every spelling → the argument's own name, `--tensor-parallel-size` for `-tp`."""
