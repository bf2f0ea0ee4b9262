from __future__ import annotations

import math
import random
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics_parser

from ds4watch.model.errors import EdgeReason, ScrapeError
from ds4watch.model.series import SeriesKey, labels_of
from ds4watch.scrape.exposition import Limits, PageReader
from tests.edge.scrape.support import DATA, OPENMETRICS, SHARED, TEXT, Schemas, as_dict, key, read

PAGES = [
    path
    for folder in (DATA, SHARED)
    for end in ("prom", "om.txt")
    for path in sorted(folder.glob(f"*.{end}"))
]
WRITTEN_NAME = re.compile(r'^(?:\{"((?:[^"\\]|\\.)*)"|([^\s{#]+))', re.MULTILINE)


def by_library(text: str, *, openmetrics: bool = False) -> dict[SeriesKey, float]:
    """Read with prometheus-client, by the rules by which we differ from it, as Prometheus does.

    A name is what the page says: the library appends _total to a counter that lacks it. Birth
    times are left out. Of a series that comes twice, the first counts.
    """
    read_text = (openmetrics_parser if openmetrics else parser).text_string_to_metric_families
    written = {one or other for one, other in WRITTEN_NAME.findall(text)}
    found: dict[SeriesKey, float] = {}
    for family in read_text(text):
        for sample in family.samples:
            if sample.name.endswith("_created") or sample.value is None:
                continue
            name = sample.name if sample.name in written else sample.name.removesuffix("_total")
            found.setdefault(SeriesKey(name, labels_of(sample.labels)), float(sample.value))
    return found


def assert_same(ours: dict[SeriesKey, float], theirs: dict[SeriesKey, float]) -> None:
    assert list(ours) == list(theirs)
    np.testing.assert_array_equal(np.array([*ours.values()]), np.array([*theirs.values()]))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_real_page_reads_as_prometheus_client_reads_it(path: Path) -> None:
    text = path.read_text()
    openmetrics = path.name.endswith(".om.txt")
    page = read(text, OPENMETRICS if openmetrics else TEXT)
    assert_same(as_dict(page), by_library(text))
    assert not page.odd_lines


def test_an_openmetrics_page_reads_as_the_openmetrics_parser_reads_it() -> None:
    text = (
        '# TYPE a counter\na_total{x="1"} 3.0 1700000000.5 # {t="z"} 0.5 1.4\na_created 1.7e9\n'
        '# TYPE h histogram\nh_bucket{le="1.0"} 2 # {t="z"} 0.5\nh_bucket{le="+Inf"} 3\n'
        "h_count 3\nh_sum 4.5\nh_created 1.7e9\n# TYPE g unknown\ng NaN\n# EOF\n"
    )
    page = read(text, OPENMETRICS)
    assert_same(as_dict(page), by_library(text, openmetrics=True))
    assert len(page.values) == 6
    assert (page.odd_lines, page.mislabelled) == (0, False)


@pytest.mark.skipif(not SHARED.exists(), reason="../shared/metrics is not here")
def test_the_shared_pages_are_among_those_compared() -> None:
    assert len(PAGES) > 20


@pytest.mark.parametrize("path", PAGES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_page_with_new_numbers_reads_the_same_by_comparison_as_anew(path: Path) -> None:
    text = path.read_text()
    reader, dice = PageReader(Schemas()), random.Random(1)
    first = reader.read(text.encode(), TEXT, "w")
    moved = re.sub(
        r"(?m)^([^#\n].*) \S+$",
        lambda line: f"{line[1]} {dice.uniform(-1e9, 1e9)}" if dice.random() < 0.4 else line[0],
        text,
    )
    again = reader.read(moved.encode(), TEXT, "w")
    assert_same(as_dict(again), as_dict(read(moved)))
    if again.schema.series == first.schema.series:
        assert again.schema is first.schema


NAMES = st.from_regex(r"[a-z_:][a-z0-9_:]{0,8}", fullmatch=True).filter(
    lambda name: not name.endswith("_created")
)
LABELS = st.dictionaries(
    st.from_regex(r"[a-z][a-z0-9_]{0,5}", fullmatch=True),
    st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8),
    max_size=3,
)
NUMBERS = st.one_of(
    st.floats().map(repr),
    st.integers().map(str),
    st.sampled_from(["NaN", "+Inf", "-Inf", "1.17e+010", "0x10", "1_000", "", "abc", "1e5", "."]),
)


