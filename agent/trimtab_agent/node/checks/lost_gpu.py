"""Every GPU answers, and as many as declared are there. One that answers with another error than "lost" is unknown."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.model.health import Action, CheckResult, HealthState, Witness
from trimtab_agent.node.seen import Seen


def check(seen: Seen) -> Iterator[CheckResult]:
    """One result for each GPU that does not answer, and one when fewer are there than declared."""
    if seen.problem:
        return
    lost = [gpu for gpu in seen.gpus if gpu.lost]
    for gpu in lost:
        yield CheckResult(
            "lost_gpu",
            HealthState.UNHEALTHY,
            Witness.NVML,
            f"{gpu.label} is lost: the driver cannot reach it",
            "gpu-lost",
            Action.REBOOT,
            gpu.uuid,
        )
    silent = [gpu for gpu in seen.gpus if gpu.problem]
    for gpu in silent:
        reason = f"{gpu.label} cannot be asked: {gpu.problem}"
        yield CheckResult("lost_gpu", HealthState.UNKNOWN, Witness.NVML, reason, "gpu-not-answering", gpu_uuid=gpu.uuid)
    missing = (seen.expected_gpus or 0) - len(seen.gpus)
    if missing > 0:
        reason = f"{len(seen.gpus)} GPUs are there, {seen.expected_gpus} are declared"
        yield CheckResult("lost_gpu", HealthState.UNHEALTHY, Witness.NVML, reason, "gpu-missing", Action.REPLACE)
    elif not lost and not silent:
        yield CheckResult("lost_gpu", HealthState.HEALTHY, Witness.NVML, f"all {len(seen.gpus)} GPUs answer")
