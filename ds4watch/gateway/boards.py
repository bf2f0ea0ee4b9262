"""Boards as they come in from outside: a file or the control socket, read without trust."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from ds4watch.model.limits import is_sound
from ds4watch.model.service_policy import Board, PoolLevel

log = logging.getLogger(__name__)


def board_of(document: Any) -> Board | None:
    """Return the board that a document holds, None (and a log line) if it holds none."""
    try:
        board = Board.from_json(document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        log.warning("a board that cannot be read is ignored: %s: %s", type(error).__name__, error)
        return None
    if not _is_sound(board):
        log.warning("a board with fields of the wrong type is ignored")
        return None
    return board


def read_board(path: Path) -> Board | None:
    """Return the board of the file, None if there is none or it cannot be read."""
    try:
        return board_of(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        log.warning("%s cannot be read, starting without a board: %s", path, error)
        return None


def _is_sound(board: Board) -> bool:
    policy = board.policy
    return (
        all(_is_whole(number) for number in (board.version, policy.version, policy.level))
        and isinstance(policy.lease_seconds, int | float)
        and all(_are_texts(worker.id, worker.url, *worker.models) for worker in board.fleet.workers)
        and all(
            isinstance(worker.share, float) and 0 <= worker.share <= 1
            for worker in board.fleet.workers
        )
        and all(
            worker.max_model_len is None or _is_whole(worker.max_model_len)
            for worker in board.fleet.workers
        )
        and all(_are_texts(it.api_key_file or "") for it in board.fleet.workers)
        and all(
            worker.load.kv_usage_ratio is None
            or isinstance(worker.load.kv_usage_ratio, int | float)
            for worker in board.fleet.workers
        )
        and all(_are_texts(key.name, key.sha256, key.signing) for key in board.keys)
        and all(key.signing.isascii() for key in board.keys)
        and _are_texts(*policy.excluded_workers)
        and all(_are_texts(it.model, it.work_class, it.serves) for it in policy.diversions)
        and all(is_sound(limits) for limits in (policy.limits, *policy.ladder))
        and all(_is_sound_pool(it) for it in policy.pools)
    )


def _is_sound_pool(pool: PoolLevel) -> bool:
    return (
        _is_whole(pool.level)
        and _are_texts(pool.pool, *pool.profiles)
        and all(is_sound(limits) for limits in (pool.limits, *pool.ladder))
    )


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _are_texts(*values: Any) -> bool:
    return all(isinstance(value, str) for value in values)
