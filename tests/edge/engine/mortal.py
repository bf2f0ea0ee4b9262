"""An event loop that dies before its n-th step, as kill -9 would have it: nothing is cleaned up.

Every await that is come back from is one step, in whatever task, so counting n up goes through all
of them, whatever the code between looks like.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from ds4watch.history.database import Database


class KilledError(SystemExit):
    """The process is gone. asyncio lets nothing but this kind of error out of its loop."""


class MortalLoop(asyncio.SelectorEventLoop):
    """Counts its steps, and dies before the step `killed_at`."""

    def __init__(self, killed_at: int | None) -> None:
        super().__init__()
        self.steps = 0
        self.killed_at = killed_at
        self._of = threading.get_ident()

    def _call_soon(self, callback: Any, args: Any, context: Any) -> Any:
        inner: Any = super()
        return inner._call_soon(self._counted, (callback, *args), context)

    def _counted(self, callback: Callable[..., object], *args: Any) -> None:
        if self.steps == self.killed_at:
            raise KilledError
        self.steps += 1
        callback(*args)


def live(
    episode: Callable[[], Coroutine[Any, Any, None]],
    killed_at: int | None,
    opened: Iterable[Database] = (),
) -> bool:
    """Run an episode; return whether it came to its end. What threads write is still written.

    opened: the databases of the episode, as far as they were opened by then.
    """
    loop = MortalLoop(killed_at)
    main = loop.create_task(episode())
    try:
        loop.run_until_complete(main)
    except KilledError:
        return False
    finally:
        _bury(loop, opened)
    return True


def _bury(loop: MortalLoop, opened: Iterable[Database]) -> None:
    loop.killed_at = None
    for database in opened:
        for thread in (database._write_thread, database._read_thread):
            thread.shutdown(wait=True)
        database.dispose()
    executor: Any = loop._default_executor  # type: ignore[attr-defined]
    if executor is not None:
        executor.shutdown(wait=True)
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        coroutine: Any = task.get_coro()
        while coroutine.cr_frame is not None:  # what it would await at its end, it does not
            with contextlib.suppress(BaseException):
                coroutine.close()
    loop.close()
