"""A fleet for the command's tests: the root program on a real engine, AWS by moto, and agents as small HTTP servers."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest

ROOT = Path(__file__).resolve().parents[2]
VENV_BIN = Path(sys.executable).parent
TOKEN = "agents-take-orders-from-its-bearer"
CONFIG: dict[str, Any] = {
    "trimtab:cluster": "north",
    "trimtab:imageId": "ami-12c6146b",
    "trimtab:availabilityZones": ["us-east-1a"],
    "trimtab:tags": {"cost-centre": "research"},
}
TRAIN: dict[str, Any] = {
    "instanceType": "p4d.24xlarge",
    "min": 1,
    "max": 4,
    "scaling": {
        "signals": [
            {"name": "queue", "source": "pending_gpus", "up": {"value": 0, "perNode": 8}},
            {"name": "busy", "source": "busy_nodes", "down": {"value": 1000, "perNode": 1}},
        ],
        "stabilizationDownSeconds": 0,
        "cooldownUpSeconds": 0,
        "cooldownDownSeconds": 0,
    },
}


@dataclass
class Node:
    """What one node's agent says and which orders it took."""

    instance_id: str
    busy: bool = True
    checks: list[dict[str, Any]] = field(default_factory=list)
    cordon: dict[str, Any] | None = None
    orders: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    sequence: int = 0

    def report(self) -> dict[str, Any]:
        self.sequence += 1
        return {
            "schema": 1,
            "node": self.instance_id,
            "instance_id": self.instance_id,
            "boot_id": "boot",
            "sequence": self.sequence,
            "at": datetime.now(UTC).isoformat(),
            "snapshot_age_seconds": 0.1,
            "health": "unhealthy" if self.checks else "healthy",
            "checks": self.checks,
            "gpus": [{}] * 8,
            "busy": self.busy,
            "utilization_ratio": 0.9 if self.busy else 0.0,
            "cordon": self.cordon,
        }

    def order(self, verb: str, body: dict[str, Any]) -> None:
        self.orders.append((verb, body))
        self.cordon = {**body, "at": datetime.now(UTC).isoformat()} if verb == "cordon" else None


Reply = tuple[int, str]


