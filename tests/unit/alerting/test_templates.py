from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.alerting.templates import ERROR, Template

LABELS = (("instance", "h:1"), ("job", "vllm"))


@pytest.mark.parametrize(
    ("template", "value", "text"),
    [
        ("plain", 1.0, "plain"),
        ("{{ $value }}", 1.0, "1"),
        ("{{$value}}", 0.25, "0.25"),
        ("{{ .Value }}", 123456.0, "123456"),
        ("{{ $value }}", 1234567.0, "1.234567e+06"),
        ("{{ $value }}", 0.00001234, "1.234e-05"),
        ("{{ $value }}", math.inf, "+Inf"),
        ("{{ $value }}", math.nan, "NaN"),
        ("{{ $value }}", -0.5, "-0.5"),
        ("{{ $labels.job }} on {{ .Labels.instance }}", 1.0, "vllm on h:1"),
        ("[{{ $labels.none }}]", 1.0, "[]"),
        ("{{ $labels }}", 1.0, "map[instance:h:1 job:vllm]"),
        ("[{{ $externalLabels.zone }}{{ $externalURL }}]", 1.0, "[]"),
        ("{{ humanize $value }}", 1234567.0, "1.235M"),
        ("{{ $value | humanize }}", 0.00123, "1.23m"),
        ("{{ $value | humanize }}", 0.0, "0"),
        ("{{ $value | humanize1024 }}", 1048576.0, "1Mi"),
        ("{{ $value | humanizePercentage }}", 0.1234, "12.34%"),
        ("{{ $value | humanizeDuration }}", 3723.0, "1h 2m 3s"),
        ("{{ $value | humanizeDuration }}", 0.5, "500ms"),
        ("{{ $value | humanizeDuration }}", 42.5, "42.5s"),
        ("{{ $value | humanizeDuration }}", 100000.0, "1d 3h 46m 40s"),
        ("{{ $value | humanizeTimestamp }}", 1435065584.128, "2015-06-23 13:19:44.128 +0000 UTC"),
        ('{{ printf "%.2f" $value }}', 3.14159, "3.14"),
        ('{{ printf "%d of %s" $value $labels.job }}', 3.0, "3 of vllm"),
        ('{{ $value | printf "%.1f%%" }}', 99.95, "100.0%"),
        ('{{ printf "%g" $value }} {{ printf "%v" $value }}', 2.5, "2.5 2.5"),
        ('{{ printf "%q" $labels.job }}', 1.0, '"vllm"'),
        ("{{ $labels.job | toUpper }}", 1.0, "VLLM"),
        ('{{ (printf "%.0f" $value) | humanize }}', 1234.0, "1.234k"),
        ("a {{- $value -}} b", 1.0, "a1b"),
        ("a {{- ` ` -}} b", 1.0, "a b"),
        ("{{/* a note */}}x", 1.0, "x"),
        ('{{ "}}" }}', 1.0, "}}"),
        ("{{ if $value }}x{{ end }}", 1.0, ERROR),
        ("{{ query `up` }}", 1.0, ERROR),
        ("{{ $labels | humanize }}", 1.0, ERROR),
        ("{{ $labels.job | humanize }}", 1.0, ERROR),
        ("{{ $other }}", 1.0, ERROR),
        ('{{ printf "%s" }}', 1.0, ERROR),
        ("{{ $value", 1.0, ERROR),
        ("{{ $value }} and {{", 1.0, ERROR),
        ("{{ }}", 1.0, ERROR),
    ],
)
def test_expansion(template: str, value: float, text: str) -> None:
    assert Template(template).filled(LABELS).text(value) == text


@given(st.text(alphabet='{}$|()"`-% .abelsvu1', max_size=40), st.floats())
def test_no_template_ever_fails(template: str, value: float) -> None:
    assert isinstance(Template(template).filled(LABELS).text(value), str)
