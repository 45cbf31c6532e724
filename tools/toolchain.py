"""Gets the programs that Trimtab needs and no package registry of Python has: the Pulumi engine, and Kubernetes parts.

Each target is a row of data and all share one mechanism. The engine is taken from where it is quickest: PATH, the
official release, or a build from its Go modules into the user's cache folder. Nothing waits for what it does not use.
Runs on a bare Python, because it has to work before anything is installed.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ENGINE_VERSION = "3.274.1"
ENGINE_LEAST = (3, 274)
GO_TOOLCHAIN = "go1.27.3"
KUBERNETES = "1.35.4"
RELEASE = "https://github.com/pulumi/pulumi/releases/download"
CONNECT_SECONDS = 4
HERE = Path(__file__).resolve().parent
VENV_BIN = HERE.parent / ".venv" / "bin"


class ToolchainError(Exception):
    """A target cannot be had; the message says what is missing and what to do."""


@dataclass(frozen=True)
class Target:
    """How one program is built from Go modules."""

    name: str
    version: str
    module: str
    package: str
    use: str
    replace: dict[str, str] = field(default_factory=dict)
    ldflags: str = "-w -s"
    tags: str = ""
    staging: str = ""


TARGETS = {
    target.name: target
    for target in (
        Target(
            name="engine",
            version=ENGINE_VERSION,
            module="github.com/pulumi/pulumi/pkg/v3",
            package="github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
            use="the Pulumi command line",
            replace={
                "github.com/atotto/clipboard": "github.com/tgummerer/clipboard v0.0.0-20241001131231-d02d263e614e"
            },
            ldflags=f"-w -s -X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version={ENGINE_VERSION}",
            tags="osusergo,grpcnotrace",
        ),
        Target(
            name="etcd",
            version="3.7.3",
            module="go.etcd.io/etcd/server/v3",
            package="go.etcd.io/etcd/server/v3",
            use="the store of a Kubernetes API server",
        ),
        Target(
            name="kube-apiserver",
            version=KUBERNETES,
            module="k8s.io/kubernetes",
            package="k8s.io/kubernetes/cmd/kube-apiserver",
            use="a real Kubernetes API server",
            ldflags=f"-w -s -X k8s.io/component-base/version.gitVersion=v{KUBERNETES}",
            staging="v0.35.4",
        ),
        Target(
            name="kwok",
            version="0.8.0",
            module="sigs.k8s.io/kwok",
            package="sigs.k8s.io/kwok/cmd/kwok",
            use="Kubernetes nodes without machines",
        ),
    )
}


def cache_folder() -> Path:
    """The user's cache folder for built programs."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "trimtab" / "toolchain"


def binary(target: Target) -> Path:
    """Where a built target lies; it exists only once it is whole."""
    name = "pulumi" if target.name == "engine" else target.name
    return cache_folder() / f"{target.name}-{target.version}" / name


def version_of(pulumi: str) -> tuple[int, ...]:
    """The version that an engine reports, or an empty tuple."""
    try:
        said = subprocess.run([pulumi, "version"], capture_output=True, text=True, timeout=30, check=False).stdout
    except OSError:
        return ()
    found = re.match(r"v?(\d+)\.(\d+)\.(\d+)", said.strip())
    return tuple(int(part) for part in found.groups()) if found else ()


def installed_engine() -> Path | None:
    """A recent enough engine on PATH that is not our own link into the virtual environment."""
    others = [
        each for each in os.environ.get("PATH", "").split(os.pathsep) if each and Path(each).resolve() != VENV_BIN
    ]
    found = shutil.which("pulumi", path=os.pathsep.join(others))
    return Path(found).resolve() if found and version_of(found) >= ENGINE_LEAST else None


