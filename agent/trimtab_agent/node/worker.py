"""The worker process: asks the driver, and may hang in it. One line in, one snapshot out.

It is a process and not a thread because a call that hangs in the kernel cannot be ended from inside.
"""

from __future__ import annotations

import json
import signal
import sys
from ctypes import CDLL

from trimtab_agent.node.snapshot import Snapshot, to_json

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Answer each line on standard input with a snapshot, until it is closed or the agent dies."""
    CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    driver = None
    for _ in sys.stdin:
        driver, snapshot = ask(driver)
        sys.stdout.write(json.dumps(to_json(snapshot)) + "\n")
        sys.stdout.flush()


def ask(driver: object) -> tuple[object, Snapshot]:
    """A snapshot, opening the driver first where it is not; a driver that cannot be opened is a problem, not an end."""
    import pynvml

    from trimtab_agent.node.nvml import Driver

    try:
        opened = driver if isinstance(driver, Driver) else Driver()
        return opened, opened.snapshot()
    except pynvml.NVMLError as error:
        return None, Snapshot(problem=f"NVML cannot be used: {error}")


if __name__ == "__main__":
    main()
