"""Headers as they came over the wire."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

RawHeaders = Sequence[tuple[bytes, bytes]]
"""Name as it was sent, value without the white space around it; in order, repeats included."""


class Headers(Mapping[str, str]):
    """Headers by name, whatever its case; of a repeated one the first."""

    __slots__ = ("_by_name", "raw")

    def __init__(self, raw: RawHeaders) -> None:
        self.raw = raw
        self._by_name: dict[bytes, bytes] = {}
        for name, value in raw:
            self._by_name.setdefault(name.lower(), value)

    def __getitem__(self, name: str) -> str:
        return self._by_name[name.lower().encode()].decode("utf-8", "surrogateescape")

    def get(self, name: str, default: Any = None) -> Any:
        """Return a header's value; the inherited one raises and catches for those not there."""
        value = self._by_name.get(name.lower().encode())
        return default if value is None else value.decode("utf-8", "surrogateescape")

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower().encode() in self._by_name

    def __iter__(self) -> Iterator[str]:
        return (name.decode("latin-1") for name in self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def values_of(self, name: bytes) -> list[bytes]:
        """Return every value of a header, whose name is given in lower case."""
        return [value for key, value in self.raw if key.lower() == name]
