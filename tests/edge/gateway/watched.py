"""`python -m tests.edge.gateway.watched`: a gateway that tells at SIGUSR2 how much it holds."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys

from ds4watch.gateway.__main__ import main


def tell(*_: object) -> None:
    gc.collect()
    sys.stderr.write(f"holds {len(asyncio.all_tasks())} {len(gc.get_objects())}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGUSR2, tell)
    sys.exit(main())
