"""The kernel's log as a second witness: Xid lines, and lost GPUs that the driver reports without that word.

Parsing is pure and apart from following. The follower survives what logs do: floods, truncation, rotation, garbage.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from collections.abc import Callable
from pathlib import Path

from trimtab_agent.node.snapshot import Xid
from trimtab_agent.node.tally import Tally

FALLEN_OFF_BUS = 79
PCI = r"(?P<pci>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})"
XID = re.compile(rf"NVRM: Xid \((?:PCI:)?{PCI}(?:\.[0-9A-Fa-f])?\): (?P<code>\d{{1,3}})(?:,|\s|$)")
FALLEN = "fallen off the bus"
LOST = re.compile(rf"NVRM: .*?{PCI}\S* .*{FALLEN}")
NAMED = re.compile(rf"NVRM: The NVIDIA GPU {PCI}")
RECORD = re.compile(r"^\d+,\d+,\d+,[^;]*;")
CHUNK = 65536
LINE_MOST = 8192


def parse(line: str) -> Xid | None:
    """The Xid in one record of /dev/kmsg or one plain line, or None."""
    text = RECORD.sub("", line.strip(), count=1)
    if found := XID.search(text):
        return Xid(int(found["code"]), pci=short_pci(found["pci"]), text=text[:300])
    if found := LOST.search(text):
        return Xid(FALLEN_OFF_BUS, pci=short_pci(found["pci"]), text=text[:300])
    return None


def step(named: str | None, line: str) -> tuple[str | None, Xid | None]:
    """One more line, with the GPU that an unfinished sentence has named so far; the driver spreads one over 3 records.

    Lines of others may stand between them. Returns the GPU that is still named, and the Xid that the line completes.
    """
    if xid := parse(line):
        return None, xid
    if "NVRM:" not in line:
        return named, None
    if found := NAMED.search(line):
        return short_pci(found["pci"]), None
    if named and FALLEN in line:
        return None, Xid(FALLEN_OFF_BUS, pci=named, text=f"NVRM: The NVIDIA GPU {named} has {FALLEN}")
    return (named if "installed in this system" in line else None), None


def short_pci(address: str) -> str:
    """A PCI address as domain:bus:device, whichever way the source writes the domain."""
    domain, bus, device = address.upper().split(":")[:3]
    return f"{int(domain, 16):04X}:{bus}:{device.split('.')[0]}"


class Follower:
    """One thread that reads a log from where it stands and keeps what parses."""

    def __init__(self, path: Path, interval: float = 0.2) -> None:
        self._path = path
        self._interval = interval
        self._found = Tally()
        self._named: str | None = None
        self._problem: str | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kmsg", daemon=True)

    @property
    def problem(self) -> str | None:
        """Why the log cannot be read now, or None."""
        return self._problem

    def start(self) -> None:
        """Begin following."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        self._thread.join(timeout=2)

    def take(self) -> list[tuple[Xid, int]]:
        """The Xids since the last call, counted."""
        return self._found.take()

    def _run(self) -> None:
        """Follow the log; one that was replaced, cut short or cannot be read is opened anew."""
        while not self._stop.is_set():
            try:
                self._open_and_follow()
            except OSError as error:
                self._problem = f"{self._path}: {error.strerror}"
                self._stop.wait(self._interval)

    def _open_and_follow(self) -> None:
        descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            self._follow(descriptor, self._on_line)
        finally:
            os.close(descriptor)

    def _on_line(self, line: bytes) -> None:
        self._named, xid = step(self._named, line.decode(errors="replace"))
        if xid is not None:
            self._found.add(xid)

    def _follow(self, descriptor: int, on_line: Callable[[bytes], None]) -> None:
        """Read one opening of the log until it is replaced; a device gives one record a read."""
        rest, position = b"", 0
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        while not self._stop.is_set():
            chunk = read_some(descriptor)
            self._problem = None
            position += len(chunk)
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                on_line(line)
            rest = rest[-LINE_MOST:]
            if not chunk:
                if is_file and was_replaced(self._path, descriptor, position):
                    return
                self._stop.wait(self._interval)


def read_some(descriptor: int) -> bytes:
    """What there is to read now; nothing when the log is quiet. An overrun of the kernel's ring is stepped over."""
    while True:
        try:
            return os.read(descriptor, CHUNK)
        except BlockingIOError:
            return b""
        except BrokenPipeError:
            continue


def was_replaced(path: Path, descriptor: int, position: int) -> bool:
    """True when the path names another file by now, or the file is shorter than what was read of it."""
    try:
        now, opened = path.stat(), os.fstat(descriptor)
    except OSError:
        return False
    return now.st_ino != opened.st_ino or now.st_size < position
