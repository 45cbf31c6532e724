"""How long an idle round takes, and how long it takes from a metric to AWS. Real engine, simulated AWS, three groups.

python benchmarks/reconcile.py [--rounds 5] [--crossings 3] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
STACK = "bench"
LIMITS = {"idle_round_seconds": 2.0, "metric_to_aws_seconds": 3.0}
GROUPS = ("train", "batch", "serve")


class Queue(ThreadingHTTPServer):
    """Exposes pending GPUs and remembers when a number above zero was first read."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), QueuePage)
        self.pending = 0
        self.observed: float | None = None
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def cross(self, pending: int) -> None:
        """Let the metric jump."""
        self.observed, self.pending = None, pending

    def page(self) -> str:
        """The exposition."""
        if self.pending and self.observed is None:
            self.observed = time.monotonic()
        return "".join(
            f'trimtab_queue_pending_gpus{{group="{name}"}} {self.pending if name == "train" else 0}\n'
            for name in GROUPS
        )


class QueuePage(BaseHTTPRequestHandler):
    """The queue's one page."""

    server: Queue

    def do_GET(self) -> None:
        """Answer with the exposition."""
        body = self.server.page().encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def simulated_aws() -> Iterator[str]:
    """A moto server's URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(BIN / "moto_server"), "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: is_up(url), 30)
        yield url
    finally:
        process.terminate()
        process.wait(10)


def is_up(url: str) -> bool:
    """Whether the server answers."""
    try:
        urllib.request.urlopen(f"{url}/moto-api/", timeout=2).close()  # noqa: S310  # our own loopback server
    except OSError:
        return False
    return True


def wait_until(happened: Any, seconds: float) -> None:
    """Wait for something, or fail."""
    deadline = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > deadline:
            raise SystemExit("the benchmark's world did not do what it should in time")
        time.sleep(0.02)


def environment(folder: Path, aws: str) -> dict[str, str]:
    """What keeps everything on this machine and in one folder."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PULUMI_", "AWS_", "TRIMTAB_"))}
    (folder / "backend").mkdir()
    return {
        **kept,
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "PULUMI_BACKEND_URL": f"file://{folder / 'backend'}",
        "PULUMI_CONFIG_PASSPHRASE": "bench",
        "PULUMI_HOME": str(folder / "pulumi-home"),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "AWS_ENDPOINT_URL": aws,
        "AWS_ACCESS_KEY_ID": "bench",
        "AWS_SECRET_ACCESS_KEY": "bench",
        "AWS_DEFAULT_REGION": "us-east-1",
    }


def group_config() -> dict[str, Any]:
    """A group without nodes at first, so that no agent is missed."""
    queue = {"name": "queue", "source": "pending_gpus", "up": {"value": 0, "nodes": 1}}
    scaling = {"signals": [queue], "cooldownUpSeconds": 0}
    return {"instanceType": "g5.48xlarge", "min": 0, "max": 9, "scaling": scaling}


def make_project(folder: Path, queue: Queue) -> Path:
    """The root project with three groups."""
    project = folder / "project"
    project.mkdir()
    plugin = {"name": "trimtab", "path": str(BIN)}
    body = {"name": "bench", "runtime": "python", "plugins": {"providers": [plugin]}}
    config = {
        "bench:cluster": "north",
        "bench:imageId": "ami-12c6146b",
        "bench:availabilityZones": ["us-east-1a"],
        "bench:tags": {"cost-centre": "bench"},
        "bench:groups": {name: group_config() for name in GROUPS},
    }
    settings = (
        f'[project]\nstack = "{STACK}"\n[engine]\npolicy_pack = "{ROOT / "policies"}"\n'
        f'[agents]\ndiscovery = "file"\nfile = "{folder / "agents.json"}"\n'
        f'[queue]\nurl = "http://127.0.0.1:{queue.server_port}/metrics"\n'
        f'[journal]\nurl = "sqlite:///{folder / "journal.db"}"\n'
    )
    files = {
        "Pulumi.yaml": json.dumps(body),
        f"Pulumi.{STACK}.yaml": f"config: {json.dumps(config)}\n",
        "__main__.py": (ROOT / "stacks" / "__main__.py").read_text(encoding="utf-8"),
        "trimtab.toml": settings,
        "../agents.json": "[]",
    }
    for name, text in files.items():
        (project / name).write_text(text, encoding="utf-8")
    return project