def written(name: str, labels: dict[str, str], number: str, tail: str) -> str:
    escaped = {
        label: value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
        for label, value in labels.items()
    }
    inner = ",".join(f'{label}="{value}"' for label, value in escaped.items())
    return f"{name}{{{inner}}} {number}{tail}" if inner else f"{name} {number}{tail}"


TAILS = [
    "",
    "",
    "",
    " ",
    "\r",
    "\t",
    " 1700000000000",
    " 17e11\r",
    " 7 8",
    " x",
    " 1_0",
    '{x="1"} 1',
]
EXEMPLARS = ["", '# {trace_id="a_b c}"} 0.5', '# {x="\\""} 5 1.7e9', "# {} 1", "# {", '# {x="1"} ?']
LINES = st.one_of(
    st.builds(
        written,
        NAMES,
        LABELS,
        NUMBERS,
        st.builds("{0}{1}".format, st.sampled_from(TAILS), st.sampled_from(["", *EXEMPLARS])),
    ),
    st.builds('{{"{0}.é",x="{1}"}} {2}'.format, NAMES, st.sampled_from(["", r"\""]), NUMBERS),
    st.sampled_from(
        [
            "",
            "  ",
            "# HELP a b",
            "#",
            ' a{x = "1" , y="2",} 3',
            'a{x="1",x="2"} 3',
            "a{} 3",
            "a{,} 3",
        ]
    ),
)


def each_line_by_library(text: str) -> tuple[dict[SeriesKey, float], int]:
    found: dict[SeriesKey, float] = {}
    odd = 0
    for line in text.split("\n"):
        try:
            for name, value in by_library(line).items():
                found.setdefault(name, value)
        except (ValueError, IndexError):
            odd += 1
    return found, odd


def moved(data: st.DataObject, lines: list[str]) -> list[str]:
    """Return the lines as they may be at the next scrape."""
    lines = list(lines)
    for _ in range(data.draw(st.integers(0, 3))):
        what = data.draw(st.sampled_from(["number", "number", "number", "swap", "drop", "new"]))
        if what == "new" or not lines:
            lines.insert(data.draw(st.integers(0, len(lines))), data.draw(LINES))
            continue
        at = data.draw(st.integers(0, len(lines) - 1))
        if what == "number":
            lines[at] = lines[at].rpartition(" ")[0] + " " + data.draw(NUMBERS)
        elif what == "swap":
            lines[0], lines[at] = lines[at], lines[0]
        else:
            del lines[at]
    return lines


@given(st.lists(LINES, max_size=8), st.sampled_from(["\n", "\n", "\r\n"]), st.data())
@settings(max_examples=300, deadline=None)
def test_any_page_reads_as_the_library_reads_its_lines_first_and_later_and_by_another_targets(
    lines: list[str], line_end: str, data: st.DataObject
) -> None:
    reader = PageReader(Schemas())
    for turn, target in enumerate(["w", "w", "another", "w", "a third"]):
        text = line_end.join(lines) + data.draw(st.sampled_from([line_end, ""]))
        expected, odd = each_line_by_library(text)
        if odd and not expected:
            with pytest.raises(ScrapeError):
                reader.read(text.encode(), TEXT, target)
        else:
            page = reader.read(text.encode(), TEXT, target)
            assert_same(as_dict(page), expected)
            assert page.odd_lines == odd
        lines = moved(data, lines) if turn else lines


TIMES = st.sampled_from(["", "", " 1700000000", " 1700000000.5"])
FINITE = st.one_of(st.floats(0, 1e12).map(repr), st.integers(0, 10**9).map(str))
TRACES = st.sampled_from(["", ' # {trace_id="z"} 0.5', ' # {a="b c",d="e}"} 5 1.7e9', " # {} 1"])
"""Without an escaped quote, at which the strict parser itself gives up."""


