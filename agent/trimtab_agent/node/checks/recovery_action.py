"""The driver's own recommendation (NVML field 230). It comes first because nobody knows the hardware better.

Values: nvml.h, nvmlDeviceGpuRecoveryAction_t. An unknown value needs a person.
"""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.model.health import Action, CheckResult, HealthState, Witness
from trimtab_agent.node.seen import Seen

NONE = 0
ACTIONS = {
    1: ("GPU reset", Action.RESET_GPU),
    2: ("node reboot", Action.REBOOT),
    3: ("drain of peer-to-peer traffic", Action.RESET_GPU),
    4: ("drain and reset", Action.RESET_GPU),
    5: ("recovery of the IMEX domain", Action.INSPECT),
    6: ("bus reset", Action.REBOOT),
    7: ("system reboot", Action.REBOOT),
}


def check(seen: Seen) -> Iterator[CheckResult]:
    """One result for each GPU whose driver recommends something; not applicable where no driver says anything."""
    told = [gpu for gpu in seen.gpus if gpu.recovery_action is not None]
    for gpu in told:
        if gpu.recovery_action != NONE:
            unknown = (f"unknown action {gpu.recovery_action}", Action.INSPECT)
            words, action = ACTIONS.get(gpu.recovery_action or NONE, unknown)
            yield CheckResult(
                "recovery_action",
                HealthState.UNHEALTHY,
                Witness.NVML,
                f"the driver recommends a {words} for {gpu.label}",
                f"recovery-action-{gpu.recovery_action}",
                action,
                gpu.uuid,
            )
    if not told and not seen.problem:
        state = HealthState.NOT_APPLICABLE
        yield CheckResult("recovery_action", state, Witness.NVML, "this driver recommends nothing (field 230)")
    elif told and all(gpu.recovery_action == NONE for gpu in told):
        yield CheckResult("recovery_action", HealthState.HEALTHY, Witness.NVML, "the driver recommends nothing")