def download(url: str) -> bytes:
    """The bytes at a URL, or ToolchainError; an offline machine answers within seconds."""
    try:
        with urllib.request.urlopen(url, timeout=CONNECT_SECONDS) as answer:  # noqa: S310  # https constants only
            content: bytes = answer.read()
            return content
    except (urllib.error.URLError, OSError) as error:
        raise ToolchainError(f"{url}: {error}") from error


def official_engine() -> Path:
    """The released engine with its language hosts, checked against the published sums."""
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    archive = f"pulumi-v{ENGINE_VERSION}-linux-{machine}.tar.gz"
    folder = cache_folder() / f"official-{ENGINE_VERSION}"
    if not (folder / "pulumi").exists():
        sums = download(f"{RELEASE}/v{ENGINE_VERSION}/pulumi-{ENGINE_VERSION}-checksums.txt").decode()
        content = download(f"{RELEASE}/v{ENGINE_VERSION}/{archive}")
        if f"{hashlib.sha256(content).hexdigest()}  {archive}" not in sums:
            raise ToolchainError(f"{archive} does not match its published checksum")
        unpack(content, folder)
    return folder / "pulumi"


def unpack(content: bytes, folder: Path) -> None:
    """Unpack a release next to its final place, then move it there whole."""
    with tempfile.TemporaryDirectory(dir=cache_folder()) as scratch:
        packed = Path(scratch) / "release.tar.gz"
        packed.write_bytes(content)
        with tarfile.open(packed) as archive:
            archive.extractall(scratch, filter="data")
        (Path(scratch) / "pulumi").rename(folder)


