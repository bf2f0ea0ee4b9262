"""What answers are worth: quantization, and service that was degraded."""

from __future__ import annotations

from dashboards.kit.views import RATE, Codes, Page, Section, graph, stat, timeline
from dashboards.pages.common import LEVEL, PROFILE, share

_CHOSEN = '{profile=~"$profile"}'
_CHOSEN_ERROR = _CHOSEN.replace("}", ', metric="mean_abs_delta_logp"}')
_ERROR = f"max by (profile, reference, metric) (ds4_quantization_error{_CHOSEN_ERROR})"
_FINISHED = f"rate(ds4_finished_requests_total{_CHOSEN}{RATE})"
_CUT = f'rate(ds4_finished_requests_total{{profile=~"$profile",reason="length"}}{RATE})'
_GENERATED = f"rate(ds4_generated_tokens_total{_CHOSEN}{RATE})"
_DROP = f"max by (profile, reference) (ds4_quality_accuracy_drop_points{_CHOSEN})"
_AGREEMENT = (
    "max by (profile, reference) "
    '(ds4_quantization_error{profile=~"$profile",metric="top1_agreement_ratio"})'
)
_BY_CLASS = (
    'max by (profile, reference, class) (ds4_quality_class_{}_points{{profile=~"$profile"}})'
)
_SCORE = 'ds4_answer_score_sum_total{worker!="",profile=~"$profile"}'
_SCORED = 'ds4_answers_scored_total{worker!="",profile=~"$profile"}'
_REGRET = f"sum by (le) (rate(ds4_route_regret_seconds_bucket{RATE}))"
_NOT_JUDGED = "until a request was judged that another worker could have answered"
_NOT_SCORED = "until an answer was scored: one of `gateway.score_every`"
_NOT_ASKED = "until golden questions were asked of a profile and its reference"
_NO_PAIR = "until the first measurement, and without a quantized profile beside its reference"

_NOW = (
    stat(
        "Quantization error",
        "none",
        "Mean difference of log-probabilities from the reference, on fixed prompts.",
        (_ERROR, "{{profile}}"),
        alert="QuantizationErrorHigh",
        decimals=3,
        may_be_empty=_NO_PAIR,
    ),
    stat(
        "Accuracy lost",
        "none",
        "Percentage points by which a profile answers fewer golden questions right.",
        (_DROP, "{{profile}}"),
        alert="AccuracyDropHigh",
        decimals=1,
        may_be_empty=_NOT_ASKED,
    ),
    stat(
        "Last measured",
        "s",
        "How long ago the last measurement ended, by what was measured.",
        (
            f"time() - max by (metric) (ds4_quality_measured_timestamp_seconds{_CHOSEN})",
            "{{metric}}",
        ),
        decimals=0,
        may_be_empty=_NO_PAIR,
    ),
    stat(
        "Answers cut at their length",
        "percentunit",
        "Share of finished requests that ended at the most tokens they were given.",
        (share(f"sum({_CUT})", f"sum({_FINISHED})"), "cut"),
        decimals=0,
    ),
    stat(
        "Level in force",
        "none",
        "Degradation level of the service; normal is level 0.",
        (LEVEL, "{{pool}}"),
        codes=Codes.LEVEL,
    ),
    stat(
        "Time degraded",
        "percentunit",
        "Share of the time shown in which a level above normal was in force.",
        ("avg_over_time((max(ds4_degradation_level) > bool 0)[$__range:15s])", "degraded"),
        decimals=0,
    ),
)
_AGAINST = (
    graph(
        "Quantization error",
        "none",
        "Of each quantized profile against its reference; compared on fixed prompts.",
        (_ERROR, "{{profile}} against {{reference}}, {{metric}}"),
        alert="QuantizationErrorHigh",
        may_be_empty=_NO_PAIR,
    ),
    graph(
        "Accuracy lost",
        "none",
        "Percentage points, the same golden questions for both.",
        (_DROP, "{{profile}} against {{reference}}"),
        alert="AccuracyDropHigh",
        may_be_empty=_NOT_ASKED,
        is_signed=True,
    ),
    graph(
        "Same first choice as the reference",
        "percentunit",
        "Share of the tokens of fixed prompts; where first choices part, greedy answers do.",
        (_AGREEMENT, "{{profile}} against {{reference}}"),
        alert="QualityDrift",
        may_be_empty=_NO_PAIR,
    ),
    graph(
        "Accuracy lost, by class of work",
        "none",
        "Percentage points; and what of it is proved, with 95 % certainty.",
        (_BY_CLASS.format("loss"), "{{profile}} against {{reference}}, {{class}}"),
        (_BY_CLASS.format("loss_least"), "{{profile}} against {{reference}}, {{class}}, proved"),
        alert="QualityBoundBroken",
        may_be_empty=_NOT_ASKED,
        is_signed=True,
    ),
)
_ROUTES = (
    graph(
        "Route regret",
        "s",
        "By how much another worker would have answered sooner, in hindsight; of a sample.",
        (f"histogram_quantile(0.5, {_REGRET})", "half within"),
        (f"histogram_quantile(0.95, {_REGRET})", "95 % within"),
        may_be_empty=_NOT_JUDGED,
    ),
    graph(
        "Cost of 1,000 tokens in time",
        "none",
        "Money of a profile's workers by tokens of requests answered within quality.slo_seconds.",
        (
            f"max by (profile, currency) (ds4_slo_cost_per_thousand_tokens{_CHOSEN})",
            "{{profile}}, {{currency}}",
        ),
        may_be_empty="until a request was answered in time",
    ),
)
_ANSWERS = (
    graph(
        "How answers ended",
        "none",
        "Requests a second, by profile and the engine's reason.",
        (f"sum by (profile, reason) ({_FINISHED})", "{{profile}} {{reason}}"),
        is_stacked=True,
        width=8,
    ),
    graph(
        "Mean length of an answer",
        "none",
        "Generated tokens for each finished request; caps of a level shorten it.",
        (
            f"sum by (profile) ({_GENERATED}) / sum by (profile) ({_FINISHED})",
            "{{profile}}",
        ),
        width=8,
    ),
    graph(
        "Score of the text",
        "none",
        "Mean by worker, of the answers scored: 1 is good, broken models repeat themselves or "
        "say nothing.",
        (f"rate({_SCORE}[15m]) / rate({_SCORED}[15m])", "{{worker}}"),
        alert="AnswerScoreLow",
        may_be_empty=_NOT_SCORED,
        width=8,
    ),
    timeline(
        "Level in force over time",
        "At higher levels answers are capped, or come from smaller models.",
        (LEVEL, "{{pool}}"),
        codes=Codes.LEVEL,
        width=24,
        height=4,
    ),
)
QUALITY = Page(
    name="quality",
    title="ds4watch: quality",
    text="What answers are worth: quantization error, answers cut short, degraded service.",
    variables=(PROFILE,),
    sections=(
        Section("Now", _NOW),
        Section("Against the reference", _AGAINST),
        Section("Answers", _ANSWERS),
        Section("Routing", _ROUTES),
    ),
)
