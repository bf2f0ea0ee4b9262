from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ds4watch.sim.kv_cache import KvCache, chain


def _hashes(*blocks: bytes) -> list[bytes]:
    hashes: list[bytes] = []
    for block in blocks:
        hashes.append(chain(hashes[-1] if hashes else b"", block))
    return hashes


def _fill(cache: KvCache, hashes: list[bytes]) -> list[int]:
    blocks = cache.allocate(len(hashes))
    assert blocks is not None
    for block, digest in zip(blocks, hashes, strict=True):
        cache.register(block, digest)
    return blocks


def test_a_released_prefix_is_found_again_up_to_where_it_differs() -> None:
    cache = KvCache(blocks=8, block_size=4)
    first = _hashes(b"aaaa", b"bbbb", b"cccc")
    blocks = _fill(cache, first)
    cache.release(blocks)
    assert cache.lookup(_hashes(b"aaaa", b"bbbb", b"xxxx")) == blocks[:2]


def test_an_equal_block_behind_another_prefix_is_not_reused() -> None:
    cache = KvCache(blocks=8, block_size=4)
    cache.release(_fill(cache, _hashes(b"aaaa", b"bbbb")))
    assert cache.lookup(_hashes(b"zzzz", b"bbbb")) == []


def test_the_tail_of_the_oldest_request_is_evicted_first() -> None:
    cache = KvCache(blocks=4, block_size=4)
    old, new = _hashes(b"aaaa", b"bbbb"), _hashes(b"cccc", b"dddd")
    cache.release(_fill(cache, old))
    cache.release(_fill(cache, new))
    cache.allocate(1)
    assert len(cache.lookup(old)) == 1
    assert len(cache.lookup(new)) == 2


def test_held_blocks_are_never_evicted_and_count_as_used() -> None:
    cache = KvCache(blocks=4, block_size=4)
    hashes = _hashes(b"aaaa", b"bbbb")
    cache.release(_fill(cache, hashes))
    cache.hold(cache.lookup(hashes))
    assert cache.usage_ratio == 0.5
    assert cache.allocate(3) is None
    assert cache.allocate(2) is not None
    assert len(cache.lookup(hashes)) == 2


def test_a_reset_is_refused_while_blocks_are_in_use() -> None:
    cache = KvCache(blocks=4, block_size=4)
    hashes = _hashes(b"aaaa")
    blocks = _fill(cache, hashes)
    assert not cache.reset()
    cache.release(blocks)
    assert cache.reset()
    assert cache.lookup(hashes) == []


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=60))
def test_blocks_are_neither_lost_nor_handed_out_twice(moves: list[tuple[int, bool]]) -> None:
    cache = KvCache(blocks=8, block_size=1)
    held: list[list[int]] = []
    for count, release in moves:
        if release and held:
            cache.release(held.pop(count % len(held)))
        elif (blocks := cache.allocate(count)) is not None:
            held.append(blocks)
        in_use = [block for blocks in held for block in blocks]
        assert len(in_use) == len(set(in_use))
        assert cache.free == 8 - len(in_use)
