"""The `process_*` and `python_*` numbers of this process, as prometheus-client reports them."""

from __future__ import annotations

import gc
import os
import platform
import resource
from pathlib import Path

from ds4watch.sim.meters import Meters

_PROC = Path("/proc/self")


def python_labels() -> str:
    """Return the labels of `python_info`."""
    major, minor, patch = platform.python_version_tuple()
    return (
        f'implementation="{platform.python_implementation()}",major="{major}",minor="{minor}",'
        f'patchlevel="{patch}",version="{platform.python_version()}"'
    )


def read_process(meters: Meters) -> None:
    """Refresh the numbers. Off Linux, what /proc would tell stays 0."""
    for generation, stats in enumerate(gc.get_stats()):
        label = f'{{generation="{generation}"}}'
        meters.put(f"python_gc_objects_collected_total{label}", stats["collected"])
        meters.put(f"python_gc_objects_uncollectable_total{label}", stats["uncollectable"])
        meters.put(f"python_gc_collections_total{label}", stats["collections"])
    meters.put("python_info", 1.0)
    times = os.times()
    meters.put("process_cpu_seconds_total", round(times.user + times.system, 2))
    meters.put("process_max_fds", resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    if _PROC.exists():
        pages = (_PROC / "statm").read_text(encoding="ascii").split()
        page_bytes = resource.getpagesize()
        meters.put("process_virtual_memory_bytes", int(pages[0]) * page_bytes)
        meters.put("process_resident_memory_bytes", int(pages[1]) * page_bytes)
        meters.put("process_open_fds", sum(1 for _ in (_PROC / "fd").iterdir()))