@contextmanager
def only_one(target: Target) -> Iterator[None]:
    """Hold off a second build of the same target; the lock goes with its holder, however that ends."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / f"{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build(target: Target) -> Path:
    """Build a target from its Go modules unless it is there; a half build never counts.

    Raises:
        ToolchainError: Go is missing or the build failed; the message names the log.
    """
    done = binary(target)
    with only_one(target):
        if done.exists():
            return done
        if shutil.which("go") is None:
            raise ToolchainError(
                f"{target.name} cannot be found or downloaded here, and building it needs Go, which is not on PATH. "
                "Install Go 1.21 or newer (Debian: apt install golang-go), or put the program itself on PATH."
            )
        log = cache_folder() / f"{target.name}-{target.version}.log"
        with tempfile.TemporaryDirectory(dir=cache_folder()) as scratch:
            compile_go(target, Path(scratch), log)
            done.parent.mkdir(parents=True, exist_ok=True)
            (Path(scratch) / "program").rename(done)
    return done


def compile_go(target: Target, folder: Path, log: Path) -> None:
    """Run the build in a folder of its own, with its words in the log and its progress on the terminal."""
    environment = {**os.environ, "GOTOOLCHAIN": GO_TOOLCHAIN, "GOFLAGS": "-mod=mod"}
    (folder / "go.mod").write_text(go_mod(target, environment), encoding="utf-8")
    (folder / "tools.go").write_text(
        f'//go:build tools\n\npackage tools\n\nimport _ "{target.package}"\n', encoding="utf-8"
    )
    command = ["go", "build", "-o", "program", "-ldflags", target.ldflags, "-tags", target.tags, target.package]
    with log.open("w", encoding="utf-8") as words:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=words, stderr=subprocess.STDOUT)
        code = follow(process, f"building {target.name} {target.version}", log)
    if code:
        raise ToolchainError(f"building {target.name} failed; the last words of {log}:\n{tail(log, 8)}")


def go_mod(target: Target, environment: dict[str, str]) -> str:
    """The module file of the build."""
    lines = [f"module trimtab/{target.name}", "go 1.26", f"require {target.module} v{target.version}"]
    lines += [f"replace {old} => {new}" for old, new in target.replace.items()]
    if target.staging:
        lines += [f"replace {name} => {name} {target.staging}" for name in staged_modules(target, environment)]
    return "\n".join(lines) + "\n"


def staged_modules(target: Target, environment: dict[str, str]) -> list[str]:
    """The modules that Kubernetes replaces by folders of its own tree; outside it they have versions."""
    command = ["go", "mod", "download", "-json", f"{target.module}@v{target.version}"]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout
    found = re.search(r'"GoMod": "([^"]+)"', said)
    if not found:
        raise ToolchainError(f"cannot download {target.module}@v{target.version}: {said.strip()}")
    return re.findall(r"^\s*(k8s\.io/\S+) => \./staging", Path(found[1]).read_text(encoding="utf-8"), re.MULTILINE)


def follow(process: subprocess.Popen[bytes], what: str, log: Path) -> int:
    """Show that something goes on: a living line on a terminal, else a line every 15 seconds."""
    started, told = time.monotonic(), 0.0
    while (code := process.poll()) is None:
        elapsed = time.monotonic() - started
        if sys.stderr.isatty():
            print(f"\r\033[K{what}: {elapsed:4.0f} s  {tail(log, 1)[:60]}", end="", file=sys.stderr, flush=True)
        elif elapsed - told >= 15:
            told = elapsed
            print(f"{what}: {elapsed:.0f} s  {tail(log, 1)}", file=sys.stderr, flush=True)
        time.sleep(0.5)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    return code


def tail(log: Path, lines: int) -> str:
    """The last lines of a log."""
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])


def engine() -> Path:
    """An engine by the first way that works, linked into the virtual environment where there is one."""
    found = installed_engine() or obtained_engine()
    if VENV_BIN.is_dir():
        link(found, VENV_BIN / "pulumi")
        link_language_host(found)
    return found


def obtained_engine() -> Path:
    """An engine that is not on PATH: built before, released, or built now."""
    built = binary(TARGETS["engine"])
    if built.exists():
        return built
    try:
        return official_engine()
    except ToolchainError as error:
        print(f"the official engine cannot be had ({error}); building it from its modules", file=sys.stderr)
    return build(TARGETS["engine"])


def link(source: Path, destination: Path) -> None:
    """Put a hard link, or a copy, in place in one step; the engine looks for its hosts beside its real file."""
    if destination.exists() and source.exists() and destination.samefile(source):
        return
    scratch = destination.with_name(f".{destination.name}.{os.getpid()}")
    try:
        os.link(source, scratch)
    except OSError:
        shutil.copy2(source, scratch)
    scratch.replace(destination)


def link_language_host(found: Path) -> None:
    """The official language host beside the engine, or a wrapper of our own where there is none."""
    official = found.with_name("pulumi-language-python")
    if official.exists():
        for name in ("pulumi-language-python", "pulumi-language-python-exec", "pulumi-resource-pulumi-python"):
            if found.with_name(name).exists():
                link(found.with_name(name), VENV_BIN / name)
        return
    wrapper = VENV_BIN / "pulumi-language-python"
    scratch = wrapper.with_name(f".{wrapper.name}.{os.getpid()}")
    scratch.write_text(f'#!/bin/sh\nexec "{VENV_BIN}/python" "{HERE}/language_host.py" "$@"\n', encoding="utf-8")
    scratch.chmod(0o755)
    scratch.replace(wrapper)


def obtain(name: str) -> Path:
    """One target by name."""
    return engine() if name == "engine" else build(TARGETS[name])


def main(arguments: list[str] | None = None) -> int:
    """Entry; 0, or 3 when something is missing."""
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n", maxsplit=1)[0] if __doc__ else None,
        epilog="Example: python tools/toolchain.py engine",
    )
    parser.add_argument("target", choices=[*TARGETS, "list"], help="what to get; `list` says what there is")
    chosen = parser.parse_args(arguments).target
    if chosen == "list":
        for target in TARGETS.values():
            state = "built" if binary(target).exists() else "not built"
            print(f"{target.name:16} {target.version:10} {state:10} {target.use}")
        return 0
    try:
        print(obtain(chosen))
    except ToolchainError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
