"""How long a vLLM worker may take to end: what runs in it is let end, within a time of its own.

Without `--shutdown-timeout` vLLM breaks off every request at SIGTERM. Only versions that know the
argument get it: others would not start. So the version is looked up beside the interpreter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

FLAG = "--shutdown-timeout"
DEFAULT_SECONDS = 10
MARGIN_SECONDS = 5.0
"""So much later than a worker's own time is over, it is killed: it frees its devices in between."""
_SINCE = (0, 18)
_DISTRIBUTION = re.compile(r"vllm(?:_(?:cpu|rocm|tpu|xpu))?-(\d+)\.(\d+).*\.dist-info")
"""vLLM itself under its names; others begin so too (vllm_router)."""
_SITES = (
    "lib/python3*/site-packages",
    "lib/python3*/dist-packages",
    "lib64/python3*/site-packages",
)


def knows_flag(python: Path) -> bool:
    """Return whether the vLLM of an interpreter of this machine knows the argument.

    False too where its version cannot be told: a worker that does not start is worse.
    """
    if not python.is_absolute():
        return False
    prefixes = [python.parent.parent]
    if prefixes[0] == Path("/usr"):
        prefixes.append(Path("/usr/local"))
    folders = (
        folder
        for prefix in prefixes
        for site in _SITES
        for folder in prefix.glob(f"{site}/vllm*.dist-info")
    )
    found = [_DISTRIBUTION.fullmatch(folder.name) for folder in folders]
    versions = [(int(it[1]), int(it[2])) for it in found if it is not None]
    return bool(versions) and min(versions) >= _SINCE


def end_arguments(given: Sequence[str], *, is_known: bool) -> tuple[str, ...]:
    """Return what lets a worker's requests end, if its version knows it and it has it not yet."""
    if not is_known or _timeout_in(given) is not None:
        return ()
    return (FLAG, str(DEFAULT_SECONDS))


def grace_seconds(argv: Sequence[str], least: float) -> float:
    """Return the time from SIGTERM to SIGKILL: `least`, but over what the worker itself allows."""
    own = _timeout_in(argv)
    return least if not own else max(least, own + MARGIN_SECONDS)


def _timeout_in(argv: Sequence[str]) -> float | None:
    """Return the value of the last such argument; None without one."""
    told = None
    for word, following in zip(argv, (*argv[1:], ""), strict=False):
        flag, has_value, value = word.partition("=")
        if flag.replace("_", "-") == FLAG:
            told = value if has_value else following
    try:
        return None if told is None else float(told)
    except ValueError:
        return 0.0
