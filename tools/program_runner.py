"""Runs one Pulumi program in this interpreter, connected to the engine that asked for it.

Started by the language host with the connection as JSON, then the program, then the program's own arguments.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import runpy
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

EXITED_AFTER_MESSAGE = 32


def user_frames(error: BaseException, program: Path) -> str:
    """The traceback from the program's first own frame on; all of it when the program has none."""
    frames = traceback.extract_tb(error.__traceback__)
    folder = str(program if program.is_dir() else program.parent)
    first = next((i for i, frame in enumerate(frames) if frame.filename.startswith(folder)), 0)
    return "".join(traceback.format_exception(type(error), error, error.__traceback__, limit=first - len(frames)))


def connect(connection: dict[str, Any]) -> None:
    """Point the SDK at the engine and load the stack's configuration from the environment."""
    from pulumi import runtime
    from pulumi.runtime import config

    runtime.set_all_config(config.get_config_env(), config.get_config_secret_keys_env())
    runtime.configure(runtime.Settings(**connection))


def run(program: Path, parallel: int) -> int:
    """Run the program to its end; 0, or the exit code that tells the host what to say."""
    import pulumi
    from pulumi import runtime

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # a failed program leaves futures unobserved
    with ThreadPoolExecutor(max_workers=max(parallel, 1) * 4) as executor:
        loop.set_default_executor(executor)
        try:
            loop.run_until_complete(runtime.run_in_stack(lambda: start(program)))
        except pulumi.RunError as error:
            pulumi.log.error(str(error))
            return 1
        except Exception as error:  # noqa: BLE001  # whatever a program raises is the user's to read
            pulumi.log.error(f"The program failed with an unhandled exception:\n{user_frames(error, program)}")
            return EXITED_AFTER_MESSAGE
    return 0


def start(program: Path) -> None:
    """Execute the program's code as ``__main__``."""
    runpy.run_path(str(program), run_name="__main__")


def main() -> None:
    """Entry of the process."""
    connection, program = json.loads(sys.argv[1]), Path(sys.argv[2]).resolve()
    sys.argv = [str(program), *sys.argv[3:]]
    connect(connection)
    code = run(program, connection["parallel"])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code) if code else sys.exit(0)


if __name__ == "__main__":
    main()