def serve(answer: Callable[[str, str, Mapping[str, str], bytes], Reply]) -> ThreadingHTTPServer:
    """An HTTP server on a free loopback port whose every request is answered by one function."""

    class Handler(BaseHTTPRequestHandler):
        def reply(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, text = answer(self.command, self.path, dict(self.headers.items()), body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST = reply  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    return server


def running_in(session: int) -> dict[int, str]:
    """Command lines by process id of what runs in a session."""
    left = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, _, found = stat.read_text().rsplit(")", 1)[-1].split()[:4]
            if int(found) == session and state != "Z":
                left[int(stat.parent.name)] = (stat.parent / "cmdline").read_text().replace("\0", " ")
    return left


class Fleet:
    """The project under test and everything around it."""

    def __init__(self, folder: Path, env: dict[str, str], aws_url: str) -> None:
        self.folder = folder
        self.env = {**env, "XDG_STATE_HOME": str(folder / "state"), "COLUMNS": "200"}
        self.project = folder / "project"
        self.journal = folder / "journal.db"
        self.pending = 0.0
        self.metric: float | str = 0.0
        self.nodes: dict[str, Node] = {}
        self._servers: dict[str, ThreadingHTTPServer] = {}
        self._metrics = serve(self._metrics_answer)
        keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
        self.autoscaling = boto3.client("autoscaling", endpoint_url=aws_url, region_name="us-east-1", **keys)  # type: ignore[call-overload]

    def close(self) -> None:
        self.autoscaling.close()
        for server in (self._metrics, *self._servers.values()):
            server.shutdown()
            server.server_close()

    def _metrics_answer(self, _method: str, path: str, _headers: Mapping[str, str], _body: bytes) -> Reply:
        if path.startswith("/api/v1/query"):
            assert parse_qs(urlsplit(path).query)["query"]
            result = [{"metric": {}, "value": [time.time(), str(self.metric)]}]
            return 200, json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}})
        return 200, f'trimtab_queue_pending_gpus{{group="train"}} {self.pending}\n'

    @property
    def metrics_url(self) -> str:
        return f"http://127.0.0.1:{self._metrics.server_port}"

    def settings(self, **replaced: str) -> None:
        lines = {
            "project": '[project]\nstack = "test"',
            "engine": f'[engine]\npolicy_pack = "{ROOT / "policies"}"',
            "agents": f'[agents]\ndiscovery = "file"\nfile = "{self.folder / "agents.json"}"\n'
            f'token_file = "{self.folder / "token"}"\ntimeout_seconds = 1',
            "prometheus": f'[prometheus]\nurl = "{self.metrics_url}"',
            "queue": f'[queue]\nurl = "{self.metrics_url}/metrics"',
            "journal": f'[journal]\nurl = "sqlite:///{self.journal}"',
        }
        (self.project / "trimtab.toml").write_text("\n".join({**lines, **replaced}.values()) + "\n", encoding="utf-8")

    def declare(self, groups: Mapping[str, Any], **extra: Any) -> None:
        path = self.project / "Pulumi.test.yaml"
        old = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        kept = [line for line in old if line.startswith("encryptionsalt")]
        config = {**CONFIG, "trimtab:groups": groups, **extra}
        path.write_text("\n".join([*kept, f"config: {json.dumps(config)}"]) + "\n", encoding="utf-8")

    def make(self, groups: Mapping[str, Any]) -> None:
        self.project.mkdir()
        plugin = {"name": "trimtab", "path": str(VENV_BIN)}
        body = {"name": "trimtab", "runtime": "python", "plugins": {"providers": [plugin]}}
        (self.project / "Pulumi.yaml").write_text(json.dumps(body), encoding="utf-8")
        program = (ROOT / "stacks" / "__main__.py").read_text(encoding="utf-8")
        (self.project / "__main__.py").write_text(program, encoding="utf-8")
        (self.folder / "token").write_text(TOKEN, encoding="utf-8")
        self.settings()
        self.declare(groups)
        self.pulumi("stack", "init", "test")
        self.pulumi("up", "--yes", "--skip-preview", "--stack", "test")
        self.follow()

    def pulumi(self, *arguments: str) -> str:
        command = [str(VENV_BIN / "pulumi"), "--non-interactive", "--color", "never", *arguments]
        done = self._run(command)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def _run(self, command: list[str], **extra: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.project,
            env={**self.env, **extra},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            start_new_session=True,
            timeout=120,
            check=False,
        )

    def trimtab(self, *arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
        return self._run([str(VENV_BIN / "trimtab"), *arguments], **extra)

    def json(self, *arguments: str) -> Any:
        done = self.trimtab(*arguments, "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def reconcile(self, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = self.trimtab("reconcile", "--once")
        assert done.returncode == code, f"{done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def json_of(self, command: str) -> Any:
        """A command's document, also when it ends with a note about silent agents."""
        return json.loads(self.trimtab(command, "--json").stdout)

    serve = staticmethod(serve)

    @staticmethod
    def wait_until(happened: Callable[[], bool], seconds: float = 90) -> None:
        deadline = time.monotonic() + seconds
        while not happened():
            assert time.monotonic() < deadline, "it did not happen in time"
            time.sleep(0.1)

    @staticmethod
    def pids_of(session: int) -> list[int]:
        """What still runs in a session."""
        return list(running_in(session))

    @staticmethod
    def session_of(pid: int) -> list[str]:
        """The command lines of what still runs in a session."""
        return list(running_in(pid).values())

    def start(self, *arguments: str, **extra: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(VENV_BIN / "trimtab"), *arguments],
            cwd=self.project,
            env={**self.env, **extra},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def group(self, name: str = "train") -> dict[str, Any]:
        answer = self.autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[f"trimtab-test-{name}"])
        found: dict[str, Any] = answer["AutoScalingGroups"][0]
        return found

    def desired(self, name: str = "train") -> int:
        return int(self.group(name)["DesiredCapacity"])

    def serving(self, name: str = "train") -> set[str]:
        return {each["InstanceId"] for each in self.group(name)["Instances"] if each["LifecycleState"] == "InService"}

    def state(self) -> dict[str, Any]:
        exported: dict[str, Any] = json.loads(self.pulumi("stack", "export", "--stack", "test"))
        return exported

    def follow(self) -> None:
        """Start an agent for each instance that AWS shows, and let discovery know all of them."""
        answer = self.autoscaling.describe_auto_scaling_groups()
        for each in (each for group in answer["AutoScalingGroups"] for each in group["Instances"]):
            self._start_agent(each["InstanceId"])
        targets = [
            {"targets": [f"127.0.0.1:{server.server_port}"], "labels": {"instance_id": identity}}
            for identity, server in self._servers.items()
        ]
        (self.folder / "agents.json").write_text(json.dumps(targets), encoding="utf-8")

    def _start_agent(self, identity: str) -> None:
        if identity not in self.nodes:
            node = self.nodes[identity] = Node(identity)
            self._servers[identity] = serve(lambda *request: agent_answer(node, *request))

    def silence(self, identity: str) -> None:
        server = self._servers[identity]
        server.shutdown()
        server.server_close()


def agent_answer(node: Node, _method: str, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
    if path == "/v1/report":
        return 200, json.dumps(node.report())
    if headers.get("Authorization") != f"Bearer {TOKEN}":
        return 401, ""
    node.order(path.rsplit("/", 1)[-1], json.loads(body))
    return 200, "{}"


@pytest.fixture
def empty_fleet(tmp_path: Path, pulumi_env: dict[str, str], moto_server: str) -> Iterator[Fleet]:
    """A fleet whose project is still to be made."""
    made = Fleet(tmp_path, pulumi_env, moto_server)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def fleet(empty_fleet: Fleet) -> Fleet:
    """One group `train` of one busy node, created by a person's `pulumi up`."""
    empty_fleet.make({"train": TRAIN})
    return empty_fleet
