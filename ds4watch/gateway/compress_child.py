"""`python -m ds4watch.gateway.compress_child`: compresses prompts, one at a time.

Each message is four bytes of length and JSON, on standard input and output; it ends with its
input. Apart from the gateway, so that 50 ms for a prompt of 100 KB hold no other request up.
"""

from __future__ import annotations

import json
import signal
import sys
from typing import Any, BinaryIO

from ds4watch.shaping.compress import changed_fields, cut, read_body

LENGTH_BYTES = 4


def framed(message: Any) -> bytes:
    """Return a message as it is sent."""
    data = json.dumps(message, separators=(",", ":")).encode()
    return len(data).to_bytes(LENGTH_BYTES, "big") + data


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """Return what a job asks for: its segments if it has no ratio, else the fields that change."""
    read = read_body(
        job["body"], kept_turns=job["kept_turns"], cut_last_turns=job["cut_last_turns"]
    )
    if job["ratio"] is None:
        return {"texts": read.texts if read.removable else ()}
    done = cut(read, ratio=job["ratio"], surprise=job["surprise"])
    return {
        "fields": changed_fields(job["body"], done),
        "before": done.tokens_before,
        "after": done.tokens_after,
    }


def main() -> int:
    """Answer until the input ends."""
    # A terminal's Ctrl-C reaches the whole process group; the gateway ends us instead.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while (data := _read(source)) is not None:
        sink.write(framed(answer(json.loads(data))))
        sink.flush()
    return 0


def _read(source: BinaryIO) -> bytes | None:
    head = source.read(LENGTH_BYTES)
    if len(head) < LENGTH_BYTES:
        return None
    length = int.from_bytes(head, "big")
    data = source.read(length)
    return data if len(data) == length else None


if __name__ == "__main__":
    sys.exit(main())
