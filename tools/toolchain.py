"""Gets the programs that Trimtab needs and no package registry of Python has: the Pulumi engine, and Kubernetes parts.

The engine is taken from where it is quickest: PATH, the official release, or a build from its Go modules into the
user's cache folder ($XDG_CACHE_HOME or ~/.cache). The other targets are built. Nothing waits for what it does not use.

This runs on a bare Python, because it has to work before anything is installed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import urllib.request
from pathlib import Path
from typing import NoReturn

from go_build import ToolchainError, binary, build, cache_folder, scratch_folder
from targets import ENGINE, TARGETS

ENGINE_LEAST = (3, 274)
RELEASES = "https://github.com/pulumi/pulumi/releases/download"
CONNECT_SECONDS = 4
MACHINES = {"x86_64": "x64", "aarch64": "arm64"}
HERE = Path(__file__).resolve().parent
VENV_BIN = HERE.parent / ".venv" / "bin"
OFFICIAL_HOST = ("pulumi-language-python", "pulumi-language-python-exec", "pulumi-resource-pulumi-python")
EPILOG = """examples:
  toolchain.py engine         get the engine and link it into .venv/bin
  toolchain.py path engine    say where it is, get nothing
  toolchain.py list           say what there is

TRIMTAB_ENGINE_RELEASES names a mirror of the official releases.
exit codes: 0 done, 2 wrong usage, 3 something is missing (the message says what)"""


def version_of(pulumi: str) -> tuple[int, ...]:
    """The version that an engine reports, or an empty tuple."""
    quiet = {**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"}
    try:
        said = subprocess.run([pulumi, "version"], capture_output=True, text=True, timeout=30, check=False, env=quiet)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = re.match(r"v?(\d+)\.(\d+)\.(\d+)", said.stdout.strip())
    return tuple(int(part) for part in found.groups()) if found else ()


def installed_engine() -> Path | None:
    """A recent enough engine on PATH that is not our own link into the virtual environment."""
    folders = [each for each in os.environ.get("PATH", "").split(os.pathsep) if each]
    found = shutil.which("pulumi", path=os.pathsep.join(each for each in folders if Path(each).resolve() != VENV_BIN))
    return Path(found).resolve() if found and version_of(found) >= ENGINE_LEAST else None


def official_engine() -> Path:
    """Where the official release lies once it is unpacked."""
    return cache_folder() / f"official-{ENGINE}" / "pulumi"


def engine_here() -> Path | None:
    """An engine that needs no fetching: on PATH, or obtained before."""
    kept = (each for each in (official_engine(), binary(TARGETS["engine"])) if each.exists())
    return installed_engine() or next(kept, None)


def download(url: str) -> bytes:
    """The bytes at a URL, or ToolchainError; an offline machine answers within seconds."""
    try:
        with urllib.request.urlopen(url, timeout=CONNECT_SECONDS) as answer:  # noqa: S310  # the user's own mirror or https
            content: bytes = answer.read()
            return content
    except (OSError, ValueError) as error:
        raise ToolchainError(f"{url}: {error}") from error


def download_engine() -> Path:
    """The released engine with its language hosts, checked against the published sums."""
    releases = os.environ.get("TRIMTAB_ENGINE_RELEASES", RELEASES)
    archive = f"pulumi-v{ENGINE}-{sys.platform}-{MACHINES.get(platform.machine(), platform.machine())}.tar.gz"
    sums = download(f"{releases}/v{ENGINE}/pulumi-{ENGINE}-checksums.txt").decode(errors="replace")
    print(f"downloading {archive}", file=sys.stderr, flush=True)
    content = download(f"{releases}/v{ENGINE}/{archive}")
    if f"{hashlib.sha256(content).hexdigest()}  {archive}" not in sums.splitlines():
        raise ToolchainError(f"{archive} does not match its published checksum")
    unpack(content, official_engine())
    return official_engine()


def unpack(content: bytes, engine: Path) -> None:
    """Unpack a release next to its final place, then move it there whole."""
    with scratch_folder("official") as folder:
        packed = folder / "release.tar.gz"
        packed.write_bytes(content)
        with tarfile.open(packed) as archive:
            archive.extractall(folder, filter="data")
        if not engine.exists():  # another process may have been quicker
            (folder / "pulumi").rename(engine.parent)


def engine() -> Path:
    """An engine by the first way that works, linked into the virtual environment where there is one."""
    found = engine_here() or obtained_engine()
    if VENV_BIN.is_dir():
        link(found, VENV_BIN / "pulumi")
        link_language_host(found)
    return found


def obtained_engine() -> Path:
    """The released engine, or one built now."""
    try:
        return download_engine()
    except ToolchainError as error:
        print(f"the official engine cannot be had ({error}); building it from its modules", file=sys.stderr, flush=True)
    return build(TARGETS["engine"])


def link(source: Path, destination: Path) -> None:
    """Put a hard link, or a copy, in place in one step; the engine looks for its hosts beside its real file."""
    if destination.exists() and destination.samefile(source):
        return
    scratch = destination.with_name(f".{destination.name}.{os.getpid()}")
    try:
        os.link(source, scratch)
    except OSError:
        shutil.copy2(source, scratch)
    scratch.replace(destination)


def link_language_host(found: Path) -> None:
    """The official language host beside the engine, or a wrapper of our own where there is none."""
    official = [each for each in map(found.with_name, OFFICIAL_HOST) if each.exists()]
    for each in official:
        link(each, VENV_BIN / each.name)
    if not official:
        write_wrapper(VENV_BIN / OFFICIAL_HOST[0])


def write_wrapper(wrapper: Path) -> None:
    """Put a script in place that starts our own language host."""
    words = [str(VENV_BIN / "python"), str(HERE / "language_host.py")]
    scratch = wrapper.with_name(f".{wrapper.name}.{os.getpid()}")
    scratch.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
    scratch.chmod(0o755)
    scratch.replace(wrapper)


def obtained(name: str) -> Path:
    """One target by name, got if need be."""
    return engine() if name == "engine" else build(TARGETS[name])


def located(name: str) -> Path:
    """One target by name where it is here already; ToolchainError where it is not."""
    found = engine_here() if name == "engine" else binary(TARGETS[name])
    if found is None or not found.exists():
        raise ToolchainError(f"{name} is not here; `{Path(__file__).name} {name}` gets it")
    return found


def listing() -> str:
    """What there is, a line each."""
    states = {name: "built" if binary(target).exists() else "not built" for name, target in TARGETS.items()}
    return "\n".join(f"{each.name:18} {each.version:10} {states[each.name]:10} {each.use}" for each in TARGETS.values())


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument(
        "command", choices=[*TARGETS, "list", "path"], help="a target to get, or `list`, or `path TARGET`"
    )
    made.add_argument("target", nargs="?", choices=[*TARGETS], help="the target of `path`")
    return made


def answer(command: str, target: str | None) -> str:
    """What the command prints."""
    if command == "list":
        return listing()
    return str(located(target) if target else obtained(command))


def terminated(*_: object) -> NoReturn:
    """Turn SIGTERM into an exit that cleans up."""
    sys.exit(143)


def main() -> int:
    """Entry; 0, or 3 when something is missing."""
    chosen = parser().parse_args()
    if (chosen.command == "path") != (chosen.target is not None):
        parser().error("`path` and only `path` takes a target")
    signal.signal(signal.SIGTERM, terminated)
    try:
        print(answer(chosen.command, chosen.target))
    except ToolchainError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
