"""zstd as payloads use it: what makes and reads frames is kept, one for each thread."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from threading import get_ident

import zstandard

LEVEL = 3
FAST = 1
"""Of numbers in planes hardly worse than level 3."""
LASTING = 6
"""Thrice the time, 3 % less: for what stays for days."""
_LEAST_BLOCK_BYTES = 1200


@lru_cache(maxsize=16)
def decompressor(_thread: int) -> zstandard.ZstdDecompressor:
    """Return a thread's own: to make one takes longer than to use it, and it is for one thread."""
    return zstandard.ZstdDecompressor()


@lru_cache(maxsize=16)
def _compressor(_thread: int, level: int) -> zstandard.ZstdCompressor:
    return zstandard.ZstdCompressor(level=level, write_content_size=False)


def squeezed(parts: Sequence[bytes], level: int) -> bytes:
    """Return parts as fewer bytes, or, where that cannot be, as they are.

    Unlike ones do better each in a block, for a block has one code for all its bytes.
    """
    plain = b"".join(parts)
    if not plain:
        return plain
    compressor = _compressor(get_ident(), level)
    groups = _groups(parts)
    if len(groups) == 1:
        packed = compressor.compress(plain)
    else:
        writer = compressor.compressobj()
        done = [
            writer.compress(group) + writer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
            for group in groups[:-1]
        ]
        packed = b"".join([*done, writer.compress(groups[-1]), writer.flush()])
    return packed if len(packed) < len(plain) else plain


def _groups(parts: Sequence[bytes]) -> list[bytes]:
    """Return parts as they are, small ones with what follows them."""
    groups = [b""]
    for part in parts:
        if len(groups[-1]) >= _LEAST_BLOCK_BYTES:
            groups.append(b"")
        groups[-1] += part
    return groups


def unsqueezed(packed: bytes, size: int) -> bytes:
    """Return what was `size` bytes. Raises ValueError where it was not."""
    if len(packed) == size:
        return packed
    try:
        plain = decompressor(get_ident()).decompress(packed, max_output_size=size)
    except zstandard.ZstdError as error:
        message = f"packed bytes cannot be read: {error}"
        raise ValueError(message) from error
    if len(plain) != size:
        message = f"{len(plain)} bytes where {size} were packed"
        raise ValueError(message)
    return plain
