"""What pages of GPU exporters mean: units, blanks, MIG, pods that share, devices without memory."""

from __future__ import annotations

import pytest

from ds4watch.vocabulary.compile import Origin
from tests.unit.vocabulary.pages import DATA, Found, Page, signals

GPU = 'gpu="0",UUID="GPU-a",Hostname="node"'
HERE = ("0", "node", "GPU-a")
AT = Origin("exporter", "box")


def of_gpu(name: str, found: Found) -> float | None:
    return found.get((name, *HERE))


def test_dcgm_is_read_in_our_units() -> None:
    found = signals(
        {
            f"DCGM_FI_DEV_FB_USED{{{GPU}}}": 4096.0,
            f"DCGM_FI_DEV_FB_FREE{{{GPU}}}": 77000.0,
            f"DCGM_FI_DEV_FB_RESERVED{{{GPU}}}": 500.0,
            f"DCGM_FI_DEV_GPU_UTIL{{{GPU}}}": 87.0,
            f"DCGM_FI_DEV_POWER_USAGE{{{GPU}}}": 312.5,
            f"DCGM_FI_DEV_GPU_TEMP{{{GPU}}}": 61.0,
            f"DCGM_FI_DEV_XID_ERRORS{{{GPU}}}": 79.0,
            f"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL{{{GPU}}}": 3.0,
            f"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{{{GPU}}}": 0.0,
        },
        AT,
    )
    mib = 1 << 20
    assert of_gpu("ds4_gpu_memory_used_bytes", found) == 4096 * mib
    assert of_gpu("ds4_gpu_memory_total_bytes", found) == (4096 + 77000 + 500) * mib
    assert of_gpu("ds4_gpu_utilization_ratio", found) == pytest.approx(0.87)
    assert of_gpu("ds4_gpu_power_watts", found) == 312.5
    assert of_gpu("ds4_gpu_temperature_celsius", found) == 61
    assert of_gpu("ds4_gpu_last_xid", found) == 79
    assert found["ds4_gpu_ecc_errors_total", "0", "node", "corrected", "GPU-a"] == 3
    assert found["ds4_gpu_ecc_errors_total", "0", "node", "uncorrected", "GPU-a"] == 0


@pytest.mark.parametrize(
    "blank", [2147483632.0, 2147483647.0, 9223372036854775794.0, 140737488355328.0]
)
def test_a_blank_is_not_available_and_never_a_number(blank: float) -> None:
    names = ("FB_USED", "FB_FREE", "GPU_UTIL", "POWER_USAGE", "GPU_TEMP", "XID_ERRORS")
    page = {f"DCGM_FI_DEV_{name}{{{GPU}}}": blank for name in names}
    assert {key[0] for key in signals(page, AT)} <= {"ds4_gpu_unavailable"}


def test_pods_that_share_a_gpu_do_not_multiply_it() -> None:
    page = {
        f'DCGM_FI_DEV_{name}{{{GPU},pod="{pod}"}}': value
        for pod in "abc"
        for name, value in (("FB_USED", 10.0), ("FB_FREE", 30.0), ("POWER_USAGE", 100.0))
    }
    found = signals(page, AT)
    assert of_gpu("ds4_gpu_memory_total_bytes", found) == 40 << 20
    assert of_gpu("ds4_gpu_power_watts", found) == 100


