"""Headers as they came over the wire."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

RawHeaders = Sequence[tuple[bytes, bytes]]
"""Name as it was sent, value without the white space around it; in order, repeats included."""


class Headers(Mapping[str, str]):
    """Headers by name, whatever its case; of a repeated one the first."""

    __slots__ = ("_by_name", "raw")

    def __init__(self, raw: RawHeaders) -> None:
        self.raw = raw
        self._by_name: dict[str, bytes] = {}
        for name, value in raw:
            self._by_name.setdefault(name.decode("latin-1").lower(), value)

    def __getitem__(self, name: str) -> str:
        return self._by_name[name.lower()].decode("utf-8", "surrogateescape")

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def values_of(self, name: bytes) -> list[bytes]:
        """Return every value of a header, whose name is given in lower case."""
        return [value for key, value in self.raw if key.lower() == name]
