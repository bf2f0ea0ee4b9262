"""`python -m ds4watch.engine.query_child`: answers queries over the store, one at a time.

Requests come on standard input, answers go to standard output; it ends with its input. The first
frame says where the store is, for an address may hold a password.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from ds4watch.engine.query_answers import Stored, answer_to, parsed
from ds4watch.engine.query_wire import (
    LENGTH,
    RangeQuery,
    body_frames,
    fault_frame,
    frame,
    length_of,
    matrix_frames,
    request_from,
)
from ds4watch.history.place import Place, Server
from ds4watch.history.range_reader import ReadLimits, StoredRanges
from ds4watch.model.errors import QueryError, StoreError
from ds4watch.promql.evaluate_range import evaluate_range

log = logging.getLogger(__name__)

_LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_NICE = 10


def main() -> int:
    """Answer until the input ends."""
    # A terminal's Ctrl-C reaches the whole process group; the daemon ends us instead.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.basicConfig(level=logging.INFO, format=_LOG_FORMAT, stream=sys.stderr)
    os.nice(_NICE)
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    told = _read(source)
    if told is None:
        return 0
    settings = json.loads(told)
    memory = settings["memory_bytes"]
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    # Given up before it is killed, so that what was read helps the next query.
    limits = ReadLimits(seconds=settings["timeout_seconds"] / 4)
    reader = StoredRanges(_place(settings), limits)
    while (request := _read(source)) is not None:
        for body in answer(request, reader):
            sink.write(frame(body))
        sink.flush()
    reader.close()
    return 0


def answer(request: bytes, stored: Stored) -> tuple[bytes, ...]:
    """Return the bodies of an answer."""
    asked = request_from(request)
    try:
        if isinstance(asked, RangeQuery):
            expr = parsed(asked.query)
            found = evaluate_range(expr, stored, asked.start, asked.end, asked.step_seconds)
            return matrix_frames(found)
        return body_frames(answer_to(asked, stored))
    except (QueryError, StoreError) as error:
        return (fault_frame(error),)
    except MemoryError:
        message = "the query needs more memory than it may take: select fewer series"
        return (fault_frame(QueryError(message)),)


def _read(source: BinaryIO) -> bytes | None:
    head = source.read(LENGTH.size)
    return source.read(length_of(head)) if len(head) == LENGTH.size else None


def _place(settings: Mapping[str, Any]) -> Place:
    return Path(settings["path"]) if "path" in settings else Server(settings["url"])


if __name__ == "__main__":
    sys.exit(main())
