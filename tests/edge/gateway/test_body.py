from __future__ import annotations

import tracemalloc

from ds4watch.gateway.http.body import Body

CHUNK = b"2\r\nab\r\n"


async def test_a_body_in_crumbs_takes_no_more_memory_than_one_in_a_piece() -> None:
    body = Body(None, 1 << 20)
    tracemalloc.start()
    try:
        for _ in range(40):
            assert body.feed(CHUNK * 1000) == b""
        assert body.feed(b"0\r\n\r\nnext") == b"next"
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert await body.read(lambda: None) == b"ab" * 40_000
    assert peak < 400_000
