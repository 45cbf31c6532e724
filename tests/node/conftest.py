"""A real agent process on the NVML double: its script, its kernel log, its HTTP."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

NVML = Path(__file__).resolve().parents[1] / "nvml"
TOKEN = "token-of-the-test"


def load(name: str) -> ModuleType:
    """A plain module of tests/nvml by name."""
    spec = importlib.util.spec_from_file_location(f"nvml_{name}", NVML / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@dataclass
class Node:
    """One node: what its GPUs look like, what its kernel says, and the agent on it."""

    folder: Path
    library: Path
    script: Any
    options: tuple[str, ...] = ()
    process: subprocess.Popen[str] | None = None
    url: str = ""
    extra: dict[str, str] = field(default_factory=dict)

    def start(self, *options: str) -> Node:
        (self.folder / "token").write_text(TOKEN, encoding="utf-8")
        (self.folder / "kmsg").touch()
        boot = self.folder / "boot_id"
        if not boot.exists():
            boot.write_text("boot-one\n", encoding="utf-8")
        command = [sys.executable, "-m", "trimtab_agent.node.main", "--instance-id", "i-test", "--node", "n1"]
        command += ["--listen", "127.0.0.1:0", "--token-file", str(self.folder / "token")]
        command += ["--state-dir", str(self.folder / "state"), "--kmsg", str(self.folder / "kmsg")]
        command += [
            "--boot-id-file",
            str(boot),
            "--interval",
            "0.1",
            "--deadline",
            "2",
            "--first-deadline",
            "10",
            *options,
        ]
        self.process = subprocess.Popen(
            command,
            env={
                **os.environ,
                "LD_LIBRARY_PATH": str(self.library.parent),
                "NVML_DOUBLE_SCRIPT": str(self.script.path),
                **self.extra,
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.url = "http://" + self.process.stdout.readline().removeprefix("serving on ").strip()
        return self

    def stop(self, number: int = signal.SIGTERM) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(timeout=10)
        if self.process.stdout:
            self.process.stdout.close()

    def kernel_says(self, line: str | bytes) -> None:
        with (self.folder / "kmsg").open("ab") as log:
            log.write(line if isinstance(line, bytes) else line.encode() + b"\n")

    def get(self, path: str) -> str:
        with urllib.request.urlopen(self.url + path, timeout=5) as answer:
            return str(answer.read().decode())

    def report(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.get("/v1/report"))
        return parsed

    def post(self, path: str, body: Any, token: str | None = TOKEN) -> tuple[int, dict[str, Any]]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def eventually(self, holds: Callable[[dict[str, Any]], bool], seconds: float = 30) -> dict[str, Any]:
        """The first report for which something holds."""
        deadline = time.monotonic() + seconds
        while True:
            report = self.report()
            if holds(report):
                return report
            if time.monotonic() > deadline:
                pytest.fail(f"never held within {seconds} s; the last report: {json.dumps(report)}")
            time.sleep(0.05)

    def workers(self) -> list[int]:
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        own = [int(pid) for pid in children.read_text().split()]
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            own += [int(pid) for pid in (task / "children").read_text().split()]
        return sorted(set(own))


@pytest.fixture(scope="session")
def library() -> Path:
    """The built NVML double."""
    built: Path = load("build").library()
    return built


@pytest.fixture
def node(tmp_path: Path, library: Path) -> Iterator[Node]:
    """A node with 8 idle GPUs; `start()` runs its agent."""
    script = load("script").Script(tmp_path / "gpus.txt").set("-", gpus=8)
    made = Node(tmp_path, library, script)
    yield made
    if made.process is not None and made.process.poll() is None:
        made.stop()


@pytest.fixture
def well(node: Node) -> Node:
    """A started node that has reported itself healthy."""
    node.start().eventually(lambda report: report["health"] == "healthy")
    return node