def test_case_71_on_mig_the_boards_utilisation_is_not_measurable_and_never_zero() -> None:
    found = signals(
        {
            f'DCGM_FI_DEV_GPU_UTIL{{{GPU},GPU_I_ID="1",GPU_I_PROFILE="1g.10gb"}}': 0.0,
            f'DCGM_FI_DEV_FB_USED{{{GPU},GPU_I_ID="1",GPU_I_PROFILE="1g.10gb"}}': 10.0,
            f'DCGM_FI_DEV_FB_FREE{{{GPU},GPU_I_ID="1",GPU_I_PROFILE="1g.10gb"}}': 90.0,
            f'DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{GPU},GPU_I_ID="1"}}': 0.75,
            f'DCGM_FI_DEV_POWER_USAGE{{{GPU},GPU_I_ID="1"}}': 100.0,
            f'DCGM_FI_DEV_POWER_USAGE{{{GPU},GPU_I_ID="2"}}': 100.0,
            f"DCGM_FI_DEV_GPU_UTIL{{{GPU}}}": 0.0,
        },
        AT,
    )
    assert of_gpu("ds4_gpu_utilization_ratio", found) is None
    assert found["ds4_gpu_utilization_ratio", "0", "node", "1", "GPU-a"] == 0.75
    assert found["ds4_gpu_memory_used_bytes", "0", "node", "1", "GPU-a"] == 10 << 20
    assert of_gpu("ds4_gpu_power_watts", found) == 100
    (unavailable,) = (key for key in found if key[0] == "ds4_gpu_unavailable")
    assert "utilization" in unavailable
    assert any("MIG" in text for text in unavailable)


@pytest.mark.parametrize(("mode", "ratio"), [(0.0, 0.0), (1.0, None)])
def test_a_board_in_mig_mode_is_told_by_its_mode_too(mode: float, ratio: float | None) -> None:
    page = {
        'nvidia_smi_mig_mode_current{uuid="a-b"}': mode,
        'nvidia_smi_utilization_gpu_ratio{uuid="a-b"}': 0.0,
        'nvidia_smi_gpu_info{uuid="a-b",index="3"}': 1.0,
    }
    found = signals(page, AT)
    assert found.get(("ds4_gpu_utilization_ratio", "3", "box", "GPU-a-b")) == ratio
    told = [key for key in found if key[0] == "ds4_gpu_unavailable" and "utilization" in key]
    assert bool(told) is (ratio is None)


@pytest.mark.parametrize(
    "memory",
    [{}, {f"DCGM_FI_DEV_FB_USED{{{GPU}}}": 0.0, f"DCGM_FI_DEV_FB_FREE{{{GPU}}}": 0.0}],
    ids=["not on the page", "0 of 0"],
)
def test_case_69_a_device_with_unified_memory_has_none_of_its_own(memory: Page) -> None:
    page = memory | {
        f"DCGM_FI_DEV_GPU_UTIL{{{GPU}}}": 2.0,
        f"DCGM_FI_DEV_GPU_TEMP{{{GPU}}}": 38.0,
    }
    found = signals(page, AT)
    assert not [key for key in found if key[0].startswith("ds4_gpu_memory")]
    assert of_gpu("ds4_gpu_utilization_ratio", found) == pytest.approx(0.02)
    assert of_gpu("ds4_gpu_temperature_celsius", found) == 38


def test_real_pages_of_nvidia_smi_are_understood() -> None:
    found = signals((DATA / "nvsmi-h200-load.prom").read_text(), AT)
    uuid = "GPU-00000000-0000-0000-0000-000000000000"
    assert found == {
        ("ds4_gpu_memory_used_bytes", "0", "box", uuid): 33934016512,
        ("ds4_gpu_memory_total_bytes", "0", "box", uuid): 150754820096,
        ("ds4_gpu_utilization_ratio", "0", "box", uuid): 1,
        ("ds4_gpu_power_watts", "0", "box", uuid): 627.4,
        ("ds4_gpu_temperature_celsius", "0", "box", uuid): found[
            "ds4_gpu_temperature_celsius", "0", "box", uuid
        ],
        ("ds4_gpu_ecc_errors_total", "0", "box", "corrected", uuid): 0,
        ("ds4_gpu_ecc_errors_total", "0", "box", "uncorrected", uuid): 0,
    }


def test_case_71_a_real_mig_page_has_no_utilisation_and_says_why() -> None:
    found = signals((DATA / "nvsmi-h100-mig-idle.prom").read_text(), AT)
    names = {key[0] for key in found}
    assert "ds4_gpu_utilization_ratio" not in names
    (told,) = (key for key in found if key[0] == "ds4_gpu_unavailable")
    assert "utilization" in told
    assert any("MIG" in text for text in told)
    assert "ds4_gpu_memory_used_bytes" in names
