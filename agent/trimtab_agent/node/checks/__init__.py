"""All checks, one file each and one grammar: a pure function from what was seen to results.

Adding one is a file and a line here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from trimtab.model.health import CheckResult
from trimtab_agent.node.checks import driver, ecc_uncorrected, lost_gpu, recovery_action, row_remap, xid
from trimtab_agent.node.seen import Seen

CHECKS: Mapping[str, Callable[[Seen], Iterator[CheckResult]]] = {
    "driver": driver.check,
    "lost_gpu": lost_gpu.check,
    "recovery_action": recovery_action.check,
    "xid": xid.check,
    "ecc_uncorrected": ecc_uncorrected.check,
    "row_remap": row_remap.check,
}


def run(seen: Seen, disabled: frozenset[str] = frozenset()) -> tuple[CheckResult, ...]:
    """The results of all checks that are not switched off."""
    return tuple(result for name, check in CHECKS.items() if name not in disabled for result in check(seen))
