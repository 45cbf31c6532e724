"""One look at everything. One source's failure is data in the observation, never the end of the round."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from trimtab.model.scaling import GroupSpec, Signal
from trimtab_agent.reconciler import evidence
from trimtab_agent.reconciler.observation import GroupObservation, InstanceObservation, Observation, Sample
from trimtab_agent.reconciler.settings import Settings
from trimtab_agent.reconciler.sources import metrics
from trimtab_agent.reconciler.sources.agents import Agents, Answer
from trimtab_agent.reconciler.sources.aws import Aws, SeenGroup, SeenInstance


def observe(specs: Mapping[str, GroupSpec], aws: Aws, agents: Agents, settings: Settings) -> Observation:
    """See all groups, their instances, their agents and their signals.

    Raises:
        AwsError: AWS cannot be read, so there is nothing to decide on.
    """
    groups = aws.groups([spec.group_id for spec in specs.values()]) if specs else {}
    instances = [each for group in groups.values() for each in group.instances]
    with ThreadPoolExecutor(2) as pool:
        pending = pool.submit(metrics.pending_gpus, settings, datetime.now(UTC))
        answers = agents.reports(instances)
        queue = pending.result()
    now = datetime.now(UTC)
    return Observation(
        now,
        {name: _group(spec, groups.get(spec.group_id), answers, queue, settings, now) for name, spec in specs.items()},
    )


def _group(
    spec: GroupSpec,
    seen: SeenGroup | None,
    answers: Mapping[str, Answer],
    queue: Mapping[str, Sample] | str,
    settings: Settings,
    now: datetime,
) -> GroupObservation:
    if seen is None:
        return GroupObservation(spec.name, None, problem=f"AWS has no group {spec.group_id}")
    instances = tuple(_instance(each, answers[each.instance_id]) for each in seen.instances)
    signals = {each.name: _signal(each, spec, instances, queue, settings, now) for each in spec.scaling.signals}
    return GroupObservation(spec.name, seen.desired, seen.min_size, seen.max_size, instances, signals)


def _instance(seen: SeenInstance, answer: Answer) -> InstanceObservation:
    return InstanceObservation(
        seen.instance_id, seen.lifecycle, seen.launched_at, seen.status, answer.report, answer.problem
    )


def _signal(
    signal: Signal,
    spec: GroupSpec,
    instances: tuple[InstanceObservation, ...],
    queue: Mapping[str, Sample] | str,
    settings: Settings,
    now: datetime,
) -> Sample:
    if signal.source == "promql":
        return metrics.promql(settings, signal)
    if signal.source == "pending_gpus":
        if isinstance(queue, str):
            return Sample(None, None, queue)
        return queue.get(spec.name, Sample(None, None, f"the queue says nothing of {spec.name}"))
    reports = [evidence.fresh_report(each, now, spec.scaling.stale_after) for each in instances]
    return metrics.from_reports(signal.source, [report for report in reports if report], now)
