"""One round asks for the same samples once, and sees what it wrote itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ds4watch.engine.round_storage import RoundStorage
from ds4watch.promql.columns import LabelColumn
from ds4watch.promql.storage import Latest, Matcher, MatchOp
from tests.unit.promql.memory import WritableMemory, named

LOAD = [Matcher("__name__", MatchOp.EQUAL, "load")]


class Counting(WritableMemory):
    asked = 0

    def latest(self, matchers: Sequence[Matcher], start: float, end: float) -> Latest:
        self.asked += 1
        return super().latest(matchers, start, end)


def test_the_same_question_is_asked_once_until_something_is_written() -> None:
    storage = Counting()
    turn = RoundStorage(storage)
    column = LabelColumn((named("load"),))
    for value in (1.0, 2.0):
        turn.write("rule", column, np.array([value]), 10.0 + value)
        answers = [turn.latest(LOAD, 0.0, 20.0).values.tolist() for _ in range(3)]
        assert answers == [[value]] * 3
    turn.latest(LOAD, 5.0, 20.0)
    assert storage.asked == 3
