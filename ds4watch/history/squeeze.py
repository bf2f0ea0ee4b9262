"""zstd as payloads use it: what makes and reads frames is kept, one for each thread."""

from __future__ import annotations

from functools import lru_cache
from threading import get_ident

import zstandard

LEVEL = 3


@lru_cache(maxsize=16)
def decompressor(_thread: int) -> zstandard.ZstdDecompressor:
    """Return a thread's own: to make one takes longer than to use it, and it is for one thread."""
    return zstandard.ZstdDecompressor()


@lru_cache(maxsize=16)
def _compressor(_thread: int) -> zstandard.ZstdCompressor:
    return zstandard.ZstdCompressor(level=LEVEL, write_content_size=False)


def squeezed(plain: bytes) -> bytes:
    """Return bytes as fewer, or, where that cannot be, as they are."""
    packed = _compressor(get_ident()).compress(plain) if plain else plain
    return packed if len(packed) < len(plain) else plain


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
