"""What the reports of one instance prove: condemned, idle, usable, or nothing. Unknown proves nothing."""

from __future__ import annotations

from datetime import datetime, timedelta

from trimtab.model.health import Action, CordonMark, HealthState, NodeReport, Witness
from trimtab_agent.reconciler.observation import Ec2Status, GroupObservation, InstanceObservation

OWNER = "trimtab-reconciler"
IN_SERVICE = "InService"
CONDEMNING = frozenset({Action.RESET_GPU, Action.REBOOT, Action.REPLACE, Action.INSPECT})


def fresh_report(instance: InstanceObservation, now: datetime, stale_after: timedelta) -> NodeReport | None:
    """The instance's report if it is young enough to prove anything."""
    report = instance.report
    if report is None or now - report.at > stale_after or report.snapshot_age_seconds > stale_after.total_seconds():
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
    if instance.report is None and instance.ec2_status is Ec2Status.IMPAIRED:
        return frozenset({Witness.AGENT_SILENCE, Witness.EC2_STATUS})
    return frozenset()


def is_condemned(instance: InstanceObservation, now: datetime, stale_after: timedelta) -> bool:
    """True when two different witnesses condemn the instance (I15)."""
    return len(witnesses(instance, now, stale_after)) > 1


def is_usable(instance: InstanceObservation, now: datetime, stale_after: timedelta) -> bool:
    """True when the instance is in service and says itself that it can work."""
    report = fresh_report(instance, now, stale_after)
    healthy = report is not None and report.health in {HealthState.HEALTHY, HealthState.DEGRADED}
    return instance.lifecycle == IN_SERVICE and healthy and report is not None and report.cordon is None


def is_busy(instance: InstanceObservation, now: datetime, stale_after: timedelta) -> bool | None:
    """Whether jobs run on the instance; None when nobody can say."""
    report = fresh_report(instance, now, stale_after)
    return None if report is None else report.busy


def own_mark(instance: InstanceObservation) -> CordonMark | None:
    """The cordon that we set, if it is there."""
    mark = instance.report.cordon if instance.report else None
    return mark if mark is not None and mark.owner == OWNER else None


def in_service(group: GroupObservation) -> list[InstanceObservation]:
    """The instances that AWS counts as serving."""
    return [each for each in group.instances if each.lifecycle == IN_SERVICE]
