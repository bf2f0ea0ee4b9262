from __future__ import annotations

import io

from ds4watch.cli.plain_text import write_what_the_terminal_can


def written(text: str, encoding: str) -> bytes:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    write_what_the_terminal_can(stream)
    stream.write(text)
    stream.flush()
    return raw.getvalue()


def test_a_terminal_without_unicode_gets_plain_signs() -> None:
    assert written("0 → 1 … ████ 漢", "ascii") == b"0 -> 1 ... #### ?"
    assert written("€ → é", "latin-1") == b"? -> \xe9"


def test_a_terminal_with_unicode_gets_all_of_it() -> None:
    assert written("0 → 1", "utf-8") == "0 → 1".encode()
