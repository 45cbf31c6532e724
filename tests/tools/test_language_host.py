"""The project's own language host under the real engine: programs, policy packs, source plugins, and their end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from google.protobuf import empty_pb2
from pulumi.runtime.proto import language_pb2, language_pb2_grpc

from .conftest import ROOT, Host, processes_of

PLUGIN = """
import sys
from pulumi.provider.experimental.provider import CreateResponse, Provider
from pulumi.provider.experimental.server import main

class Things(Provider):
    async def create(self, request):
        return CreateResponse(resource_id="thing-1", properties=request.properties)

main(sys.argv[1:], "0.1.0", Things())
"""

PACK = """
from pulumi_policy import EnforcementLevel, PolicyPack, ResourceValidationPolicy

def validate(args, report):
    if args.name.startswith("bad"):
        report("bad names are refused")

PolicyPack(
    "pack",
    policies=[
        ResourceValidationPolicy(
            name="names", description="names", validate=validate, enforcement_level=EnforcementLevel.MANDATORY
        )
    ],
)
"""

HANGING = """
import pathlib, subprocess, time
subprocess.Popen(["sh", "-c", 'trap "" TERM; touch started; sleep 300; sleep 300'])
time.sleep(300)
"""


def eventually(fact: Callable[[], bool], seconds: float = 30) -> bool:
    deadline = time.monotonic() + seconds
    while not fact() and time.monotonic() < deadline:
        time.sleep(0.05)
    return fact()


@pytest.mark.engine
def test_a_program_reads_config_and_secrets_and_exports_outputs(host: Host) -> None:
    host.run("config", "set", "--stack", "test", "size", "3")
    host.run("config", "set", "--stack", "test", "--secret", "token", "hush")
    host.program(
        "import pulumi\n"
        "config = pulumi.Config()\n"
        "pulumi.export('size', config.require_int('size'))\n"
        "pulumi.export('token', config.require_secret('token'))\n"
        "pulumi.export('where', [pulumi.get_project(), pulumi.get_stack()])\n"
    )
    said = host.up().stdout
    shown = json.loads(host.run("stack", "output", "--json", "--stack", "test").stdout)
    assert shown == {"size": 3, "token": "[secret]", "where": ["hosted", "test"]}
    revealed = json.loads(host.run("stack", "output", "--json", "--show-secrets", "--stack", "test").stdout)
    assert revealed["token"] == "hush"
    assert "hush" not in said + host.run("stack", "export", "--stack", "test").stdout


@pytest.mark.engine
def test_the_engine_finds_nothing_to_warn_about(host: Host) -> None:
    host.program("import pulumi\npulumi.export('ok', True)\n")
    done = host.up()
    assert "warning" not in (done.stdout + done.stderr).lower()


@pytest.mark.engine
def test_a_failing_program_shows_its_own_frames_and_not_the_runners(host: Host) -> None:
    host.program("def inner():\n    raise ValueError('seven is too many')\n\ninner()\n")
    done = host.up(check=False)
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert "ValueError: seven is too many" in said
    assert "in inner" in said
    assert "program_runner.py" not in said
    assert said.count("seven is too many") <= 2  # while it runs, and in the closing list


@pytest.mark.engine
def test_a_program_that_leaves_with_a_code_of_its_own_fails_the_update_and_names_the_code(host: Host) -> None:
    host.program("import os\nos._exit(7)\n")
    done = host.up(check=False)
    assert done.returncode != 0
    assert "the program exited with code 7" in done.stdout + done.stderr


@pytest.mark.engine
def test_a_virtual_environment_that_is_not_there_is_named(host: Host) -> None:
    (host.folder / "Pulumi.yaml").write_text(
        "name: hosted\nruntime:\n  name: python\n  options: {virtualenv: nowhere}\n", encoding="utf-8"
    )
    host.program("")
    done = host.up(check=False)
    assert done.returncode != 0
    assert "nowhere named by `virtualenv` does not exist" in done.stdout + done.stderr


@pytest.mark.engine
def test_a_policy_pack_blocks_at_preview_and_at_up(host: Host, tmp_path: Path) -> None:
    pack = tmp_path / "pack"
    pack.mkdir()
    (pack / "PulumiPolicy.yaml").write_text("runtime: python\n", encoding="utf-8")
    (pack / "__main__.py").write_text(PACK, encoding="utf-8")
    host.program("import pulumi\npulumi.ComponentResource('test:index:Thing', 'bad-thing')\n")
    for command in (("preview",), ("up", "--yes", "--skip-preview")):
        done = host.run(*command, "--stack", "test", "--policy-pack", str(pack), check=False)
        assert done.returncode != 0
        assert "bad names are refused" in done.stdout + done.stderr
    host.program("import pulumi\npulumi.ComponentResource('test:index:Thing', 'good-thing')\n")
    host.up("--policy-pack", str(pack))


@pytest.mark.engine
def test_a_source_plugin_is_started_and_creates(host: Host, tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    plugin.mkdir()
    (plugin / "PulumiPlugin.yaml").write_text("runtime: python\n", encoding="utf-8")
    (plugin / "__main__.py").write_text(PLUGIN, encoding="utf-8")
    (host.folder / "Pulumi.yaml").write_text(
        f"name: hosted\nruntime: python\nplugins:\n  providers:\n    - {{name: things, path: '{plugin}'}}\n",
        encoding="utf-8",
    )
    host.program(
        "import pulumi\n"
        "thing = pulumi.CustomResource('things:index:Thing', 'one', {'size': 2})\n"
        "pulumi.export('id', thing.id)\n"
    )
    host.up()
    assert json.loads(host.run("stack", "output", "--json", "--stack", "test").stdout) == {"id": "thing-1"}


@pytest.mark.engine
def test_a_killed_engine_leaves_neither_host_nor_program_nor_what_the_program_started(host: Host) -> None:
    host.program(HANGING)
    process = host.start_up()
    assert eventually((host.folder / "started").exists)
    assert len(processes_of(host.folder)) >= 3  # engine, program, what the program started
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert eventually(lambda: not processes_of(host.folder)), "the engine's children outlived it"


@pytest.mark.engine
def test_a_cancelled_update_ends_the_program_and_what_it_started(host: Host) -> None:
    host.program(HANGING)
    process = host.start_up()
    assert eventually((host.folder / "started").exists)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) != 0
    assert eventually(lambda: not processes_of(host.folder)), "the program outlived its update"


def test_a_plugin_whose_call_is_cancelled_ends_while_the_host_serves_on(tmp_path: Path) -> None:
    (tmp_path / "__main__.py").write_text(HANGING, encoding="utf-8")
    command = [sys.executable, str(ROOT / "tools" / "language_host.py"), "127.0.0.1:1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            port = process.stdout.readline().strip()
            with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
                runtime = language_pb2_grpc.LanguageRuntimeStub(channel)
                info = language_pb2.ProgramInfo(root_directory=str(tmp_path), program_directory=str(tmp_path))
                call = runtime.RunPlugin(
                    language_pb2.RunPluginRequest(pwd=str(tmp_path), env=[f"PATH={os.environ['PATH']}"], info=info)
                )
                assert eventually((tmp_path / "started").exists)
                call.cancel()
                assert eventually(lambda: not processes_of(tmp_path)), "the plugin outlived its call"
                assert runtime.GetPluginInfo(empty_pb2.Empty()).version
        finally:
            process.terminate()


def test_a_group_that_ignores_the_request_to_end_is_made_to(tmp_path: Path) -> None:
    starter = (
        "import subprocess, sys, pathlib\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from children import Children\n"
        "children = Children()\n"
        "stubborn = ['sh', '-c', 'trap \"\" TERM; sleep 300 & touch there; sleep 300']\n"
        "process = children.start(stubborn, cwd=sys.argv[2])\n"
        "while not pathlib.Path(sys.argv[2], 'there').exists(): pass\n"
        "children.end()\n"
        "print(process.returncode)\n"
    )
    command = [sys.executable, "-c", starter, str(ROOT / "tools"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == str(-signal.SIGKILL)
    assert processes_of(tmp_path) == []


def test_a_process_that_has_ended_is_left_alone() -> None:
    starter = (
        "import sys\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from children import Children\n"
        "children = Children()\n"
        "process = children.start(['true'])\n"
        "process.wait()\n"
        "children.end()\n"
        "print(process.returncode)\n"
    )
    command = [sys.executable, "-c", starter, str(ROOT / "tools")]
    assert subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip() == "0"


def test_a_human_who_starts_the_host_is_told_what_it_is() -> None:
    command = [sys.executable, str(ROOT / "tools" / "language_host.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=dict(os.environ))
    assert done.returncode == 1
    assert "a part of the Pulumi engine" in done.stderr
    assert "Traceback" not in done.stderr
