from __future__ import annotations

from ds4watch.engine.patience import Patience


def said(lines: dict[int, list[str]], until: int) -> list[int]:
    """Return the seconds at which something is said, of what is waited for from when on."""
    patience = Patience(0.0)
    waiting: list[str] = []
    found: list[int] = []
    for now in range(until):
        waiting = lines.get(now, waiting)
        if patience.ends(waiting, float(now)):
            found.append(now)
    return found


def test_the_same_is_said_ever_more_seldom() -> None:
    assert said({0: ["a: loading the model (0 s; log: a.log)"]}, 160) == [5, 15, 35, 75, 155]
    told = said({0: ["a: failed (0 s)"]}, 24 * 3600)
    assert len(told) < 155


def test_how_long_it_takes_is_no_news_and_what_is_waited_for_is() -> None:
    lines = {at: [f"a: loading ({at} s)"] for at in range(100)}
    assert said(lines | {50: ["a: warming (0 s)"]}, 51) == [5, 15, 35, 50]


def test_nothing_to_wait_for_is_nothing_to_say() -> None:
    assert said({0: []}, 1000) == []
