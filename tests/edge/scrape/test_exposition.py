from __future__ import annotations

import math
import random
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics_parser

from ds4watch.model.errors import EdgeReason, ScrapeError
from ds4watch.model.series import SeriesKey, labels_of
from ds4watch.scrape.exposition import PageReader
from tests.edge.scrape.support import DATA, OPENMETRICS, SHARED, TEXT, Schemas, as_dict, key, read

PAGES = [
    *sorted(DATA.glob("*.prom")),
    *sorted(SHARED.glob("*.prom")),
    *sorted(SHARED.glob("*.txt")),
]


def by_library(text: str, *, openmetrics: bool = False) -> dict[SeriesKey, float]:
    """Read with prometheus-client, under the names on the page, without the birth times.

    The library appends _total to a counter that lacks it; Prometheus, and so we, do not.
    """
    read_text = (openmetrics_parser if openmetrics else parser).text_string_to_metric_families
    written = set(re.findall(r"^[^\s{#]+", text, flags=re.MULTILINE))
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


LINES = st.builds(
    written, NAMES, LABELS, NUMBERS, st.sampled_from(["", "", "", " ", "\r", " 1700000000000"])
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


@given(st.lists(LINES, max_size=8), st.data())
@settings(max_examples=300, deadline=None)
def test_any_page_reads_as_the_library_reads_its_lines_first_and_later(
    lines: list[str], data: st.DataObject
) -> None:
    reader = PageReader(Schemas())
    for _ in range(3):
        text = "\n".join(lines) + "\n"
        expected, odd = each_line_by_library(text)
        if odd and not expected:
            with pytest.raises(ScrapeError):
                reader.read(text.encode(), TEXT, "w")
        else:
            page = reader.read(text.encode(), TEXT, "w")
            assert_same(as_dict(page), expected)
            assert page.odd_lines == odd
        if lines:
            at = data.draw(st.integers(0, len(lines) - 1))
            lines[at] = lines[at].rpartition(" ")[0] + " " + data.draw(NUMBERS)


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
def test_a_line_reads_as_it_says(line: str, series: SeriesKey, value: float) -> None:
    reader = PageReader(Schemas())
    for text in (line, f"b 1\n{line}\n", f"b 2\n{line}\n"):
        found = as_dict(reader.read(text.encode(), TEXT, "w"))
        assert found[series] == value


def test_not_a_number_stays_one() -> None:
    assert math.isnan(as_dict(read("a NaN\n"))[key("a")])


def test_one_odd_line_does_not_lose_the_page() -> None:
    page = read('a 1\nb{x="unclosed 2\nthis is not a metric\nc 3\n')
    assert as_dict(page) == {key("a"): 1.0, key("c"): 3.0}
    assert page.odd_lines == 2


def test_a_value_that_turns_odd_loses_its_series_and_comes_back() -> None:
    reader = PageReader(Schemas())
    pages = [reader.read(body, TEXT, "w") for body in (b"a 1\nb 2\n", b"a 1\nb x\n", b"a 1\nb 3\n")]
    assert [as_dict(page).get(key("b")) for page in pages] == [2.0, None, 3.0]
    assert pages[0].schema is pages[2].schema


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
    assert reader.targets() == set()
    assert as_dict(reader.read(b"a 2\n", TEXT, "w")) == {key("a"): 2.0}
