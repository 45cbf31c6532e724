"""The toolchain gets each target by the first way that works, whole or not at all."""

from __future__ import annotations

import functools
import hashlib
import http.server
import io
import os
import platform
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import Checkout, script


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's name
        pass


@pytest.fixture
def releases(tmp_path: Path, checkout: Checkout) -> Iterator[Path]:
    """The folder of a mirror's release, filled with a tiny engine and its host; the checkout knows the mirror."""
    folder = tmp_path / "mirror" / "v3.274.1"
    folder.mkdir(parents=True)
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    name = f"pulumi-v3.274.1-{sys.platform}-{machine}.tar.gz"
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for program in ("pulumi", "pulumi-language-python", "pulumi-language-python-exec"):
            data = b"#!/bin/sh\necho v3.274.1\n"
            member = tarfile.TarInfo(f"pulumi/{program}")
            member.size, member.mode = len(data), 0o755
            archive.addfile(member, io.BytesIO(data))
    (folder / name).write_bytes(content.getvalue())
    digest = hashlib.sha256(content.getvalue()).hexdigest()
    (folder / "pulumi-3.274.1-checksums.txt").write_text(f"{'0' * 64}  other.tar.gz\n{digest}  {name}\n", "utf-8")
    handler = functools.partial(Quiet, directory=str(folder.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        checkout.extra["TRIMTAB_ENGINE_RELEASES"] = f"http://127.0.0.1:{server.server_port}"
        yield folder
        server.shutdown()


def until_there(path: Path) -> None:
    deadline = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.05)


@pytest.mark.parametrize("version", ["v3.274.0", "3.274.1", "v3.1000.0", "v4.0.0"])
def test_an_engine_on_path_that_is_recent_enough_is_taken(checkout: Checkout, version: str) -> None:
    found = checkout.put_pulumi(version)
    checkout.put_go()
    done = checkout.run("engine")
    assert (done.returncode, done.stdout.strip()) == (0, str(found))
    assert checkout.go_calls() == []
    assert (checkout.venv_bin / "pulumi").samefile(found)


@pytest.mark.parametrize("version", ["v3.273.9", "v3.99.0", "v2.999.0", "nonsense", ""])
def test_an_engine_on_path_that_is_too_old_or_says_no_version_is_passed_over(checkout: Checkout, version: str) -> None:
    checkout.put_pulumi(version)
    checkout.put_go()
    done = checkout.run("engine")
    assert (done.returncode, done.stdout.strip()) == (0, str(checkout.built))
    assert len(checkout.go_calls()) == 1


def test_our_own_link_on_path_does_not_count_as_installed(checkout: Checkout) -> None:
    script(checkout.venv_bin / "pulumi", "#!/bin/sh\necho v3.274.1\n")
    checkout.extra["PATH"] = f"{checkout.venv_bin}{os.pathsep}{checkout.path}{os.pathsep}/usr/bin{os.pathsep}/bin"
    assert checkout.run("path", "engine").returncode == 3


def test_without_network_the_engine_is_built_with_the_toolchain_that_the_project_names(checkout: Checkout) -> None:
    checkout.put_go()
    checkout.extra |= {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=vendor"}
    done = checkout.run("engine")
    assert done.returncode == 0, done.stderr
    assert "the official engine cannot be had" in done.stderr
    assert (checkout.folder / "go.environment").read_text("utf-8").split() == ["go1.27.3", "-mod=mod"]
    assert "version.Version=3.274.1" in checkout.go_calls()[0]
    assert (checkout.venv_bin / "pulumi").samefile(checkout.built)


def test_a_second_run_builds_nothing(checkout: Checkout) -> None:
    checkout.put_go()
    first, second = checkout.run("engine"), checkout.run("engine")
    assert (first.stdout, len(checkout.go_calls())) == (second.stdout, 1)


def test_missing_go_is_said_plainly_with_exit_code_3(checkout: Checkout) -> None:
    done = checkout.run("engine")
    assert done.returncode == 3
    assert "needs Go, which is not on PATH" in done.stderr
    assert "Install Go" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_failed_build_shows_the_end_of_its_log_and_where_the_log_is(checkout: Checkout) -> None:
    checkout.put_go("failing")
    done = checkout.run("etcd")
    log = checkout.cache / "trimtab" / "toolchain" / "etcd-3.7.3.log"
    assert done.returncode == 3
    assert "it does not compile" in done.stderr
    assert str(log) in done.stderr
    assert log.exists()
    assert not (checkout.cache / "trimtab" / "toolchain" / "etcd-3.7.3").exists()


def test_a_build_killed_midway_leaves_nothing_that_counts_and_the_next_one_succeeds(checkout: Checkout) -> None:
    checkout.put_go("hanging")
    process = subprocess.Popen(checkout.command("etcd"), env=checkout.environment(), stderr=subprocess.DEVNULL)
    until_there(Path(f"{checkout.calls_file}.hanging"))
    orphan = children_of(process.pid)
    process.kill()
    process.wait()
    for each in orphan:
        os.kill(each, signal.SIGKILL)
    assert checkout.run("path", "etcd").returncode == 3
    checkout.put_go()
    done = checkout.run("etcd")
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).exists()
    assert list((checkout.cache / "trimtab" / "toolchain").glob("*.part-*")) == []


def test_a_terminated_build_takes_its_compiler_along(checkout: Checkout) -> None:
    checkout.put_go("hanging")
    process = subprocess.Popen(checkout.command("etcd"), env=checkout.environment(), stderr=subprocess.DEVNULL)
    until_there(Path(f"{checkout.calls_file}.hanging"))
    compiler = children_of(process.pid)
    process.terminate()
    assert process.wait(timeout=20) == 143
    assert compiler
    assert not any(Path(f"/proc/{each}").exists() for each in compiler)
    assert list((checkout.cache / "trimtab" / "toolchain").glob("*.part-*")) == []


def test_two_builds_at_once_build_once(checkout: Checkout) -> None:
    script(checkout.path / "go", checkout.put_go().read_text("utf-8").replace("printf", "sleep 1; printf"))
    running = [
        subprocess.Popen(checkout.command("kwok"), env=checkout.environment(), stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=30)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0]
    assert outputs[0] == outputs[1]
    assert len(checkout.go_calls()) == 1


def test_the_official_release_brings_its_own_language_host(checkout: Checkout, releases: Path) -> None:
    done = checkout.run("engine")
    assert done.returncode == 0, done.stderr
    engine = Path(done.stdout.strip())
    assert engine.parent.name == "official-3.274.1"
    for name in ("pulumi", "pulumi-language-python", "pulumi-language-python-exec"):
        assert (checkout.venv_bin / name).samefile(engine.with_name(name))
    for each in releases.iterdir():
        each.unlink()
    assert checkout.run("engine").stdout == done.stdout


def test_a_release_that_does_not_match_its_checksum_is_refused(checkout: Checkout, releases: Path) -> None:
    archive = next(releases.glob("*.tar.gz"))
    archive.write_bytes(archive.read_bytes() + b"tampered")
    done = checkout.run("engine")
    assert done.returncode == 3
    assert "does not match its published checksum" in done.stderr
    assert not (checkout.cache / "trimtab" / "toolchain" / "official-3.274.1").exists()


def test_without_an_official_host_our_own_stands_beside_the_engine(checkout: Checkout) -> None:
    checkout.put_pulumi("v3.274.1")
    script(checkout.venv_bin / "python", '#!/bin/sh\nprintf "%s\\n" "$@"\n')
    assert checkout.run("engine").returncode == 0
    wrapper = checkout.venv_bin / "pulumi-language-python"
    said = subprocess.run([wrapper, "127.0.0.1:1"], capture_output=True, text=True, check=True).stdout.splitlines()
    assert said == [str(checkout.folder / "tools" / "language_host.py"), "127.0.0.1:1"]


def test_links_are_swapped_whole_while_a_program_runs_from_them(checkout: Checkout) -> None:
    old = script(checkout.venv_bin / "pulumi", "#!/bin/sh\necho old\n")
    before = old.stat().st_ino
    with old.open(encoding="utf-8") as running:
        checkout.put_pulumi("v3.274.1")
        assert checkout.run("engine").returncode == 0
        assert running.read() == "#!/bin/sh\necho old\n"
    assert (checkout.venv_bin / "pulumi").stat().st_ino != before


def test_staged_modules_of_kubernetes_get_versions(checkout: Checkout, tmp_path: Path) -> None:
    module = tmp_path / "module"
    module.mkdir()
    (module / "go.mod").write_text(
        "module k8s.io/kubernetes\nreplace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n"
        "\tk8s.io/client-go => ./staging/src/k8s.io/client-go\n\texample.org/x => example.org/y v1.0.0\n)\n",
        encoding="utf-8",
    )
    kept = tmp_path / "go.mod.kept"
    script(
        checkout.path / "go",
        f"""#!/bin/sh
if [ "$1" = mod ]; then echo '{{"Dir": "{module}"}}'; exit 0; fi
cp go.mod "{kept}"
touch program
""",
    )
    done = checkout.run("kube-apiserver")
    assert done.returncode == 0, done.stderr
    replaced = [line for line in kept.read_text("utf-8").splitlines() if line.startswith("replace")]
    assert replaced == [
        "replace k8s.io/api => k8s.io/api v0.35.4",
        "replace k8s.io/client-go => k8s.io/client-go v0.35.4",
    ]


def test_a_module_that_cannot_be_fetched_is_named(checkout: Checkout) -> None:
    checkout.put_go("failing")
    done = checkout.run("pulumi-kubernetes")
    assert done.returncode == 3
    assert "cannot fetch github.com/pulumi/pulumi-kubernetes/provider/v4@v4" in done.stderr


def test_the_cache_folder_that_cannot_be_made_is_named(checkout: Checkout) -> None:
    checkout.cache.write_text("a file", encoding="utf-8")
    done = checkout.run("etcd")
    assert done.returncode == 3
    assert "cannot make the cache folder" in done.stderr


def test_list_and_path_get_nothing(checkout: Checkout) -> None:
    checkout.put_go()
    listed = checkout.run("list")
    targets = [line.split()[0] for line in listed.stdout.splitlines()]
    assert targets == ["engine", "pulumi-kubernetes", "etcd", "kube-apiserver", "kwok"]
    assert all(checkout.run("path", target).returncode == 3 for target in targets)
    assert checkout.go_calls() == []


@pytest.mark.parametrize("arguments", [(), ("path",), ("engine", "etcd"), ("unknown",)])
def test_wrong_usage_is_told_with_exit_code_2(checkout: Checkout, arguments: tuple[str, ...]) -> None:
    done = checkout.run(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("usage:")


def children_of(process: int) -> list[int]:
    words = Path(f"/proc/{process}/task/{process}/children").read_text("utf-8").split()
    return [int(word) for word in words]
