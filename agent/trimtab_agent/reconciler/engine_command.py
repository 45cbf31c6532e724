"""The Automation API's door to the `pulumi` command, in a process group of its own.

A terminal's Ctrl-C goes to the whole foreground group; the engine would cancel the update that the round lets end.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from typing import Any

from pulumi.automation import CommandResult, PulumiCommand
from pulumi.automation.errors import create_command_error


class EngineCommand(PulumiCommand):
    """`pulumi`, out of the reach of the terminal's signals."""

    def run(
        self, args: list[str], cwd: str, additional_env: Mapping[str, str], on_output: Any = None, on_error: Any = None
    ) -> CommandResult:
        """Run a command to its end; raises the Automation API's own error when it fails."""
        done = subprocess.run(
            [self.command, "--non-interactive", *(each for each in args if each != "--non-interactive")],
            cwd=cwd,
            env={**os.environ, **additional_env, "PULUMI_AUTOMATION_API": "true"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            process_group=0,
            check=False,
        )
        for tell, words in ((on_output, done.stdout), (on_error, done.stderr)):
            for line in words.splitlines() if tell else ():
                tell(line)
        result = CommandResult(stdout=done.stdout.rstrip(), stderr=done.stderr.rstrip(), code=done.returncode)
        if done.returncode:
            raise create_command_error(result)
        return result
