"""What exporters of GPU readings call things: NVIDIA's DCGM exporter, and those of nvidia-smi.

"Not available" on their pages is a value: int32, int64 or float blank, all far over any reading.
"""

from __future__ import annotations

from ds4watch.vocabulary.table import RATIO, Meaning, Pick, Source, plain

MEMORY_USED = "ds4_gpu_memory_used_bytes"
MEMORY_TOTAL = "ds4_gpu_memory_total_bytes"
UTILIZATION = "ds4_gpu_utilization_ratio"
UNAVAILABLE = "ds4_gpu_unavailable"
POWER = "ds4_gpu_power_watts"
TEMPERATURE = "ds4_gpu_temperature_celsius"
XID = "ds4_gpu_last_xid"
ECC = "ds4_gpu_ecc_errors_total"

ON_MIG = "MIG is on: not measurable for the whole GPU"
UNIFIED = "no memory of its own: the host's, unified"

OF_THE_BOARD = (POWER, TEMPERATURE, XID, ECC, UNAVAILABLE)
"""What DCGM repeats for each MIG instance, though it is the board's."""

_MIB = float(1 << 20)
_BYTES_UPPER = 1e15
_BLANK_INT32 = float(0x7FFFFFF0)
_WATTS_UPPER = 1e5
_CELSIUS_UPPER = 1000.0
_UTIL = "DCGM_FI_DEV_GPU_UTIL"
_ENGINE_ACTIVE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
_SMI = "nvidia_smi_"

MIG_MODES = ("DCGM_FI_DEV_MIG_MODE", f"{_SMI}mig_mode_current")
"""Of a board: over 0 where it is cut up, so that its utilisation means nothing."""


def _mebibytes(*names: str) -> tuple[Source, ...]:
    return (Source(tuple(Pick(name) for name in names), scale=_MIB),)


DEVICE_MEANINGS = (
    Meaning(
        MEMORY_USED,
        (*_mebibytes("DCGM_FI_DEV_FB_USED"), *plain(f"{_SMI}memory_used_bytes")),
        upper=_BYTES_UPPER,
    ),
    Meaning(
        MEMORY_TOTAL,
        (
            *_mebibytes("DCGM_FI_DEV_FB_TOTAL"),
            *_mebibytes("DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_RESERVED"),
            *_mebibytes("DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"),
            *plain(f"{_SMI}memory_total_bytes"),
        ),
        upper=_BYTES_UPPER,
    ),
    Meaning(
        UTILIZATION,
        (Source((Pick(_UTIL),), scale=0.01), *plain(f"{_SMI}utilization_gpu_ratio")),
        upper=RATIO,
    ),
    Meaning(
        POWER,
        plain("DCGM_FI_DEV_POWER_USAGE", f"{_SMI}power_draw_watts"),
        upper=_WATTS_UPPER,
    ),
    Meaning(
        TEMPERATURE,
        plain("DCGM_FI_DEV_GPU_TEMP", f"{_SMI}temperature_gpu"),
        upper=_CELSIUS_UPPER,
    ),
    Meaning(XID, plain("DCGM_FI_DEV_XID_ERRORS"), upper=_BLANK_INT32 - 1),
    Meaning(
        ECC,
        plain(
            "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL",
            "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
            f"{_SMI}ecc_errors_corrected_aggregate_total",
            f"{_SMI}ecc_errors_corrected_volatile_total",
        ),
        labels=(("kind", "corrected"),),
        upper=_BLANK_INT32 - 1,
    ),
    Meaning(
        ECC,
        plain(
            "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL",
            "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
            f"{_SMI}ecc_errors_uncorrected_aggregate_total",
            f"{_SMI}ecc_errors_uncorrected_volatile_total",
        ),
        labels=(("kind", "uncorrected"),),
        upper=_BLANK_INT32 - 1,
    ),
)

OF_AN_INSTANCE = Meaning(UTILIZATION, plain(_ENGINE_ACTIVE), upper=RATIO)
"""How busy a MIG instance is, of which GPU_UTIL knows nothing."""

MIG_IS_ON = Meaning(
    UNAVAILABLE,
    plain(*MIG_MODES),
    labels=(("reading", "utilization"), ("why", ON_MIG)),
    upper=RATIO,
    no_zero=("",),
)
