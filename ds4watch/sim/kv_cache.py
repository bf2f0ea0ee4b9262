"""The KV cache: blocks, reuse of equal prefixes by a hash chain, eviction of the oldest."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Sequence


def chain(parent: bytes, block: bytes) -> bytes:
    """Return the hash of a full block; it stands for the block and all that comes before it."""
    return hashlib.blake2b(block, key=parent, digest_size=16).digest()


class KvCache:
    """A fixed number of blocks. A free block keeps its content until it is needed again.

    Invariant: a block is either held (references > 0) or in the free list, never both.
    """

    def __init__(self, *, blocks: int, block_size: int) -> None:
        self.blocks = blocks
        self.block_size = block_size
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(blocks))
        self._references = [0] * blocks
        self._hash_of: dict[int, bytes] = {}
        self._block_of: dict[bytes, int] = {}

    @property
    def free(self) -> int:
        """Blocks that can be handed out, those with reusable content included."""
        return len(self._free)

    @property
    def usage_ratio(self) -> float:
        """Share of the blocks held by requests, 0..1."""
        return (self.blocks - len(self._free)) / self.blocks

    def lookup(self, hashes: Iterable[bytes]) -> list[int]:
        """Return the blocks of the longest cached run from the first hash on."""
        found: list[int] = []
        for digest in hashes:
            block = self._block_of.get(digest)
            if block is None:
                break
            found.append(block)
        return found

    def free_after_reuse(self, reused: Sequence[int]) -> int:
        """Return how many blocks would be left free if `reused` were held."""
        return len(self._free) - sum(1 for block in reused if not self._references[block])

    def hold(self, reused: Sequence[int]) -> None:
        """Hold blocks found by `lookup`."""
        for block in reused:
            self._free.pop(block, None)
            self._references[block] += 1

    def allocate(self, count: int) -> list[int] | None:
        """Hold `count` blocks, oldest first, forgetting their content; None if too few are free."""
        if count > len(self._free):
            return None
        return [self._evict() for _ in range(count)]

    def _evict(self) -> int:
        block, _ = self._free.popitem(last=False)
        digest = self._hash_of.pop(block, None)
        if digest is not None:
            del self._block_of[digest]
        self._references[block] = 1
        return block

    def register(self, block: int, digest: bytes) -> None:
        """Make a full block reusable; where an equal one is known already, that one stays."""
        if digest not in self._block_of and block not in self._hash_of:
            self._hash_of[block] = digest
            self._block_of[digest] = block

    def release(self, blocks: Sequence[int]) -> None:
        """Let go of a request's blocks, its tail becoming the first to be evicted."""
        for block in reversed(blocks):
            self._references[block] -= 1
            if not self._references[block]:
                self._free[block] = None

    def reset(self) -> bool:
        """Forget all content; refused (False) while any block is held."""
        if len(self._free) != self.blocks:
            return False
        self._hash_of.clear()
        self._block_of.clear()
        return True
