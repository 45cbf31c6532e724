"""Where the scheduler meets the nodes: reads the agents' reports, places jobs, and makes the GPUs look their part."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

from trimtab_agent.demo.scheduler import GPUS_PER_NODE, Scheduler
from trimtab_agent.demo.world import GROUP, World

REPORT_SECONDS = 1.0


class Fleet:
    """The nodes as the scheduler knows them."""

    def __init__(self, world: World, scheduler: Scheduler) -> None:
        self._world = world
        self.scheduler = scheduler
        self.reports: dict[str, dict[str, Any]] = {}
        self.faults: dict[str, int] = {}
        self._written: dict[str, dict[tuple[str, str], str]] = {}
        self._client = httpx.Client(timeout=REPORT_SECONDS, trust_env=False)
        self._pool = ThreadPoolExecutor(8)

    def close(self) -> None:
        """Give back threads and connections."""
        self._pool.shutdown(cancel_futures=True)
        self._client.close()

    def tick(self, now: float) -> int:
        """One turn: read reports, drain, end and start jobs; how many jobs were put back into the queue."""
        self._read_reports()
        gone = {each.node for each in self.scheduler.running} - set(self.reports)
        draining = {node for node, report in self.reports.items() if (report.get("cordon") or {}).get("drain")}
        requeued = sum(self.scheduler.evict(node, now) for node in gone | draining)
        self.scheduler.finish(now)
        self.scheduler.place(self._free(), now)
        for node in self._world.ports():
            self._show(node)
        return requeued

    def _read_reports(self) -> None:
        ports = self._world.ports()
        answers = self._pool.map(self._report, ports.values())
        fresh = {node: report for node, report in zip(ports, answers, strict=True) if report is not None}
        self.reports = {**{node: old for node, old in self.reports.items() if node in ports}, **fresh}

    def _report(self, port: int) -> dict[str, Any] | None:
        try:
            report: dict[str, Any] = self._client.get(f"http://127.0.0.1:{port}/v1/report").json()
        except (httpx.HTTPError, ValueError):
            return None
        return report

    def _free(self) -> dict[str, int]:
        """GPUs that jobs may take, on nodes that say they are well and that nobody cordoned."""
        return {
            node: GPUS_PER_NODE - self.scheduler.used(node)
            for node, report in self.reports.items()
            if report["health"] in {"healthy", "degraded"} and report["cordon"] is None
        }

    def _show(self, node: str) -> None:
        """Let a node's GPUs look as busy as its jobs make them."""
        busy = self.scheduler.used(node)
        values = {("-", "gpus"): str(GPUS_PER_NODE)}
        for index in range(GPUS_PER_NODE):
            active = index < busy
            values |= {(str(index), "procs"): str(int(active)), (str(index), "util"): "93" if active else "0"}
        if node in self.faults:
            values[str(self.faults[node]), "lost"] = "1"
        if self._written.get(node) != values:
            script = sys.modules.get("script") or __import__("script")
            script.Script(self._world.node_folder(node) / "gpus.txt").replace(values)
            self._written[node] = values

    def break_gpu(self, node: str, index: int) -> None:
        """A GPU falls off the bus: the driver loses it and the kernel says so."""
        self.faults[node] = index
        self._show(node)
        bus = index * 16 + 16
        line = f"NVRM: Xid (PCI:0000:{bus:02X}:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
        with (self._world.node_folder(node) / "kmsg").open("a", encoding="utf-8") as log:
            log.write(line)


def serve_queue(scheduler: Scheduler, port: int) -> ThreadingHTTPServer:
    """The queue's metrics endpoint on loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = f'trimtab_queue_pending_gpus{{group="{GROUP}"}} {scheduler.pending_gpus}\n'.encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: Any) -> None:
            """Scrapes are not news."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
    return server
