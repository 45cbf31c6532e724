"""The `trimtab-agent` command."""

from __future__ import annotations

import argparse
import math
import signal
import socket
import sys
import threading
from importlib.metadata import version
from pathlib import Path

from trimtab_agent.node import checks
from trimtab_agent.node.agent import Agent, Settings
from trimtab_agent.node.incidents import BOOT_ID, read_boot_id
from trimtab_agent.node.metrics import NodeCollector
from trimtab_agent.node.server import AgentServer

PORT_MOST = 65535
CANNOT_START = 3


def arguments() -> argparse.ArgumentParser:
    """The command line; every option has a default that suits a GPU node, except who it is."""
    parser = argparse.ArgumentParser(
        prog="trimtab-agent",
        description="Watches the GPUs of this node, says whether it is well, and exports metrics.",
        epilog="Example: trimtab-agent --instance-id i-0abc --listen 0.0.0.0:9400 --token-file /etc/trimtab/token",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--instance-id", required=True, help="this node's EC2 instance id")
    parser.add_argument("--node", default=socket.gethostname(), help="this node's name in metrics")
    parser.add_argument("--listen", default="127.0.0.1:9400", help="address and port to serve on")
    parser.add_argument(
        "--token-file", type=Path, help="file with the token that orders need; without it none is taken"
    )
    parser.add_argument(
        "--state-dir", type=Path, default=Path("/var/lib/trimtab"), help="where marks and Xids are kept"
    )
    parser.add_argument("--kmsg", type=Path, default=Path("/dev/kmsg"), help="the kernel's log")
    parser.add_argument("--boot-id-file", type=Path, default=BOOT_ID, help="where the boot's id is read")
    parser.add_argument("--interval", type=seconds, default=5.0, help="seconds between two looks at the driver")
    parser.add_argument("--deadline", type=seconds, default=5.0, help="seconds that the driver has to answer")
    parser.add_argument(
        "--first-deadline", type=seconds, default=20.0, help="seconds for the first answer after a start"
    )
    parser.add_argument("--expected-gpus", type=int, help="GPUs that this node should have")
    parser.add_argument(
        "--disable", action="append", default=[], choices=sorted(checks.CHECKS), help="a check to leave out"
    )
    parser.add_argument("--version", action="version", version=f"trimtab-agent {version('trimtab')}")
    return parser


def address(text: str) -> tuple[str, int]:
    """Host and port; raises ValueError."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > PORT_MOST:
        raise ValueError(f"--listen {text!r}: write host:port, for example 127.0.0.1:9400")
    return host.strip("[]"), int(port)


def seconds(text: str) -> float:
    """A positive, finite time; raises ValueError."""
    value = float(text)
    if not 0 < value < math.inf:
        raise ValueError(text)
    return value


def build(options: argparse.Namespace) -> tuple[Agent, AgentServer]:
    """The agent and its server; raises OSError or ValueError when they cannot be had."""
    token = options.token_file.read_text(encoding="utf-8").strip() if options.token_file else None
    if token == "":
        raise ValueError(f"--token-file {options.token_file} is empty")
    settings = Settings(
        options.node,
        options.instance_id,
        options.state_dir,
        options.kmsg,
        read_boot_id(options.boot_id_file),
        options.interval,
        options.deadline,
        options.first_deadline,
        options.expected_gpus,
        frozenset(options.disable),
    )
    agent = Agent(settings)
    collector = NodeCollector(agent.findings, options.node, version("trimtab"))
    return agent, AgentServer(address(options.listen), agent, collector, token, version("trimtab"))


def serve(agent: Agent, server: AgentServer) -> None:
    """Run until SIGTERM or SIGINT."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: threading.Thread(target=server.shutdown, daemon=True).start())
    agent.start()
    print(f"serving on {server.server_address[0]!s}:{server.server_address[1]}", flush=True)
    try:
        server.serve_forever(poll_interval=0.2)
    finally:
        agent.stop()
        server.server_close()


def main() -> None:
    """Entry of the process."""
    options = arguments().parse_args()
    try:
        agent, server = build(options)
    except (OSError, ValueError) as error:
        print(f"error: trimtab-agent cannot start: {error}", file=sys.stderr)
        sys.exit(CANNOT_START)
    serve(agent, server)


if __name__ == "__main__":
    main()