def command(project: Path, env: dict[str, str], *words: str) -> None:
    """Run something of ours to its end; a note about silent agents (7) is no failure here."""
    done = subprocess.run(
        words, cwd=project, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode not in {0, 7}:
        raise SystemExit(f"{' '.join(words)}: {done.stdout}{done.stderr}")


def idle_rounds(project: Path, env: dict[str, str], rounds: int) -> list[float]:
    """Seconds from start to exit of `trimtab reconcile --once` with nothing to do."""
    taken = []
    for _ in range(rounds):
        started = time.monotonic()
        command(project, env, str(BIN / "trimtab"), "reconcile", "--once")
        taken.append(time.monotonic() - started)
    return taken


def crossings(project: Path, env: dict[str, str], queue: Queue, count: int) -> list[float]:
    """Seconds from the first reading past the threshold to the new desired capacity in AWS, in a running loop."""
    autoscaling = boto3.client(
        "autoscaling",
        endpoint_url=env["AWS_ENDPOINT_URL"],
        region_name="us-east-1",
        aws_access_key_id="bench",
        aws_secret_access_key="bench",  # noqa: S106  # moto's
    )

    def desired() -> int:
        groups = autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[f"bench-{STACK}-train"])
        return int(groups["AutoScalingGroups"][0]["DesiredCapacity"])

    loop = subprocess.Popen(
        [str(BIN / "trimtab"), "reconcile", "--every", "1s"],
        cwd=project,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        time.sleep(5)
        return [crossing(queue, desired) for _ in range(count)]
    finally:
        loop.send_signal(signal.SIGTERM)
        loop.wait(60)


def crossing(queue: Queue, desired: Any) -> float:
    """One jump of the metric, until AWS follows; then it falls again."""
    before = desired()
    queue.cross(1)
    wait_until(lambda: desired() > before, 60)
    seconds = time.monotonic() - (queue.observed or time.monotonic())
    queue.cross(0)
    time.sleep(2)
    return seconds


def measure(rounds: int, count: int) -> dict[str, list[float]]:
    """Both times in a world made for this."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trimtab-bench-")))
        env = environment(folder, stack.enter_context(simulated_aws()))
        queue = Queue()
        stack.callback(queue.server_close)
        stack.callback(queue.shutdown)
        project = make_project(folder, queue)
        command(project, env, str(BIN / "pulumi"), "stack", "init", STACK)
        command(project, env, str(BIN / "pulumi"), "up", "--yes", "--skip-preview", "--stack", STACK)
        idle = idle_rounds(project, env, rounds + 1)[1:]
        return {
            "idle_round_seconds": idle,
            "metric_to_aws_seconds": crossings(project, env, queue, count),
        }


def main() -> None:
    """Measure, print, and fail when a median lies above its limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--crossings", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    taken = measure(options.rounds, options.crossings)
    medians = {name: statistics.median(each) for name, each in taken.items()}
    if options.json:
        print(json.dumps({"medians": medians, "limits": LIMITS, "seconds": taken}))
    else:
        for name, each in taken.items():
            shown = ", ".join(f"{one:.2f}" for one in each)
            print(f"{name:24} median {medians[name]:5.2f}  limit {LIMITS[name]:.1f}  of {shown}")
    sys.exit(any(medians[name] > limit for name, limit in LIMITS.items()))


if __name__ == "__main__":
    main()
