"""No uncorrectable memory error since the driver was loaded (volatile counter)."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.model.health import Action, CheckResult, HealthState, Witness
from trimtab_agent.node.seen import Seen

MOST = 0  # any uncorrectable error is one too many: NVIDIA's workflow for Xid 48


def check(seen: Seen) -> Iterator[CheckResult]:
    """One result for each GPU above the limit; not applicable with ECC off."""
    counted = [gpu for gpu in seen.gpus if gpu.ecc_uncorrected is not None]
    bad = [gpu for gpu in counted if (gpu.ecc_uncorrected or 0) > MOST]
    for gpu in bad:
        yield CheckResult(
            "ecc_uncorrected",
            HealthState.UNHEALTHY,
            Witness.NVML,
            f"{gpu.label} has {gpu.ecc_uncorrected} uncorrectable memory errors",
            "ecc-uncorrected",
            Action.RESET_GPU,
            gpu.uuid,
        )
    if not bad and not seen.problem:
        state = HealthState.HEALTHY if counted else HealthState.NOT_APPLICABLE
        reason = "no uncorrectable memory error" if counted else "no GPU counts ECC errors"
        yield CheckResult("ecc_uncorrected", state, Witness.NVML, reason)
