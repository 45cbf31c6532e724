"""Properties of the planner over worlds that nobody would write by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trimtab.model.scaling import Bound, CapacityOwner, GroupSpec, Pin, RepairPolicy, ScalingPolicy, Signal
from trimtab_agent.reconciler import history, plan_checks, planner
from trimtab_agent.reconciler.history import GroupHistory, History, Orders, Repair, Suspect
from trimtab_agent.reconciler.observation import Observation
from trimtab_agent.reconciler.plan import Cordon, Plan, Retire, SetDesired
from trimtab_agent.simulation.scene import Scene
from trimtab_agent.simulation.world import START

CALM = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
KINDS = ("busy", "idle", "sick", "half", "ailing", "vague", "mute", "silent", "dead", "impaired", "stale", "ahead")
LIFECYCLES = ("pending", "leaving")
MARKS = ("", "+ours", "+closed", "+theirs", "+busy")
WORDS = st.builds(str.__add__, st.sampled_from([*KINDS, *LIFECYCLES]), st.sampled_from(MARKS))
FLEETS = st.lists(WORDS, max_size=12).map(" ".join)
SECONDS = st.integers(0, 900).map(lambda seconds: timedelta(seconds=seconds))
STEPS = st.one_of(
    st.builds(lambda nodes: {"nodes": nodes}, st.integers(1, 5)),
    st.builds(lambda percent: {"percent": percent}, st.floats(0.1, 200)),
    st.builds(lambda per_node: {"per_node": per_node}, st.floats(0.01, 50)),
)
BOUNDS = st.builds(lambda value, hold, step: Bound(value, hold, **step), st.floats(-5, 50), SECONDS, STEPS)
SOURCES = st.sampled_from(["pending_gpus", "busy_nodes", "busy_ratio", "gpu_utilization", "promql"])
SIGNALS = st.builds(Signal, st.sampled_from("abc"), SOURCES, st.just("q"), st.none() | BOUNDS, st.none() | BOUNDS)
POLICIES = st.builds(
    ScalingPolicy,
    st.lists(SIGNALS, max_size=3, unique_by=lambda signal: signal.name).map(tuple),
    SECONDS,
    SECONDS,
    SECONDS,
    SECONDS,
)
REPAIRS = st.builds(RepairPolicy, st.booleans(), st.integers(2, 4), st.none() | st.integers(0, 3), SECONDS, SECONDS)
INSTANTS = st.integers(-900, 0).map(lambda seconds: START + timedelta(seconds=seconds))
ENDS = st.sampled_from([START, START + timedelta(days=1)])
PINS = st.none() | st.builds(Pin, st.integers(0, 15), ENDS, st.just("why"))
SUSPECTS = st.builds(Suspect, INSTANTS, st.integers(1, 5), st.just(1), INSTANTS)
VALUES = st.none() | st.floats(-10, 500) | st.sampled_from([math.nan, math.inf, -math.inf])
SPECS = st.builds(
    lambda low, room, owner, pin, policy, repair: GroupSpec(
        "train", "urn:1", "asg-1", low, low + room, low, owner, pin, "p4d.24xlarge", policy, repair
    ),
    st.integers(0, 4),
    st.integers(0, 12),
    st.sampled_from(CapacityOwner),
    PINS,
    POLICIES,
    REPAIRS,
)
NAMES = st.sampled_from([f"i-{number}" for number in range(1, 13)])


@st.composite
def memories(draw: st.DrawFn) -> GroupHistory:
    """Histories as they come about: more asked for than in flight, never less."""
    repairs = draw(st.dictionaries(NAMES, st.builds(Repair, INSTANTS, st.none() | INSTANTS), max_size=3))
    memory = GroupHistory(
        last_up=draw(st.none() | INSTANTS),
        last_down=draw(st.none() | INSTANTS),
        wants=tuple(draw(st.lists(st.tuples(INSTANTS, st.integers(0, 12)), max_size=4))),
        past=draw(st.dictionaries(st.sampled_from(["a:up", "a:down", "b:up", "c:down"]), INSTANTS)),
        suspects=draw(st.dictionaries(NAMES, SUSPECTS, max_size=4)),
        repairs=repairs,
        desired=draw(st.none() | st.integers(0, 14)),
    )
    return replace(memory, surge=memory.surged + draw(st.integers(0, 1)))


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    spec, words = draw(SPECS), draw(FLEETS)
    serving = len([word for word in words.split() if not word.startswith("leaving")])
    desired = max(serving + draw(st.integers(-2, 2)), 0)
    signals = {name: draw(VALUES) for name in draw(st.sets(st.sampled_from("abc")))}
    paused = draw(st.sampled_from([{}, {}, {}, {"train": "x"}, {"*": "y"}]))
    pins = {"train": pin} if (pin := draw(PINS)) is not None else {}
    return Scene(spec, words, signals, desired, History({"train": draw(memories())}), Orders(pins, paused))


def planned(scene: Scene) -> tuple[Plan, plan_checks.Case]:
    specs, seen = {"train": scene.spec}, scene.observation()
    memory = history.note(scene.memory, specs, seen)
    plan = planner.plan(specs, seen, memory, scene.orders, scene.now).plan
    return plan, plan_checks.Case(plan, specs, seen, memory, scene.orders, scene.now)


@settings(CALM, max_examples=200)
@given(scenes())
def test_every_plan_passes_every_check_and_so_do_those_of_the_next_rounds(scene: Scene) -> None:
    for _ in range(3):
        scene.decide()


@CALM
@given(scenes())
def test_the_same_inputs_give_the_same_plan(scene: Scene) -> None:
    assert planned(scene)[0] == planned(scene)[0]


@CALM
@given(scenes())
def test_the_order_in_which_instances_are_listed_changes_nothing(scene: Scene) -> None:
    specs, seen = {"train": scene.spec}, scene.observation()
    group = seen.groups["train"]
    turned = Observation(seen.at, {"train": replace(group, instances=group.instances[::-1])})
    plans = [
        planner.plan(specs, each, history.note(scene.memory, specs, each), scene.orders, scene.now).plan
        for each in (seen, turned)
    ]
    assert set(map(str, plans[0].changes)) == set(map(str, plans[1].changes))


@CALM
@given(scenes(), st.floats(0, 100), st.floats(0, 100))
def test_more_pending_work_never_gives_fewer_nodes(scene: Scene, pending: float, more: float) -> None:
    queue = Signal("q", "pending_gpus", up=Bound(0, per_node=8), down=Bound(1, per_node=8))
    others = tuple(signal for signal in scene.spec.scaling.signals)
    spec = replace(scene.spec, scaling=replace(scene.spec.scaling, signals=(queue, *others)))
    sizes = []
    for value in (pending, pending + more):
        plan, _ = planned(replace(scene, spec=spec, signals={**scene.signals, "q": value}))
        sizes.append(next((each.desired for each in plan.changes if isinstance(each, SetDesired)), scene.desired))
    assert sizes[0] <= sizes[1]


@CALM
@given(scenes())
def test_a_history_survives_the_journal(scene: Scene) -> None:
    plan, case = planned(scene)
    after = history.intend(case.history, plan, {"train": 3}, scene.now)
    assert history.from_json(history.to_json(after)) == after


@CALM
@given(scenes())
def test_a_plan_is_one_direction_and_its_sentences_are_whole(scene: Scene) -> None:
    plan, _ = planned(scene)
    resized = [each for each in plan.changes if isinstance(each, SetDesired)]
    leaving = [each for each in plan.changes if isinstance(each, Retire) and each.decrement]
    named = [each.instance_id for each in plan.changes if isinstance(each, Retire | Cordon)]
    assert len(resized) <= 1
    assert not (leaving and resized[0].desired > resized[0].observed)
    assert len(set(named)) == len(named)
    assert all(each.observed != each.desired for each in resized)
    assert all(each.reason.sentence and "None" not in each.reason.sentence for each in plan.changes)


@settings(CALM, max_examples=25)
@given(st.lists(st.tuples(SPECS, FLEETS), min_size=2, max_size=4))
def test_the_budget_of_all_groups_holds_together(groups: list[tuple[GroupSpec, str]]) -> None:
    scenes_by_name = {
        f"group-{i}": Scene(replace(spec, name=f"group-{i}", repair=RepairPolicy()), words)
        for i, (spec, words) in enumerate(groups)
    }
    specs, memory, now = {name: each.spec for name, each in scenes_by_name.items()}, History(), START
    for _ in range(4):
        now += timedelta(seconds=30)
        looks = {name: replace(each, now=now).observation().groups[name] for name, each in scenes_by_name.items()}
        seen = Observation(now, looks)
        memory = history.note(memory, specs, seen)
        decided = planner.plan(specs, seen, memory, Orders(), now)
        assert plan_checks.check(plan_checks.Case(decided.plan, specs, seen, memory, Orders(), now)) == ()
        memory = history.record(memory, decided.plan, decided.wants, now)
    total = sum(each.desired for each in scenes_by_name.values())
    assert sum(len(memory.of(name).repairs) for name in specs) <= max(1, total // 10)
