"""Generated expressions over a fixed set of metrics, all with results that can be compared."""

from __future__ import annotations

import random

COUNTERS = ("requests_total", "hits_total")
RATES = ("rate", "increase", "irate", "resets", "changes")
OVER_TIME = (
    *("avg_over_time", "sum_over_time", "min_over_time", "max_over_time", "count_over_time"),
    *("last_over_time", "stddev_over_time", "stdvar_over_time", "present_over_time"),
    *("delta", "idelta", "deriv", "changes", "resets"),
)
AGGREGATIONS = ("sum", "avg", "min", "max", "count", "stddev", "stdvar", "group")
GROUPINGS = ("", "by (host) ", "by (job) ", "without (host) ", "by (host, job) ", "without (le) ")
ELEMENTWISE = ("abs", "ceil", "floor", "sgn", "exp", "sqrt", "ln", "round", "-", "timestamp")
MATCHERS = ("", '{host="a"}', '{job!="x"}', '{host=~"a|b"}', '{host!~"c.*"}', '{extra=""}')
WINDOWS = ("1m", "5m", "47s", "10m")
OFFSETS = ("", "", "", " offset 1m", " offset -30s", " @ start()", " @ end()")


def selector(chance: random.Random, names: tuple[str, ...]) -> str:
    return chance.choice(names) + chance.choice(MATCHERS)


def windowed(chance: random.Random) -> str:
    kind, at = chance.random(), chance.choice(OFFSETS)
    window = chance.choice(WINDOWS)
    if kind < 0.35:
        return f"{chance.choice(RATES)}({selector(chance, COUNTERS)}[{window}]{at})"
    if kind < 0.7:
        return f"{chance.choice(OVER_TIME)}({selector(chance, ('queue',))}[{window}]{at})"
    if kind < 0.8:
        q = chance.choice(("0", "0.3", "0.9", "1"))
        return f"quantile_over_time({q}, {selector(chance, ('queue',))}[{window}]{at})"
    if kind < 0.85:
        # Prometheus 2 repeats no prediction from a fixed window.
        at = at if "@" not in at else ""
        return f"predict_linear({selector(chance, COUNTERS)}[{window}]{at}, 600)"
    inner = chance.choice((selector(chance, ("queue",)), f"sum(rate(hits_total[{window}]))"))
    step = chance.choice(("15s", "17s", "1m"))
    return f"{chance.choice(OVER_TIME[:6])}(({inner})[{chance.choice(WINDOWS)}:{step}]{at})"


def vector(chance: random.Random, depth: int = 0) -> str:
    kind = chance.random()
    if depth > 2 or kind < 0.15:
        return selector(chance, (*COUNTERS, "queue")) + chance.choice(OFFSETS)
    if kind < 0.45:
        return windowed(chance)
    return chance.choice(COMPOUND)(chance, depth + 1)


def aggregated(chance: random.Random, depth: int) -> str:
    grouping = chance.choice(GROUPINGS)
    inner = vector(chance, depth)
    kind = chance.random()
    if kind < 0.15:
        return f"quantile {grouping}({chance.choice(('0.2', '0.9'))}, {inner})"
    if kind < 0.3:
        choice = chance.choice(("topk", "bottomk"))
        return f"sum({choice} {grouping}({chance.randint(1, 4)}, {inner}))"
    if kind < 0.35:
        return f'count_values {grouping}("v", round({inner}))'
    return f"{chance.choice(AGGREGATIONS)} {grouping}({inner})"


def element(chance: random.Random, depth: int) -> str:
    inner = vector(chance, depth)
    kind = chance.random()
    if kind < 0.1:
        return f"clamp({inner}, -1, {chance.choice(('5', 'scalar(sum(queue))'))})"
    if kind < 0.2:
        return f'label_replace({inner}, "host", "z-$1", "job", "(x)")'
    if kind < 0.25:
        return f'label_join({inner}, "both", "-", "host", "job")'
    if kind < 0.3:
        return f"absent({inner})"
    return f"{chance.choice(ELEMENTWISE)}({inner})"


def with_number(chance: random.Random, depth: int) -> str:
    number = chance.choice(("2", "0.5", "-1", "time()", "scalar(queue{host='a',job='x'})"))
    op = chance.choice(("+", "-", "*", "/", "%", "^", ">", "<=", "==", "!= bool"))
    sides = [vector(chance, depth), number]
    if chance.random() < 0.3:
        sides.reverse()
    return f"({sides[0]}) {op} ({sides[1]})"


def of_two(chance: random.Random, depth: int) -> str:
    op = chance.choice(("+", "-", "*", "/", ">", "<", "== bool", "and", "or", "unless"))
    how = chance.choice(("", "", " on (host, job)", " ignoring (extra)", " on (host)"))
    return f"({vector(chance, depth)}) {op}{how} ({vector(chance, depth)})"


def many_to_one(chance: random.Random, depth: int) -> str:
    op = chance.choice(("*", "/", ">"))
    single = f"sum by (host) ({vector(chance, depth)})"
    return f"({selector(chance, COUNTERS)}) {op} on (host) group_left() ({single})"


def histogram(chance: random.Random, _depth: int) -> str:
    q = chance.choice(("0", "0.5", "0.95", "1"))
    grouping = chance.choice(("by (le)", "by (le, host)", "without (job)"))
    inner = chance.choice(("rate(seconds_bucket[5m])", "seconds_bucket"))
    return f"histogram_quantile({q}, sum {grouping} ({inner}))"


COMPOUND = (aggregated, aggregated, element, with_number, of_two, many_to_one, histogram)


def expression(chance: random.Random) -> str:
    """Return one expression."""
    return vector(chance)
