"""What samples and reports prove: condemned, idle, usable, past a bound, or nothing. Unknown proves nothing."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

from trimtab.model.health import Action, CordonMark, HealthState, NodeReport, Witness
from trimtab_agent.reconciler.observation import Ec2Status, GroupObservation, InstanceObservation, Sample

OWNER = "trimtab-reconciler"
IN_SERVICE = "InService"
CONDEMNING = frozenset({Action.RESET_GPU, Action.REBOOT, Action.REPLACE, Action.INSPECT})
WELL = frozenset({HealthState.HEALTHY, HealthState.DEGRADED})


def fresh_report(instance: InstanceObservation, now: datetime, stale_after: timedelta) -> NodeReport | None:
    """The instance's report if it is young enough to prove anything; one from the future has a wrong clock."""
    report = instance.report
    if (
        report is None
        or abs(now - report.at) > stale_after
        or report.snapshot_age_seconds > stale_after.total_seconds()
    ):
        return None
    return report


def witnesses(instance: InstanceObservation, now: datetime, stale_after: timedelta) -> frozenset[Witness]:
    """The independent sources that condemn an instance now.

    A silent agent counts only beside AWS's own impaired status; either alone is no evidence (containers-roadmap#2555).
    """
    report = fresh_report(instance, now, stale_after)
    if report is not None:
        return frozenset(
            check.witness
            for check in report.checks
            if check.health is HealthState.UNHEALTHY and check.action in CONDEMNING
        )
    if is_dead(instance):
        return frozenset({Witness.AGENT_SILENCE, Witness.EC2_STATUS})
    return frozenset()


def is_dead(instance: InstanceObservation) -> bool:
    """True when the agent is silent and AWS says itself that the instance is impaired: no order reaches it."""
    return instance.report is None and instance.ec2_status is Ec2Status.IMPAIRED


def is_condemned(instance: InstanceObservation, now: datetime, stale_after: timedelta) -> bool:
    """True when two different witnesses condemn the instance (I15)."""
    return len(witnesses(instance, now, stale_after)) > 1


def is_usable(instance: InstanceObservation, now: datetime, stale_after: timedelta) -> bool:
    """True when the instance is in service, well, and open to new work."""
    marked = instance.report is not None and instance.report.cordon is not None
    return instance.lifecycle == IN_SERVICE and is_well(instance, now, stale_after) and not marked


def is_busy(instance: InstanceObservation, now: datetime, stale_after: timedelta) -> bool | None:
    """Whether jobs run on the instance; None when nobody can say."""
    report = fresh_report(instance, now, stale_after)
    return None if report is None else report.busy


def is_well(instance: InstanceObservation, now: datetime, stale_after: timedelta) -> bool:
    """True when the instance says itself, now, that it can work."""
    report = fresh_report(instance, now, stale_after)
    return report is not None and report.health in WELL


def own_mark(instance: InstanceObservation) -> CordonMark | None:
    """The cordon that we set, if it is there."""
    mark = instance.report.cordon if instance.report else None
    return mark if mark is not None and mark.owner == OWNER else None


def is_closed(instance: InstanceObservation) -> bool:
    """True when we closed the instance to new work, because it may leave with a shrinking group."""
    mark = own_mark(instance)
    return mark is not None and not mark.drain


def foreign_mark(instance: InstanceObservation) -> CordonMark | None:
    """A cordon that somebody else set; it is theirs to lift."""
    mark = instance.report.cordon if instance.report else None
    return mark if mark is not None and mark.owner != OWNER else None


def unreadable(sample: Sample | None, stale_after: timedelta, now: datetime) -> str | None:
    """Why a sample proves nothing, or None when it is good."""
    if sample is None:
        return "never measured"
    if sample.value is None or not math.isfinite(sample.value):
        return sample.problem or "no value"
    if sample.at is None or abs(now - sample.at) > stale_after:
        return "stale"
    return None


def known(sample: Sample | None, stale_after: timedelta, now: datetime) -> float | None:
    """The sample's value if it proves anything."""
    return None if sample is None or unreadable(sample, stale_after, now) else sample.value


def in_service(group: GroupObservation) -> list[InstanceObservation]:
    """The instances that AWS counts as serving."""
    return [each for each in group.instances if each.lifecycle == IN_SERVICE]