@st.composite
def families(draw: st.DrawFn, name: str) -> list[str]:
    """Return the lines of one OpenMetrics family, as the strict parser has them."""
    kind = draw(st.sampled_from(["gauge", "counter", "histogram"]))
    labels = draw(LABELS)
    labels.pop("le", None)
    inner = written("", labels, "", "").strip().strip("{}")
    time = draw(TIMES)
    braces = f"{{{inner}}}" if inner else ""
    lines = [f"# TYPE {name} {kind}", f"# HELP {name} some"]
    if kind == "gauge":
        return [*lines, f"{name}{braces} {draw(NUMBER)}{time}"]
    if kind == "counter":
        total = f"{name}_total{braces} {draw(FINITE)}{time}{draw(TRACES)}"
        return [*lines, total, f"{name}_created{braces} 1.7e9{time}"]
    counts = sorted(draw(st.lists(st.integers(0, 10**6), min_size=1, max_size=3)))
    bounds = [*map(str, range(len(counts) - 1)), "+Inf"]
    comma = "," if inner else ""
    return [
        *lines,
        *(
            f'{name}_bucket{{{inner}{comma}le="{bound}"}} {number}{time}{draw(TRACES)}'
            for bound, number in zip(bounds, counts, strict=True)
        ),
        f"{name}_count{braces} {counts[-1]}{time}",
        f"{name}_sum{braces} {draw(FINITE)}{time}",
    ]


NUMBER = st.one_of(st.floats().map(repr), st.sampled_from(["NaN", "+Inf", "-Inf", "1.17e+010"]))


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_openmetrics_page_reads_as_the_strict_parser_reads_it_first_and_later(
    data: st.DataObject,
) -> None:
    reader = PageReader(Schemas())
    names = data.draw(st.lists(st.sampled_from("abcdef"), unique=True, min_size=1))
    kept = {name: data.draw(families(name)) for name in names}
    for _ in range(4):
        text = "\n".join(line for name in names for line in kept[name]) + "\n# EOF\n"
        expected = by_library(text, openmetrics=True)
        for content_type in (OPENMETRICS, TEXT):
            page = reader.read(text.encode(), content_type, content_type)
            assert_same(as_dict(page), expected)
            assert (page.odd_lines, page.duplicates) == (0, 0)
            assert page.mislabelled is (content_type == TEXT)
        names = data.draw(st.permutations(names)) if data.draw(st.booleans()) else names
        name = data.draw(st.sampled_from(names))
        kept[name] = data.draw(families(name))


@pytest.mark.parametrize(
    ("line", "series", "value"),
    [
        ("a 1.1701968896e+010", key("a"), 11701968896.0),
        ("a +Inf", key("a"), math.inf),
        ("a -Inf", key("a"), -math.inf),
        ('a{x="b c} 5"} 7', key("a", x="b c} 5"), 7.0),
        (r'a{x="q\"\\\n"} 7', key("a", x='q"\\\n'), 7.0),
        ('a{x="1", y="2",} 7', key("a", x="1", y="2"), 7.0),
        ('a{x=""} 7', key("a"), 7.0),
        ("a 7 1700000000000", key("a"), 7.0),
        ("a\t7", key("a"), 7.0),
        ("a 7\r", key("a"), 7.0),
        ('a_bucket{le="1"} 3 # {trace="z"} 0.5', key("a_bucket", le="1"), 3.0),
        ('a_bucket{le="1"} 3 1.5 # {trace="z"} 0.5 1.4', key("a_bucket", le="1"), 3.0),
    ],
)
def test_case_33_a_line_reads_as_it_says(line: str, series: SeriesKey, value: float) -> None:
    reader = PageReader(Schemas())
    for text in (line, f"b 1\n{line}\n", f"b 2\n{line}\n"):
        found = as_dict(reader.read(text.encode(), TEXT, "w"))
        assert found[series] == value


def test_not_a_number_stays_one() -> None:
    assert math.isnan(as_dict(read("a NaN\n"))[key("a")])


def test_case_33_one_odd_line_does_not_lose_the_page() -> None:
    page = read('a 1\nb{x="unclosed 2\nthis is not a metric\nc 3\n')
    assert as_dict(page) == {key("a"): 1.0, key("c"): 3.0}
    assert page.odd_lines == 2


