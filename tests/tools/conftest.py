"""Fixtures of the tools' tests: a checkout of their own with tiny stand-ins for what they start, and a real engine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
VENV_BIN = Path(sys.executable).parent
NOWHERE = "http://127.0.0.1:9"  # the discard port, where nobody listens

GO = """#!/bin/sh
echo "$@" >> "{calls}"
echo "$GOTOOLCHAIN $GOFLAGS" >> "{environment}"
case "{mood}" in
  failing) echo "main.go:1: it does not compile"; exit 1 ;;
  hanging) touch "{calls}.hanging"; exec sleep 300 ;;
esac
printf '#!/bin/sh\\necho v3.274.1\\n' > program
chmod +x program
"""


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


@dataclass
class Checkout:
    """A copy of tools/ with an empty virtual environment beside it, offline, with only what a test puts on PATH."""

    folder: Path
    cache: Path
    path: Path
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def venv_bin(self) -> Path:
        return self.folder / ".venv" / "bin"

    @property
    def built(self) -> Path:
        return self.cache / "trimtab" / "toolchain" / "engine-3.274.1" / "pulumi"

    def put_pulumi(self, version: str) -> Path:
        return script(self.path / "pulumi", f"#!/bin/sh\necho {version}\n")

    def put_go(self, mood: str = "working") -> Path:
        return script(
            self.path / "go", GO.format(calls=self.calls_file, environment=self.folder / "go.environment", mood=mood)
        )

    @property
    def calls_file(self) -> Path:
        return self.folder / "go.calls"

    def go_calls(self) -> list[str]:
        return self.calls_file.read_text(encoding="utf-8").splitlines() if self.calls_file.exists() else []

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, str(self.folder / "tools" / "toolchain.py"), *arguments]

    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.pathsep.join((str(self.path), "/usr/bin", "/bin")),
            "HOME": str(self.folder / "home"),
            "XDG_CACHE_HOME": str(self.cache),
            "TRIMTAB_ENGINE_RELEASES": NOWHERE,
            **self.extra,
        }

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments), env=self.environment(), capture_output=True, text=True, timeout=60, check=False
        )


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    if any((Path(folder) / name).exists() for folder in ("/usr/bin", "/bin") for name in ("pulumi", "go")):
        pytest.skip("the system's own folders hold a pulumi or a go, which these tests have to hide")
    folder = tmp_path / "a checkout"
    shutil.copytree(ROOT / "tools", folder / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / "path").mkdir()
    return Checkout(folder, tmp_path / "cache", tmp_path / "path")


@dataclass
class Host:
    """The real engine with the project's own language host beside it, on one project folder."""

    bin: Path
    folder: Path
    env: dict[str, str]

    def command(self, *arguments: str) -> list[str]:
        return [str(self.bin / "pulumi"), "--non-interactive", "--color", "never", *arguments]

    def run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            start_new_session=True,
            timeout=120,
            check=False,
        )
        if check and done.returncode:
            pytest.fail(f"pulumi {' '.join(arguments)} exited {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done

    def up(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.run("up", "--yes", "--skip-preview", "--stack", "test", *arguments, check=check)

    def start_up(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.command("up", "--yes", "--skip-preview", "--stack", "test"),
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def program(self, text: str) -> None:
        (self.folder / "__main__.py").write_text(text, encoding="utf-8")


@pytest.fixture(scope="session")
def engine_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An engine beside our own language host, as toolchain.py lays them out where no official host is at hand."""
    checkout = tmp_path_factory.mktemp("beside") / "a checkout"
    checkout.mkdir()
    (checkout / "tools").symlink_to(ROOT / "tools")
    bin_folder = checkout / "bin"
    bin_folder.mkdir()
    try:
        os.link(VENV_BIN / "pulumi", bin_folder / "pulumi")
    except OSError:
        shutil.copy2(VENV_BIN / "pulumi", bin_folder / "pulumi")
    host = f'"{sys.executable}" "{checkout}/tools/language_host.py"'
    script(bin_folder / "pulumi-language-python", f'#!/bin/sh\nexec {host} "$@"\n')
    return bin_folder


@pytest.fixture
def host(tmp_path: Path, engine_folder: Path) -> Iterator[Host]:
    (tmp_path / "backend").mkdir()
    project = tmp_path / "project"
    project.mkdir()
    (project / "Pulumi.yaml").write_text("name: hosted\nruntime: python\n", encoding="utf-8")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PULUMI_", "AWS_", "TRIMTAB_"))}
    made = Host(
        engine_folder,
        project,
        {
            **kept,
            "PATH": os.pathsep.join((str(engine_folder), str(VENV_BIN), os.environ["PATH"])),
            "PULUMI_BACKEND_URL": f"file://{tmp_path / 'backend'}",
            "PULUMI_CONFIG_PASSPHRASE": "test",
            "PULUMI_HOME": str(tmp_path / "pulumi-home"),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        },
    )
    made.run("stack", "init", "test")
    yield made
    assert not processes_of(tmp_path), "something of this test still runs"


def processes_of(folder: Path) -> list[int]:
    """The running processes whose working folder is inside this one."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            inside = (each / "cwd").readlink().is_relative_to(folder)
        except OSError:
            continue
        if inside:
            found.append(int(each.name))
    return found
