"""A provider that stays: the engine attaches to it instead of starting one twice in every command.

Its plan file has one place for as long as it lives; between two updates it holds an empty plan.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trimtab.model.errors import EngineMissingError

NOTHING: Mapping[str, Any] = {"groups": {}}
STOP_SECONDS = 3.0


class Plugin:
    """One provider process and its plan file."""

    def __init__(self) -> None:
        """Start the provider.

        Raises:
            EngineMissingError: it does not start; the installation is broken.
        """
        self._folder = Path(tempfile.mkdtemp(prefix="trimtab-plan-"))
        self.plan_file = self._folder / "plan.json"
        self._write(NOTHING)
        environment = {**os.environ, "TRIMTAB_PLAN_FILE": str(self.plan_file)}
        command = [sys.executable, "-m", "trimtab.provider.serve", ""]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True
        )
        line = self._process.stdout.readline() if self._process.stdout else b""
        if not line.strip().isdigit():
            self.close()
            raise EngineMissingError("the provider plugin does not start", hint="Install Trimtab again: `make setup`.")
        self.port = int(line)

    @property
    def is_alive(self) -> bool:
        """True while the provider runs."""
        return self._process.poll() is None

    @contextmanager
    def ordered(self, orders: Mapping[str, Any]) -> Iterator[None]:
        """The plan in place for as long as the update takes."""
        self._write(orders)
        try:
            yield
        finally:
            self._write(NOTHING)

    def _write(self, orders: Mapping[str, Any]) -> None:
        """Put the file in place in one step, readable by us alone."""
        scratch = self.plan_file.with_suffix(".new")
        with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump(orders, file)
        scratch.replace(self.plan_file)

    def close(self) -> None:
        """End the provider and remove the plan file."""
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