def test_a_value_that_turns_odd_loses_its_series_and_comes_back() -> None:
    reader = PageReader(Schemas())
    pages = [reader.read(body, TEXT, "w") for body in (b"a 1\nb 2\n", b"a 1\nb x\n", b"a 1\nb 3\n")]
    assert [as_dict(page).get(key("b")) for page in pages] == [2.0, None, 3.0]
    assert pages[0].schema is pages[2].schema


@pytest.mark.parametrize("line", [b"nan", b"7", b"-inf"])
def test_a_line_that_is_no_more_than_a_number_is_no_value_of_the_series_that_stood_there(
    line: bytes,
) -> None:
    reader = PageReader(Schemas())
    reader.read(b"a 1\nb 2\n", TEXT, "w")
    page = reader.read(b"a 3\n" + line + b"\n", TEXT, "w")
    found = as_dict(page)
    assert found[key("a")] == 3.0
    assert key("b") not in found


def test_bytes_that_are_no_text_lose_their_line_only() -> None:
    page = PageReader(Schemas()).read(b'a 1\nb{x="\xff\xfe"} 2\n', TEXT, "w")
    assert as_dict(page) == {key("a"): 1.0}
    assert page.odd_lines == 1


def test_a_page_that_is_no_metrics_page_is_a_failure() -> None:
    with pytest.raises(ScrapeError, match="not a metrics page") as caught:
        read("<html><body>It works!</body></html>")
    assert caught.value.reason is EdgeReason.PARSE


def test_an_empty_page_has_no_series_and_is_no_failure() -> None:
    assert as_dict(read("")) == {}
    assert as_dict(read("# HELP a b\n# TYPE a gauge\n")) == {}


def test_of_duplicates_the_first_counts() -> None:
    reader = PageReader(Schemas())
    page = reader.read(b'a{x="1"} 1\na{x="1"} 2\n', TEXT, "w")
    assert as_dict(page) == {key("a", x="1"): 1.0}
    assert page.duplicates == 1
    assert as_dict(reader.read(b'a{x="1"} 5\na{x="1"} 6\n', TEXT, "w")) == {key("a", x="1"): 5.0}


def test_birth_times_are_left_out_but_not_a_gauge_that_is_called_created() -> None:
    page = read("req_total 1\nreq_created 1.7e9\nlat_count 1\nlat_created 1.7e9\npod_created 5\n")
    assert [series.name for series in page.schema.series] == [
        "req_total",
        "lat_count",
        "pod_created",
    ]


@pytest.mark.parametrize(
    ("text", "content_type", "mislabelled"),
    [
        ("a 1\n# EOF\n", OPENMETRICS, False),
        ("a 1\n", OPENMETRICS, True),
        ("a 1\n# EOF\n", TEXT, True),
        ("a 1\n", TEXT, False),
        ("a 1\n", "", False),
    ],
)
def test_a_page_under_the_wrong_content_type_is_read_and_told(
    text: str, content_type: str, mislabelled: bool
) -> None:
    page = read(text, content_type)
    assert as_dict(page) == {key("a"): 1.0}
    assert page.mislabelled is mislabelled


def test_an_openmetrics_page_cut_off_in_a_line_is_a_failure() -> None:
    with pytest.raises(ScrapeError, match="cut off"):
        read("a 1\nb 67", OPENMETRICS)


def test_series_that_come_and_go_change_the_schema_and_come_back_to_it() -> None:
    reader = PageReader(Schemas())
    pages = [reader.read(body, TEXT, "w") for body in (b"a 1\n", b"a 2\nb 1\n", b"a 3\n")]
    assert [len(page.values) for page in pages] == [1, 2, 1]
    assert pages[0].schema is pages[2].schema
    assert as_dict(pages[2]) == {key("a"): 3.0}


def test_lines_that_change_places_keep_their_values() -> None:
    reader = PageReader(Schemas())
    reader.read(b"a 1\nb 2\n", TEXT, "w")
    assert as_dict(reader.read(b"b 3\na 4\n", TEXT, "w")) == {key("a"): 4.0, key("b"): 3.0}


