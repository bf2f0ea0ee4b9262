"""Headers as they came over the wire."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

RawHeaders = Sequence[tuple[bytes, bytes]]
"""Name as it was sent, value without the white space around it; in order, repeats included."""


class Headers(Mapping[str, str]):
    """Headers by name, whatever its case; of a repeated one the first."""

    __slots__ = ("_by_name", "_texts", "kept", "lines", "raw", "repeated")

    def __init__(self, raw: RawHeaders) -> None:
        self.raw = raw
        self.repeated: set[bytes] = set()
        """Names, in lower case, that came more than once."""
        self.kept: object = None
        """What its reader made of it, for the next request with the very same head."""
        self.lines: bytes | None = None
        """What its reader passes on of it, likewise."""
        by_name: dict[bytes, bytes] = {}
        self._by_name = by_name
        for name, value in raw:
            lower = name.lower()
            if lower in by_name:
                self.repeated.add(lower)
            else:
                by_name[lower] = value
        self._texts = {
            name.decode("latin-1"): value.decode("utf-8", "surrogateescape")
            for name, value in by_name.items()
        }

    def __getitem__(self, name: str) -> str:
        return self._texts[name.lower()]

    def get(self, name: str, default: Any = None) -> Any:
        """Return a header's value; the inherited one raises and catches for those not there."""
        return self._texts.get(name.lower(), default)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._texts

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)

    def once(self, name: bytes) -> bytes | None:
        """Return the value of a header, named in lower case, that may come once: else ValueError.

        None if it did not come.
        """
        if name in self.repeated:
            message = f"{name.decode()} came more than once"
            raise ValueError(message)
        return self._by_name.get(name)
