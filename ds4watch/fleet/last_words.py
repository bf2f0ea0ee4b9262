"""What a worker said and did at its end: for the reason that people are told."""

from __future__ import annotations

from pathlib import Path

from ds4watch.model.worker import WorkerLoad

_TAIL_BYTES = 64 << 10
"""vLLM tells the root cause first, then the trace of each process that fell with it."""
_SHOWN_CHARACTERS = 200
_ERROR_WORDS = ("error", "exception", "fatal", "panic")
_UNSEEN = "before its load was seen"


def last_words(path: Path, begins_at: int, load: WorkerLoad) -> str:
    """Return what the worker was doing, in figures too, and what it said from `begins_at` on.

    Up to the first semicolon it is one of three phrases, fit for a label.
    """
    doing = _load(load)
    # One that ends as it starts says why in its last words, be they an error by name or not.
    said = _error_line(path, begins_at, else_last=doing is _UNSEEN)
    return doing + (f'; it said "{said}"' if said else "")


def _load(load: WorkerLoad) -> str:
    requests = [it for it in (load.running, load.waiting) if it is not None]
    if not requests:
        return _UNSEEN
    counts = ((load.running, "running"), (load.waiting, "waiting"))
    told = [f"{count:.0f} {what}" for count, what in counts if count is not None]
    if load.kv_usage_ratio is not None:
        told.append(f"KV cache {load.kv_usage_ratio:.0%} full")
    doing = "with requests in it" if any(requests) else "while idle"
    return f"{doing}; last seen with {', '.join(told)}"


def tail_of(path: Path, begins_at: int) -> str:
    """Return the end of what the worker said from `begins_at` on; empty if there is no log."""
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(max(min(begins_at, size), size - _TAIL_BYTES))
            return stream.read(_TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""  # no log, no words; how the process ended is known all the same


def _error_line(path: Path, begins_at: int, *, else_last: bool) -> str:
    lines = [line.strip() for line in reversed(tail_of(path, begins_at).splitlines())]
    found = next((it for it in lines if any(word in it.lower() for word in _ERROR_WORDS)), "")
    if not found and else_last:
        found = next(filter(None, lines), "")
    return "".join(sign if sign.isprintable() else " " for sign in found[:_SHOWN_CHARACTERS])


def size_of(path: Path) -> int:
    """Return the size of a log; 0 if there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return 0
