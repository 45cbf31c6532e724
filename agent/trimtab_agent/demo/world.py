"""The demo's machines: a simulated AWS, a project folder with a stack, and one real agent for each instance.

Every process is started here in one session of its own and ended here, whatever happens.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from trimtab.model.errors import ExecutionError, SettingsError
from trimtab_agent.reconciler.sources.aws import Aws, SeenGroup

STACK = "demo"
GROUP = "train"
AWS_NAME = "trimtab-demo-train"
START_SECONDS = 30.0
BOOT_SECONDS = 1.0
LOOK_SECONDS = 1.0
STOP_SECONDS = 8.0
CONFIG: dict[str, Any] = {
    "trimtab:cluster": "north",
    "trimtab:imageId": "ami-12c6146b",
    "trimtab:availabilityZones": ["us-east-1a"],
    "trimtab:tags": {"cost-centre": "research"},
    "trimtab:roles": {
        "job-launcher": {"access": "launcher", "principals": ["arn:aws:iam::123456789012:role/research"]}
    },
}


def group_config(high: int, shrink_after: float) -> dict[str, Any]:
    """The demo's scaling group: grow with the queue, shrink to what is busy after a while, repair quickly."""
    signals = [
        {"name": "queue", "source": "pending_gpus", "up": {"value": 0, "perNode": 8}},
        {"name": "busy", "source": "busy_nodes", "down": {"value": 1000, "perNode": 1}},
    ]
    return {
        "instanceType": "p4d.24xlarge",
        "min": 1,
        "max": high,
        "scaling": {
            "signals": signals,
            "stabilizationDownSeconds": shrink_after,
            "cooldownUpSeconds": 0,
            "cooldownDownSeconds": shrink_after / 4,
        },
        "repair": {"drainDeadlineSeconds": 20, "replacementDeadlineSeconds": 60},
    }


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class World:
    """Everything that runs, in one temporary folder."""

    def __init__(self, source: Path, shrink_after: float) -> None:
        if not (source / "tests" / "nvml" / "build.py").exists():
            hint = "Run `make demo` in a checkout of the repository, or give its folder with --project."
            raise SettingsError(f"{source} is no checkout of Trimtab: it has no tests/nvml", hint=hint)
        self.source = source
        self.shrink_after = shrink_after
        self.folder = Path(tempfile.mkdtemp(prefix="trimtab-demo-"))
        self.queue_port = free_port()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._agents: dict[str, tuple[subprocess.Popen[bytes], int]] = {}
        self._first_seen: dict[str, float] = {}
        self._recent: tuple[float, SeenGroup] | None = None
        self._closed = False

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self) -> None:
        sys.path.insert(0, str(self.source / "tests" / "nvml"))
        import build  # type: ignore[import-not-found]  # the double's own builder, beside its source

        self.nvml = build.library().parent
        port = free_port()
        self.aws_url = f"http://127.0.0.1:{port}"
        os.environ.update(self.environment())
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        self.start(command, log="aws.log")
        self._wait_for(f"{self.aws_url}/moto-api/")
        self._make_project()
        self.aws = Aws("us-east-1")

    def environment(self) -> dict[str, str]:
        """What keeps every child on this machine: its own engine home and backend, and an AWS on loopback."""
        backend = self.folder / "backend"
        backend.mkdir(exist_ok=True)
        return {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PULUMI_BACKEND_URL": f"file://{backend}",
            "PULUMI_CONFIG_PASSPHRASE": "demo",
            "PULUMI_HOME": str(self.folder / "pulumi-home"),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "AWS_ENDPOINT_URL": self.aws_url,
            "AWS_ACCESS_KEY_ID": "demo",
            "AWS_SECRET_ACCESS_KEY": "demo",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": str(self.folder / "no-aws-config"),
            "AWS_SHARED_CREDENTIALS_FILE": str(self.folder / "no-aws-credentials"),
        }

    def _make_project(self) -> None:
        self.project = self.folder / "project"
        self.project.mkdir()
        shutil.copy(self.source / "stacks" / "__main__.py", self.project)
        plugin = {"name": "trimtab", "path": str(Path(sys.executable).parent)}
        body = {"name": "trimtab", "runtime": "python", "plugins": {"providers": [plugin]}}
        (self.project / "Pulumi.yaml").write_text(json.dumps(body), encoding="utf-8")
        (self.folder / "token").write_text(secrets.token_hex(16), encoding="utf-8")
        (self.folder / "agents.json").write_text("[]", encoding="utf-8")
        (self.project / "trimtab.toml").write_text(self._settings(), encoding="utf-8")
        self.write_config(self.project, high=6)
        self.pulumi(self.project, "stack", "init", STACK)

    def _settings(self) -> str:
        return (
            f'[project]\nstack = "{STACK}"\n'
            f'[engine]\npolicy_pack = "{self.source / "policies"}"\n'
            f'[agents]\ndiscovery = "file"\nfile = "{self.folder / "agents.json"}"\n'
            f'token_file = "{self.folder / "token"}"\ntimeout_seconds = 2\n'
            f'[queue]\nurl = "http://127.0.0.1:{self.queue_port}/metrics"\n'
            f'[journal]\nurl = "sqlite:///{self.folder / "journal.db"}"\n'
        )

    def write_config(self, project: Path, high: int, **extra: Any) -> None:
        """The stack's configuration file; what the engine added to it stays."""
        path = project / f"Pulumi.{STACK}.yaml"
        kept = (
            [line for line in path.read_text().splitlines() if line.startswith("encryptionsalt")]
            if path.exists()
            else []
        )
        config = {**CONFIG, "trimtab:groups": {GROUP: group_config(high, self.shrink_after)}, **extra}
        path.write_text("\n".join([*kept, f"config: {json.dumps(config)}"]) + "\n", encoding="utf-8")

    def pulumi(self, project: Path, *arguments: str) -> str:
        """Run the stock command line to its end; raises ExecutionError with its words."""
        command = ["pulumi", "--non-interactive", "--color", "never", *arguments]
        done = subprocess.run(
            command, cwd=project, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ExecutionError(f"pulumi {arguments[0]}: {' '.join((done.stdout + done.stderr).split())[-600:]}")
        return done.stdout

    def start(
        self,
        command: list[str],
        *,
        log: str,
        cwd: Path | None = None,
        extra: dict[str, str] | None = None,
        pipe: bool = False,
    ) -> subprocess.Popen[bytes]:
        """Start a child in a session of its own, so that its whole family can be ended."""
        with (self.folder / log).open("ab") as words:
            process = subprocess.Popen(
                command,
                cwd=cwd or self.folder,
                env={**os.environ, **(extra or {})},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if pipe else words,
                stderr=words,
                start_new_session=True,
            )
        self._processes.append(process)
        return process

    def _wait_for(self, url: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                httpx.get(url, timeout=1, trust_env=False)
            except httpx.HTTPError as error:
                if time.monotonic() > deadline:
                    raise ExecutionError(f"the simulated AWS did not start: {error}") from error
                time.sleep(0.1)
            else:
                return

    def group(self) -> SeenGroup:
        """The scaling group as AWS has it."""
        return self.aws.groups([AWS_NAME])[AWS_NAME]

    def recent_group(self) -> SeenGroup:
        """The scaling group as AWS had it within the last second; looking costs the simulated AWS a core."""
        now = time.monotonic()
        if self._recent is None or now - self._recent[0] >= LOOK_SECONDS:
            self._recent = (now, self.group())
        return self._recent[1]

    def keep_fleet(self, group: SeenGroup) -> None:
        """Boot an agent for each new instance after a while, and end those of instances that are gone."""
        now, present = time.monotonic(), {each.instance_id for each in group.instances}
        for identity in present:
            born = self._first_seen.setdefault(identity, now)
            if identity not in self._agents and now - born >= BOOT_SECONDS:
                self._boot(identity)
        for identity in set(self._agents) - present:
            process, _ = self._agents.pop(identity)
            end(process)
        self._publish_targets()

    def _boot(self, identity: str) -> None:
        home, port = self.node_folder(identity), free_port()
        (home / "kmsg").touch()
        script = home / "gpus.txt"
        if not script.exists():
            script.write_text("- gpus 8\n", encoding="utf-8")
        command = [sys.executable, "-m", "trimtab_agent.node.main", "--instance-id", identity, "--node", identity]
        command += ["--listen", f"127.0.0.1:{port}", "--token-file", str(self.folder / "token"), "--interval", "1"]
        command += ["--state-dir", str(home), "--kmsg", str(home / "kmsg"), "--expected-gpus", "8"]
        extra = {"LD_LIBRARY_PATH": str(self.nvml), "NVML_DOUBLE_SCRIPT": str(script)}
        self._agents[identity] = (self.start(command, log="agents.log", extra=extra), port)

    def node_folder(self, identity: str) -> Path:
        """Where a node's script and logs are."""
        home = self.folder / "nodes" / identity
        home.mkdir(parents=True, exist_ok=True)
        return home

    def _publish_targets(self) -> None:
        """Discovery in Prometheus's file_sd format, replaced in one step."""
        targets = [
            {"targets": [f"127.0.0.1:{port}"], "labels": {"instance_id": identity}}
            for identity, (_, port) in sorted(self._agents.items())
        ]
        scratch = self.folder / "agents.new"
        scratch.write_text(json.dumps(targets), encoding="utf-8")
        scratch.replace(self.folder / "agents.json")

    def ports(self) -> dict[str, int]:
        """The agents' ports by instance."""
        return {identity: port for identity, (_, port) in self._agents.items()}

    def close(self) -> None:
        """End every process and remove the folder; safe to call twice."""
        if self._closed:
            return
        self._closed = True
        for process in self._processes:
            end(process, wait=False)
        deadline = time.monotonic() + STOP_SECONDS
        for process in self._processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, deadline - time.monotonic()))
            kill_family(process)
        shutil.rmtree(self.folder, ignore_errors=True)


def end(process: subprocess.Popen[bytes], *, wait: bool = True) -> None:
    """Ask a child's whole family to end."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
    if wait:
        with suppress(subprocess.TimeoutExpired):
            process.wait(3)
        kill_family(process)


def kill_family(process: subprocess.Popen[bytes]) -> None:
    """End what is left of a child's family."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(2)
