"""Who leaves when a group shrinks: by name, only idle nodes, and never one of which anything is unknown.

In two rounds: first the node is closed to new work, then, seen idle once more, it is retired. So no job can start on it
between the look and the end.
"""

from __future__ import annotations

from datetime import datetime

from trimtab.model.health import HealthState
from trimtab.model.scaling import GroupSpec
from trimtab_agent.reconciler import evidence
from trimtab_agent.reconciler.history import GroupHistory
from trimtab_agent.reconciler.observation import GroupObservation, InstanceObservation

SOUND = frozenset({HealthState.HEALTHY, HealthState.NOT_APPLICABLE})


def victims(group: GroupObservation, memory: GroupHistory, spec: GroupSpec, now: datetime) -> list[InstanceObservation]:
    """The nodes that may leave, in this order: closed already, ailing before sound, the oldest, by id.

    Never one with jobs or of which that is unknown, never one in repair, cordoned by somebody else, or of unknown
    health.
    """
    idle = [each for each in evidence.in_service(group) if may_leave(each, memory, spec, now)]
    return sorted(idle, key=_leaves_first)


def may_leave(instance: InstanceObservation, memory: GroupHistory, spec: GroupSpec, now: datetime) -> bool:
    """True for a node that is known to be idle and belongs to nobody's repair."""
    report = evidence.fresh_report(instance, now, spec.scaling.stale_after)
    if report is None or report.busy is not False or not (report.cordon is None or evidence.is_closed(instance)):
        return False
    in_care = instance.instance_id in memory.repairs or instance.instance_id in memory.suspects
    return report.health is not HealthState.UNKNOWN and not in_care


def _leaves_first(instance: InstanceObservation) -> tuple[bool, bool, bool, float, str]:
    sound = instance.report is not None and instance.report.health in SOUND
    launched = instance.launched_at
    closed = evidence.is_closed(instance)
    return (not closed, sound, launched is None, launched.timestamp() if launched else 0.0, instance.instance_id)


def why(instance: InstanceObservation) -> str:
    """Why this node and no other, in words."""
    ailing = instance.report is not None and instance.report.health not in SOUND
    return f"{instance.instance_id} is idle and {'ailing' if ailing else 'the oldest of the idle'}"
