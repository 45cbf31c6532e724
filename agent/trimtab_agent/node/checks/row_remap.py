"""Row remapping: a failure ends the GPU's life (NVIDIA: RMA), a pending remap waits for the next reset."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.model.health import Action, CheckResult, HealthState, Witness
from trimtab_agent.node.seen import Seen


def check(seen: Seen) -> Iterator[CheckResult]:
    """One result for each GPU with a failed or pending remap; not applicable where no GPU remaps rows."""
    known = [gpu for gpu in seen.gpus if gpu.remap_failure is not None]
    for gpu in known:
        if gpu.remap_failure:
            reason = f"{gpu.label} could not remap a memory row"
            state, action, code = HealthState.UNHEALTHY, Action.REPLACE, "row-remap-failure"
        elif gpu.remap_pending:
            reason = f"{gpu.label} remaps a memory row at its next reset"
            state, action, code = HealthState.DEGRADED, Action.NONE, "row-remap-pending"
        else:
            continue
        yield CheckResult("row_remap", state, Witness.NVML, reason, code, action, gpu.uuid)
    if not any(gpu.remap_failure or gpu.remap_pending for gpu in known) and not seen.problem:
        state = HealthState.HEALTHY if known else HealthState.NOT_APPLICABLE
        yield CheckResult("row_remap", state, Witness.NVML, "no row remap failed or is pending")
