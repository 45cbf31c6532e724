"""Builds a target from its Go modules into the user's cache folder, where it counts only once it is whole.

`go install package@version` refuses modules with replace lines, so each build has a module file of its own.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from targets import Target

GO_TOOLCHAIN = "go1.27.3"
TOLD_SECONDS = 15.0
POLL_SECONDS = 0.2


class ToolchainError(Exception):
    """A target cannot be had; the message says what is missing and what to do."""


def cache_folder() -> Path:
    """The user's cache folder for these programs, made if need be.

    Raises:
        ToolchainError: it cannot be made.
    """
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trimtab" / "toolchain"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolchainError(
            f"cannot make the cache folder {folder}: {error.strerror}; name another in XDG_CACHE_HOME"
        ) from error
    return folder


def binary(target: Target) -> Path:
    """Where a built target lies; it exists only once it is whole."""
    return cache_folder() / f"{target.name}-{target.version}" / target.program


@contextmanager
def scratch_folder(name: str) -> Iterator[Path]:
    """A folder for one piece of work, alone with this name; what a killed predecessor left is removed."""
    with (cache_folder() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for stale in cache_folder().glob(f"{name}.part-*"):
            shutil.rmtree(stale, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=cache_folder(), prefix=f"{name}.part-") as folder:
            yield Path(folder)


def build(target: Target) -> Path:
    """Build a target unless it is there.

    Raises:
        ToolchainError: Go is missing or the build failed; the message names the log.
    """
    done = binary(target)
    if done.exists():
        return done
    require_go(target)
    with scratch_folder(target.name) as folder:
        if not done.exists():  # another process may have built it while this one waited
            compile_go(target, folder, done.parent.with_suffix(done.parent.suffix + ".log"))
            done.parent.mkdir(exist_ok=True)
            (folder / "program").replace(done)
    return done


def require_go(target: Target) -> None:
    """Refuse plainly where there is no Go."""
    if shutil.which("go") is None:
        raise ToolchainError(
            f"{target.program} {target.version} is not here, and building it needs Go, which is not on PATH. "
            f"Install Go 1.21 or newer (https://go.dev/dl, or Debian: apt install golang-go) and run this again; "
            f"it fetches {GO_TOOLCHAIN} by itself."
        )


def compile_go(target: Target, folder: Path, log: Path) -> None:
    """Run the build in a folder of its own, with its words in the log and its progress on the terminal."""
    environment = {**os.environ, "GOTOOLCHAIN": GO_TOOLCHAIN, "GOFLAGS": "-mod=mod"}
    source = module_folder(target, environment) if target.files or target.staging else Path()
    for theirs, ours in target.files.items():
        shutil.copyfile(source / theirs, folder / ours)
    (folder / "go.mod").write_text(go_mod(target, source), encoding="utf-8")
    command = ["go", "build", "-v", "-o", "program", "-ldflags", target.ldflags, "-tags", target.tags, target.package]
    with log.open("wb") as words:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=words, stderr=subprocess.STDOUT, start_new_session=True
        )
        code = followed(process, f"building {target.name} {target.version}", log)
    if code:
        raise ToolchainError(f"building {target.name} failed; the whole log is {log}, its end:\n{tail(log, 8)}")


def go_mod(target: Target, source: Path) -> str:
    """The module file of the build."""
    lines = [f"module trimtab/{target.name}", "go 1.26", f"require {target.query.replace('@', ' ')}"]
    lines += [f"replace {old} => {new}" for old, new in target.replace.items()]
    if target.staging:
        lines += [f"replace {name} => {name} {target.staging}" for name in staged_modules(source / "go.mod")]
    return "\n".join(lines) + "\n"


def module_folder(target: Target, environment: dict[str, str]) -> Path:
    """Where Go keeps the module's files, fetched if need be."""
    print(f"fetching {target.query}", file=sys.stderr, flush=True)
    command = ["go", "mod", "download", "-json", target.query]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    try:
        return Path(json.loads(done.stdout)["Dir"])
    except (ValueError, KeyError) as error:
        raise ToolchainError(f"cannot fetch {target.query}: {(done.stderr or done.stdout).strip()}") from error


def staged_modules(module_file: Path) -> list[str]:
    """The modules that a module file replaces by folders of its own tree; outside it they have versions."""
    pairs = (line.strip().split(" => ") for line in module_file.read_text(encoding="utf-8").splitlines())
    return [pair[0].removeprefix("replace ") for pair in pairs if pair[1:] and pair[1].startswith("./staging/")]


def followed(process: subprocess.Popen[bytes], what: str, log: Path) -> int:
    """The process's exit code, with its progress told meanwhile; it ends with us, however we end."""
    try:
        return follow(process, what, log)
    finally:
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.wait()


def follow(process: subprocess.Popen[bytes], what: str, log: Path) -> int:
    """Show that something goes on: a living line on a terminal, else a line every ``TOLD_SECONDS``."""
    started, told = time.monotonic(), 0.0
    living = sys.stderr.isatty()
    while (code := process.poll()) is None:
        elapsed = time.monotonic() - started
        if living:
            print(f"\r\033[K{what}: {elapsed:4.0f} s  {tail(log, 1)[:60]}", end="", file=sys.stderr, flush=True)
        elif elapsed - told >= TOLD_SECONDS:
            told = elapsed
            print(f"{what}: {elapsed:.0f} s  {tail(log, 1)}", file=sys.stderr, flush=True)
        time.sleep(POLL_SECONDS)
    if living:
        print("\r\033[K", end="", file=sys.stderr)
    return code


def tail(log: Path, lines: int) -> str:
    """The last lines of a log."""
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
