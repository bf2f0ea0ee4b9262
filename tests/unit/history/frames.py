from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ds4watch.history.frames import RollupFrame
from ds4watch.model.scrape import Target
from ds4watch.model.series import Schema, SeriesKey

AT = 1_800_000_000.0
W1 = Target("w1", "http://w1", (("worker", "w1"),))


def rollup_frame(names: Sequence[str], buckets: Mapping[int, Sequence[float]]) -> RollupFrame:
    """Buckets of one sample each."""
    values = np.array(list(buckets.values()), dtype=np.float64)
    return RollupFrame(
        target=W1,
        schema=Schema(1, tuple(SeriesKey(name) for name in names)),
        columns=np.arange(len(names)),
        starts_at=np.array([AT + at for at in buckets]),
        minimum=values,
        maximum=values,
        last=values,
        total=values,
        count=np.ones_like(values),
        increase=np.zeros_like(values),
    )
