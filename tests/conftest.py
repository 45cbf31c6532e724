"""Fixtures that start the real parts: AWS as a moto server, and the Pulumi engine on a file backend."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
VENV_BIN = Path(sys.executable).parent
PROGRAM = (ROOT / "stacks" / "__main__.py").read_text(encoding="utf-8")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for(url: str, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            urllib.request.urlopen(url, timeout=2).close()
        except urllib.error.HTTPError:
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


@pytest.fixture(scope="session")
def _moto_process() -> Iterator[str]:
    port = free_port()
    command = [str(VENV_BIN / "moto_server"), "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, start_new_session=True
    )
    try:
        wait_for(f"http://127.0.0.1:{port}/moto-api/")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=10)


@pytest.fixture
def moto_server(_moto_process: str) -> str:
    """The URL of an empty AWS."""
    request = urllib.request.Request(f"{_moto_process}/moto-api/reset", method="POST")
    urllib.request.urlopen(request, timeout=10).close()
    return _moto_process


@pytest.fixture
def pulumi_env(tmp_path: Path, moto_server: str) -> dict[str, str]:
    """An environment in which engine and provider see only the test's own backend and AWS."""
    backend = tmp_path / "backend"
    backend.mkdir()
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PULUMI_", "AWS_", "TRIMTAB_"))}
    return {
        **kept,
        "PATH": f"{VENV_BIN}{os.pathsep}{os.environ['PATH']}",
        "PULUMI_BACKEND_URL": f"file://{backend}",
        "PULUMI_CONFIG_PASSPHRASE": "test",
        "PULUMI_HOME": str(tmp_path / "pulumi-home"),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "AWS_ENDPOINT_URL": moto_server,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@dataclass
class Engine:
    """The stock command line on one project folder and the stack `test`."""

    folder: Path
    env: dict[str, str]
    stack: str = "test"

    def run(
        self, *arguments: str, check: bool = True, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        command = [str(VENV_BIN / "pulumi"), "--non-interactive", "--color", "never", *arguments]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**self.env, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            start_new_session=True,
            timeout=150,
            check=False,
        )
        if check and done.returncode:
            pytest.fail(f"pulumi {' '.join(arguments)} exited {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done

    def init(self) -> None:
        self.run("stack", "init", self.stack)

    def up(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return self.run("up", "--yes", "--skip-preview", "--stack", self.stack, *arguments, **options)

    def preview(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return self.run("preview", "--stack", self.stack, *arguments, **options)

    def refresh(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return self.run("refresh", "--yes", "--skip-preview", "--stack", self.stack, *arguments, **options)

    def destroy(self) -> subprocess.CompletedProcess[str]:
        return self.run("destroy", "--yes", "--skip-preview", "--stack", self.stack)

    def state(self) -> dict[str, Any]:
        exported: dict[str, Any] = json.loads(self.run("stack", "export", "--stack", self.stack).stdout)
        return exported

    def resource(self, token: str, name: str) -> dict[str, Any]:
        resources = self.state()["deployment"]["resources"]
        found: dict[str, Any] = next(
            each for each in resources if each["type"] == token and each["urn"].rsplit("::", 1)[-1] == name
        )
        return found


def project(folder: Path, env: dict[str, str]) -> Engine:
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text(
        f"name: trimtab\nruntime: python\nplugins:\n  providers:\n    - {{name: trimtab, path: {VENV_BIN}}}\n",
        encoding="utf-8",
    )
    return Engine(folder, env)


@pytest.fixture
def engine(tmp_path: Path, pulumi_env: dict[str, str]) -> Engine:
    """An empty project folder (fill in `__main__.py`) whose plugin is the one under test."""
    made = project(tmp_path / "project", pulumi_env)
    made.init()
    return made


@pytest.fixture
def root_project(tmp_path: Path, pulumi_env: dict[str, str]) -> Engine:
    """The root project's program with the configuration of its `dev` stack."""
    made = project(tmp_path / "project", pulumi_env)
    (made.folder / "__main__.py").write_text(PROGRAM, encoding="utf-8")
    shutil.copy(ROOT / "stacks" / "Pulumi.dev.yaml", made.folder / "Pulumi.test.yaml")
    made.init()
    return made
