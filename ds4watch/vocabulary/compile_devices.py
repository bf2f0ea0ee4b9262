"""Compiles the table of GPU exporters against a page's series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ds4watch.model.series import Labels, SeriesKey, labels_of
from ds4watch.vocabulary.columns import Columns, Found, find, label
from ds4watch.vocabulary.devices import (
    DEVICE_MEANINGS,
    MEMORY_TOTAL,
    MEMORY_USED,
    MIG_IS_ON,
    OF_AN_INSTANCE,
    OF_THE_BOARD,
    ON_MIG,
    UNAVAILABLE,
    UNIFIED,
    UTILIZATION,
)
from ds4watch.vocabulary.draft import Draft, Reading
from ds4watch.vocabulary.table import Meaning

_PREFIXES = ("DCGM_FI_", "nvidia_smi_")
_INFORMATION = "nvidia_smi_gpu_info"
_INSTANCE = "GPU_I_ID"

_Readings = dict[Labels, Reading]


def add_devices(draft: Draft, columns: Columns, host: str) -> None:
    """Add the GPUs of an exporter's page."""
    if not any(name.startswith(_PREFIXES) for name in columns):
        return
    draft.local = True
    page = _Page(draft, columns, host)
    memory = page.readings(MEMORY_TOTAL)
    _guard(page.readings(MEMORY_USED), memory)
    _guard(memory, memory)
    for meaning in DEVICE_MEANINGS:
        if meaning.signal not in (MEMORY_USED, MEMORY_TOTAL, UTILIZATION):
            page.add_all(meaning)
    page.add(MEMORY_USED)
    page.add(MEMORY_TOTAL)
    _add_utilization(page)
    for board in page.boards() - {_board(labels) for labels in memory}:
        page.unavailable(board, "memory", UNIFIED)


class _Page:
    """The series of an exporter's page, each GPU's once, however many pods are named with it."""

    def __init__(self, draft: Draft, columns: Columns, host: str) -> None:
        self.draft = draft
        self.columns = columns
        self.host = host
        self.indices = {
            label(draft.series[column], "uuid"): label(draft.series[column], "index")
            for column in columns.get(_INFORMATION, ())
        }
        self._made: dict[str, _Readings] = {}

    def readings(self, signal: str) -> _Readings:
        """Return the readings of a signal that has one meaning, by labels."""
        if signal not in self._made:
            meaning = next(it for it in DEVICE_MEANINGS if it.signal == signal)
            self._made[signal] = self.made(meaning)
        return self._made[signal]

    def made(self, meaning: Meaning) -> _Readings:
        """Return the readings of a meaning, by labels."""
        of_the_board = meaning.signal in OF_THE_BOARD

        def labels(key: SeriesKey) -> Labels:
            return self.labels(key, of_the_board=of_the_board)

        found = find(meaning, self.draft.series, self.columns, labels)
        return {} if found is None else self._once(meaning, found)

    def add(self, signal: str) -> None:
        """Add the series of a signal."""
        self._add(signal, self.readings(signal))

    def add_all(self, meaning: Meaning) -> _Readings:
        """Add the series of a meaning."""
        made = self.made(meaning)
        self._add(meaning.signal, made)
        return made

    def boards(self) -> set[Labels]:
        """Return the GPUs that anything is known of."""
        wanted = {meaning.signal for meaning in DEVICE_MEANINGS}
        return {_board(key.labels) for key, _, _ in self.draft.readings if key.name in wanted}

    def unavailable(self, board: Labels, reading: str, why: str) -> None:
        """Tell that a GPU does not give a reading."""
        labels = labels_of({**dict(board), "reading": reading, "why": why})
        self.draft.constant(UNAVAILABLE, labels)

    def _add(self, signal: str, made: Mapping[Labels, Reading]) -> None:
        if signal in self.draft.given:
            self.draft.hidden += made.values()
            return
        for labels, reading in made.items():
            self.draft.add(signal, labels, reading)

    def _once(self, meaning: Meaning, found: Found) -> _Readings:
        return {
            labels: Reading(
                _one_of_each(self.draft.series, terms),
                meaning.combine,
                upper=meaning.upper,
                no_zero="" in meaning.no_zero,
            )
            for labels, terms in found.terms.items()
        }

    def labels(self, key: SeriesKey, *, of_the_board: bool) -> Labels:
        """Return the labels that tell a GPU, or an instance of it, from all others."""
        uuid = label(key, "UUID", "uuid")
        return labels_of(
            {
                "gpu": label(key, "gpu") or self.indices.get(uuid, ""),
                "uuid": _nvml_uuid(uuid),
                "mig": "" if of_the_board else label(key, _INSTANCE),
                "host": label(key, "Hostname", "hostname") or self.host,
            }
        )


def _nvml_uuid(uuid: str) -> str:
    """Return a GPU's name as NVML gives it; some exporters leave the beginning out."""
    return uuid if not uuid or uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"


def _board(labels: Labels) -> Labels:
    return tuple(pair for pair in labels if pair[0] in ("gpu", "uuid", "host"))


def _one_of_each(
    series: Sequence[SeriesKey], terms: Sequence[tuple[int, float]]
) -> list[tuple[int, float]]:
    """Keep one column of each name: pods that share a GPU each have the same reading."""
    first: dict[str, tuple[int, float]] = {}
    for column, weight in terms:
        first.setdefault(series[column].name, (column, weight))
    return list(first.values())


def _guard(readings: _Readings, memory: _Readings) -> None:
    """Believe memory only where there is any: 0 of 0 is a device that uses the host's."""
    for labels, reading in readings.items():
        reading.guard = memory.get(labels)


def _add_utilization(page: _Page) -> None:
    """Add how busy GPUs are; on MIG, how busy each instance is, where the exporter says it."""
    modes = {_board(labels): it for labels, it in page.add_all(MIG_IS_ON).items()}
    cut_up = {
        _board(page.labels(key, of_the_board=True))
        for key in page.draft.series
        if label(key, _INSTANCE)
    }
    made = page.readings(UTILIZATION)
    for labels in [it for it in made if dict(it).get("mig") or _board(it) in cut_up]:
        del made[labels]
    for labels, reading in page.made(OF_AN_INSTANCE).items():
        if dict(labels).get("mig") or (_board(labels) not in cut_up and labels not in made):
            made[labels] = reading
    for labels, reading in made.items():
        if not dict(labels).get("mig"):
            reading.veto = modes.get(_board(labels))
    page.add(UTILIZATION)
    for board in cut_up - modes.keys():
        page.unavailable(board, "utilization", ON_MIG)