def test_targets_are_kept_apart_and_share_schemas() -> None:
    reader = PageReader(Schemas())
    one, two = (reader.read(b"a %d\n" % n, TEXT, f"w{n}") for n in (1, 2))
    assert one.schema is two.schema
    assert as_dict(reader.read(b"a 1\n", TEXT, "w1")) == {key("a"): 1.0}


def test_a_page_in_hand_does_not_change_with_the_next_scrape() -> None:
    reader = PageReader(Schemas())
    page = reader.read(b"a 1\n", TEXT, "w")
    reader.read(b"a 2\n", TEXT, "w")
    page.values[0] += 10
    assert as_dict(reader.read(b"a 2\n", TEXT, "w")) == {key("a"): 2.0}


def test_what_is_forgotten_is_read_anew() -> None:
    reader = PageReader(Schemas())
    reader.read(b"a 1\n", TEXT, "w")
    reader.forget("w")
    assert as_dict(reader.read(b"a 2\n", TEXT, "w")) == {key("a"): 2.0}


def test_lines_with_timestamps_and_exemplars_are_read_by_comparison_too() -> None:
    schemas = Schemas()
    reader = PageReader(schemas)
    lines = (
        b"a 1 1700000000000\n",
        b'b_bucket{le="1"} 2 # {trace_id="x"} 0.5 1.7e9\n',
        b'b_bucket{le="1"} 3\n',
        b"a 4 \n",
    )
    for first, second in pairwise(lines):
        reader.read(first + b"c 1\n", TEXT, "w")
        reader.read(second + b"c 2\n", TEXT, "w")
    page = reader.read(b'a 5 1800000000000\nb_bucket{le="1"} 6 # {trace_id="y"} 7\n', TEXT, "v")
    later = reader.read(b'a 7 1800000000001\nb_bucket{le="1"} 8 1.8e9\n', TEXT, "v")
    assert later.schema is page.schema
    assert later.values.tolist() == [7.0, 8.0]
    assert len(schemas.made) == 3


def test_comments_may_change_without_the_page_being_another() -> None:
    reader = PageReader(Schemas())
    pages = [reader.read(b"# at %d\na %d\n" % (n, n), TEXT, "w") for n in range(3)]
    assert [page.values.tolist() for page in pages] == [[0.0], [1.0], [2.0]]
    assert pages[0].schema is pages[2].schema


LIMITS = Limits(series_limit=3, label_limit=2, label_value_bytes=4)


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ("a 1\nb 1\nc 1\nd 1\n", "4 samples, over sample_limit (3)"),
        ('a{x="1",y="2",z="3"} 1\n', "3 labels on a, over label_limit (2)"),
        (
            'a{x="\u00e9\u00e9\u00e9"} 1\n',
            "6 bytes in label x of a, over label_value_length_limit (4)",
        ),
    ],
)
def test_a_page_over_a_limit_fails_as_a_whole_and_one_within_is_read(
    over: str, message: str
) -> None:
    reader = PageReader(Schemas())
    within = '# HELP a\n# HELP b\na{x="1234",y="2"} 1\nb 1\nc 1\n\n'
    for _ in range(2):
        assert len(reader.read(within.encode(), TEXT, "w", LIMITS).values) == 3
        with pytest.raises(ScrapeError) as caught:
            reader.read(over.encode(), TEXT, "w", LIMITS)
        assert caught.value.reason is EdgeReason.TOO_LARGE
        assert str(caught.value).startswith(message)
        assert "raise it" in str(caught.value)
    assert len(reader.read(over.encode(), TEXT, "w").values) > 0
    with pytest.raises(ScrapeError):
        reader.read(over.encode(), TEXT, "w", LIMITS)


def test_odd_lines_that_would_take_too_long_are_left_out() -> None:
    slow = b'a{x="' + rb"\"" * 3000 + b'" ,} 1\n'
    page = PageReader(Schemas()).read(slow * 400 + b"b 1\n", TEXT, "w")
    assert as_dict(page)[key("b")] == 1.0
    assert page.odd_lines > 300
    long = b"c" * 10**6 + b"\t1\n"
    page = PageReader(Schemas()).read(long + b"b 1\n", TEXT, "w")
    assert as_dict(page) == {key("b"): 1.0}
    assert page.odd_lines == 1
