"""The degradation ladder as a table of looks: what the alerts ask, what is done."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ds4watch.model.action import Hold, RefusalReason
from ds4watch.model.alert import AlertPhase, AlertState
from ds4watch.model.series import labels_of
from ds4watch.model.service_policy import Limits
from ds4watch.policy.ladder import Decision, LadderState, decide, demand, redefined
from ds4watch.policy.policyfile import PolicyFile, load_policy

NOW = 1000.0
POLICY = load_policy(
    """\
pools:
  default:
    settle_seconds: 10
    clear_hold_seconds: 20
    ladder:
      - {name: short, max_tokens_cap: 32}
      - {name: cheap, max_tokens_cap: 16, substitutions: {tiny: tiny-quantized}}
      - name: shed
        max_tokens_cap: 16
        substitutions: {tiny: tiny-quantized}
        shed_below_priority: 5
        max_turns: 20
bindings:
  - {match: {alertname: Queue, severity: warning}, level: 2}
  - {match: {alertname: Queue, severity: critical}, level: 3, jump: true}
""",
    "policy.yml",
)


def alert(severity: str = "warning", phase: AlertPhase = AlertPhase.FIRING) -> AlertState:
    labels = labels_of({"alertname": "Queue", "severity": severity})
    return AlertState("r", labels, phase, active_at=0.0, value=80.0, fired_at=5.0)


def look(
    state: LadderState,
    alerts: list[AlertState],
    now: float,
    *,
    holds: tuple[Hold, ...] = (),
    in_flight: bool = False,
    unconfirmed: bool = False,
    policy: PolicyFile = POLICY,
) -> Decision:
    return decide(
        state,
        policy,
        alerts,
        holds=holds,
        in_flight=in_flight,
        unconfirmed=unconfirmed,
        now=now,
    )


def done(decision: Decision, now: float) -> LadderState:
    """Return the ladder's state once the plan has been carried out."""
    assert decision.plan is not None
    parameters = decision.plan.parameters
    return replace(
        decision.state,
        level=parameters["level"],
        version=parameters["version"],
        since=now,
        action=decision.plan.id,
    )


def test_a_warning_climbs_one_level_at_a_time_with_time_to_settle() -> None:
    state = LadderState("default")
    first = look(state, [alert()], 100.0)
    assert first.plan is not None
    assert first.plan.parameters["level"] == 1
    assert first.plan.reason == "Queue (warning) is firing at 80"
    state = done(first, 100.0)
    early = look(state, [alert()], 109.0)
    assert early.plan is None
    assert early.refusal is not None
    assert early.refusal.reason is RefusalReason.SETTLING
    later = look(early.state, [alert()], 110.0)
    assert later.plan is not None
    assert later.plan.parameters["level"] == 2
    assert look(done(later, 110.0), [alert()], 130.0).plan is None


def test_a_plan_that_came_to_nothing_is_planned_anew_under_another_id() -> None:
    first = look(LadderState("default"), [alert()], 100.0)
    again = look(first.state, [alert()], 101.0)
    assert first.plan is not None
    assert again.plan is not None
    assert again.plan.id != first.plan.id


def test_a_refusal_that_goes_on_is_told_once() -> None:
    state = done(look(LadderState("default"), [alert()], 100.0), 100.0)
    first = look(state, [alert()], 101.0)
    assert first.refusal is not None
    assert look(first.state, [alert()], 102.0).refusal is None


def test_a_critical_alert_jumps() -> None:
    decision = look(LadderState("default"), [alert(), alert("critical")], 100.0)
    assert decision.plan is not None
    assert decision.plan.parameters["level"] == 3
    assert decision.plan.parameters["ladder"][3]["shed_below_priority"] == 5
    assert decision.plan.parameters["ladder"][3]["max_turns"] == 20


def test_only_firing_confirmed_alerts_act() -> None:
    for quiet in (
        alert(phase=AlertPhase.PENDING),
        alert(phase=AlertPhase.RESOLVED),
        replace(alert(), confirmed=False),
        replace(alert(), held=True),
    ):
        assert look(LadderState("default"), [quiet], 100.0).plan is None


def test_of_the_tiers_of_one_alert_only_the_highest_that_is_bound_acts() -> None:
    both = [alert("warning"), alert("critical")]
    assert [it.tier.value for it in demand("default", POLICY, both).causes] == ["critical"]
    unbound = [alert("info"), alert("warning")]
    assert demand("default", POLICY, unbound).level == 2
    bindings = {"bindings": POLICY.bindings[:1]}
    only_warning = POLICY.model_copy(update=bindings)
    assert demand("default", only_warning, both).level == 2


def test_it_comes_down_one_level_after_calm_and_undoes_what_it_did() -> None:
    state = LadderState("default", level=2, since=0.0, version=2, action="set_level:default:2")
    calm = look(state, [], 100.0)
    assert calm.plan is None
    assert look(calm.state, [], 119.0).plan is None
    down = look(calm.state, [], 120.0)
    assert down.plan is not None
    assert (down.plan.parameters["level"], down.plan.undoes) == (1, "set_level:default:2")
    assert down.plan.reason == "calm for 20 s"


def test_each_level_down_needs_calm_of_its_own() -> None:
    state = LadderState("default", level=2, version=2, calm_since=0.0)
    down = look(state, [], 100.0)
    state = done(down, 100.0)
    assert look(state, [], 101.0).plan is None
    assert look(look(state, [], 101.0).state, [], 121.0).plan is not None


def test_calm_that_is_broken_starts_anew() -> None:
    state = LadderState("default", level=2, version=2)
    state = look(state, [], 100.0).state
    state = look(state, [alert()], 110.0).state
    assert look(state, [], 121.0).plan is None


