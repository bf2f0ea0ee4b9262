from __future__ import annotations

from ds4watch.routing.ejection import Ejections, forget_absent, local_eject, local_restore


def test_a_worker_that_stays_away_is_left_out_for_longer_each_time() -> None:
    ejections, now, spans = Ejections(), 0.0, []
    for _ in range(8):
        ejections = local_eject(ejections, "a", now)
        until = ejections.at(now)["a"]
        spans.append(until - now)
        now = until
    assert spans == [1, 2, 4, 8, 16, 30, 30, 30]


def test_requests_that_fail_together_count_once() -> None:
    ejections = local_eject(Ejections(), "a", 0.0)
    assert local_eject(ejections, "a", 0.5).at(0.5) == {"a": 1.0}


def test_it_is_tried_again_once_its_time_is_over() -> None:
    ejections = local_eject(Ejections(), "a", 0.0)
    assert ejections.at(0.99) == {"a": 1.0}
    assert ejections.at(1.0) == {}


def test_an_answer_wipes_the_slate() -> None:
    ejections = local_eject(local_eject(Ejections(), "a", 0.0), "a", 1.0)
    ejections = local_restore(ejections, "a")
    assert ejections.at(1.5) == {}
    assert local_eject(ejections, "a", 2.0).at(2.0) == {"a": 3.0}
    assert local_restore(ejections, "stranger") is ejections


def test_workers_that_are_gone_are_forgotten() -> None:
    ejections = local_eject(local_eject(Ejections(), "a", 0.0), "b", 0.0)
    assert set(forget_absent(ejections, frozenset({"b", "c"})).at(0.0)) == {"b"}
    assert forget_absent(ejections, frozenset({"a", "b"})) is ejections