def test_a_held_alert_keeps_the_level() -> None:
    state = LadderState("default", level=2, version=2, calm_since=0.0)
    assert look(state, [replace(alert(), held=True)], 100.0).plan is None


def test_nothing_steps_down_before_every_restored_alert_was_seen_afresh() -> None:
    state = LadderState("default", level=2, version=2, calm_since=0.0)
    assert look(state, [replace(alert(), confirmed=False)], 100.0, unconfirmed=True).plan is None


def test_a_hold_stops_both_ways_and_ends_by_itself() -> None:
    hold = Hold("default", until_at=200.0, who="ana", why="looking", placed_at=0.0)
    up = look(LadderState("default"), [alert()], 100.0, holds=(hold,))
    assert up.plan is None
    assert up.refusal is not None
    assert up.refusal.detail == "ana holds default: looking"
    state = LadderState("default", level=1, version=1, calm_since=0.0)
    assert look(state, [], 100.0, holds=(hold,)).plan is None
    assert look(state, [], 200.0, holds=(hold,)).plan is not None


def test_while_an_action_is_under_way_nothing_else_is_planned() -> None:
    assert look(LadderState("default"), [alert()], 100.0, in_flight=True).plan is None


def test_a_dry_run_plans_once_and_says_so() -> None:
    dry = POLICY.model_copy(update={"dry_run": True})
    first = look(LadderState("default"), [alert()], 100.0, policy=dry)
    assert first.plan is not None
    assert first.plan.dry_run
    assert look(first.state, [alert()], 101.0, policy=dry).plan is None


def test_a_policy_that_lost_its_ladder_lets_the_level_go() -> None:
    empty = load_policy("", "policy.yml")
    state = LadderState("default", level=3, version=3, calm_since=0.0)
    down = look(state, [alert("critical")], 100.0, policy=empty)
    assert down.plan is not None
    assert down.plan.parameters["level"] == 1
    state = replace(done(down, 100.0), calm_since=0.0)
    last = look(state, [], 200.0, policy=empty)
    assert last.plan is not None
    assert (last.plan.parameters["level"], last.plan.parameters["level_name"]) == (0, "normal")
    assert look(LadderState("default"), [alert()], 0.0, policy=empty).plan is None


@given(st.lists(st.sampled_from(["none", "warning", "critical", "held"]), max_size=60))
def test_levels_rise_only_under_an_alert_and_fall_only_one_at_a_time(asks: list[str]) -> None:
    state = LadderState("default")
    for second, ask in enumerate(asks):
        now = float(second * 5)
        alerts = {
            "none": [],
            "warning": [alert()],
            "critical": [alert("critical")],
            "held": [replace(alert(), held=True)],
        }[ask]
        decision = look(state, alerts, now)
        state = decision.state
        if decision.plan is not None:
            level = decision.plan.parameters["level"]
            asked = {"none": 0, "held": 2, "warning": 2, "critical": 3}[ask]
            if level > state.level:
                assert ask in ("warning", "critical")
                assert level <= asked
            else:
                assert level == state.level - 1 >= asked
            state = done(decision, now)


@given(
    st.integers(0, 3),
    st.lists(st.sampled_from(["warning", "critical"]), max_size=2, unique=True),
    st.floats(0, 100),
)
def test_a_level_moves_one_step_at_a_time_unless_something_critical_fires(
    level: int, tiers: list[str], waited: float
) -> None:
    state = LadderState("default", level=level, since=100.0, calm_since=100.0)
    decision = look(state, [alert(tier) for tier in tiers], 100.0 + waited)
    if decision.plan is not None and "critical" not in tiers:
        assert abs(decision.plan.parameters["level"] - level) == 1


def test_the_level_in_force_becomes_what_the_policy_says_it_is() -> None:
    state = LadderState("default", level=2, since=NOW, version=4, action="set_level:default:4")
    older = (Limits(), Limits(max_tokens_cap=32), Limits(max_tokens_cap=8))
    plan = redefined(state, POLICY, older, holds=(), now=NOW + 1)
    assert plan is not None
    assert (plan.id, plan.cause) == ("set_level:default:5", "redefined")
    assert (plan.parameters["level"], plan.before) == (2, {"level": 2})
    stored = tuple(Limits.from_json(it) for it in json.loads(json.dumps(plan.parameters["ladder"])))
    assert stored[-1].max_tokens_cap == 16
    assert redefined(state, POLICY, stored, holds=(), now=NOW + 1) is None


def test_a_level_is_not_redefined_under_a_hold_in_a_dry_run_or_if_the_policy_has_it_no_more() -> (
    None
):
    state, older = LadderState("default", level=2, since=NOW), (Limits(),) * 3
    held = (Hold("*", NOW + 60, "ann", "no", NOW),)
    dry = POLICY.model_copy(update={"dry_run": True})
    gone = replace(state, level=4)
    assert redefined(state, POLICY, older, holds=held, now=NOW) is None
    assert redefined(state, dry, older, holds=(), now=NOW) is None
    assert redefined(gone, POLICY, older, holds=(), now=NOW) is None


def test_a_persons_level_that_is_redefined_stays_the_persons() -> None:
    state = LadderState("default", level=1, version=7, action="act:12:redefined:7")
    plan = redefined(state, POLICY, (Limits(),) * 2, holds=(), now=NOW)
    assert plan is not None
    assert plan.id == "act:12:redefined:8"
    own = replace(state, action=plan.id)
    assert look(own, [], NOW + 9999).plan is None
