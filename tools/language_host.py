"""A small Python language host for the Pulumi engine, for machines where the official one cannot be had.

The engine starts programs, policy packs and source plugins through a gRPC service named LanguageRuntime. Official
releases bring one written in Go; an engine built from its Go modules comes without it. This one serves just what
the engine asks for, runs everything with the interpreter it runs in or with the named virtual environment, and
leaves nothing running behind a dead engine.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from concurrent import futures
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from trimtab.provider.protocol import without_sdk

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # children are started, never forked into
without_sdk()

import grpc
from google.protobuf import empty_pb2, json_format
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2

from children import Children

if TYPE_CHECKING:
    from collections.abc import Iterator

RUNNER = Path(__file__).resolve().with_name("program_runner.py")
EXITED_AFTER_MESSAGE = 32
PARENT_POLL_SECONDS = 1.0


class HostError(Exception):
    """The program cannot be run as asked; the message is for the user."""


def leave_with_engine(children: Children) -> None:
    """End this process and its children once the engine is gone; they would wait for ever otherwise."""
    engine = os.getppid()
    while os.getppid() == engine:
        time.sleep(PARENT_POLL_SECONDS)
    children.end()
    os._exit(0)


def finish_with_call(context: Any, children: Children, process: subprocess.Popen[bytes]) -> None:
    """End a process's group when its call is over or given up; off the server's own thread, which must not wait."""
    if not context.add_callback(threading.Thread(target=children.finish, args=(process,), daemon=True).start):
        children.finish(process)


def interpreter(root: str, options: dict[str, Any]) -> str:
    """The Python that runs a program: its `virtualenv` option, else PULUMI_PYTHON_CMD, else our own.

    Raises:
        HostError: the named virtual environment has no interpreter.
    """
    named = options.get("virtualenv")
    if not named:
        return os.environ.get("PULUMI_PYTHON_CMD", sys.executable)
    python = Path(root) / named / "bin" / "python"
    if not python.exists():
        raise HostError(f"the virtual environment {python.parent.parent} named by `virtualenv` does not exist")
    return str(python)


def program_command(request: Any, engine: str) -> list[str]:
    """The command line of the program runner for one Run request."""
    info = request.info
    entry = info.entry_point if info.entry_point not in ("", ".") else info.program_directory or request.pwd
    return [
        interpreter(info.root_directory, json_format.MessageToDict(info.options)),
        "-u",
        str(RUNNER),
        json.dumps(
            {
                "monitor": request.monitor_address,
                "engine": engine,
                "project": request.project,
                "stack": request.stack,
                "parallel": request.parallel,
                "dry_run": request.dryRun,
                "organization": request.organization,
                "root_directory": info.root_directory,
            }
        ),
        entry,
        *request.args,
    ]


def plugin_command(request: Any) -> tuple[list[str], str]:
    """The command line and folder of a plugin: policy packs run under pulumi.policy, others as programs."""
    info = request.info
    python = interpreter(info.root_directory, json_format.MessageToDict(info.options))
    if request.kind == "analyzer":
        return [python, "-u", "-m", "pulumi.policy", *request.args, info.program_directory], info.program_directory
    return [python, "-u", info.program_directory, *request.args], request.pwd


class LanguageHost(language_pb2_grpc.LanguageRuntimeServicer):
    """Serves one engine; the engine's methods keep their names."""

    def __init__(self, engine: str, children: Children) -> None:
        self._engine = engine
        self._children = children

    def Handshake(self, request: Any, context: Any) -> Any:
        return language_pb2.LanguageHandshakeResponse()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo(version="1.0.0")

    def GetRequiredPackages(self, request: Any, context: Any) -> Any:
        return language_pb2.GetRequiredPackagesResponse()

    def GetRequiredPlugins(self, request: Any, context: Any) -> Any:
        return language_pb2.GetRequiredPluginsResponse()

    def About(self, request: Any, context: Any) -> Any:
        return language_pb2.AboutResponse(executable=sys.executable, version=sys.version.split()[0])

    def GetProgramDependencies(self, request: Any, context: Any) -> Any:
        return language_pb2.GetProgramDependenciesResponse()

    def RuntimeOptionsPrompts(self, request: Any, context: Any) -> Any:
        return language_pb2.RuntimeOptionsResponse()

    def InstallDependencies(self, request: Any, context: Any) -> Iterator[Any]:
        return iter(())

    def Cancel(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()

    def Run(self, request: Any, context: Any) -> Any:
        try:
            command = program_command(request, self._engine)
        except HostError as error:
            return language_pb2.RunResponse(error=str(error))
        environment = dict(
            os.environ,
            PULUMI_CONFIG=json.dumps(dict(request.config)),
            PULUMI_CONFIG_SECRET_KEYS=json.dumps(list(request.configSecretKeys)),
        )
        process = self._children.start(command, cwd=request.pwd, env=environment, stdout=sys.stderr, stderr=sys.stderr)
        finish_with_call(context, self._children, process)
        code = process.wait()
        if code == EXITED_AFTER_MESSAGE:
            return language_pb2.RunResponse(bail=True)
        return language_pb2.RunResponse(error=f"the program exited with code {code}" if code else "")

    def RunPlugin(self, request: Any, context: Any) -> Iterator[Any]:
        try:
            command, folder = plugin_command(request)
        except HostError as error:
            yield language_pb2.RunPluginResponse(stderr=f"{error}\n".encode())
            yield language_pb2.RunPluginResponse(exitcode=1)
            return
        process = self._children.start(
            command,
            cwd=folder,
            env=dict(pair.split("=", 1) for pair in request.env),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        finish_with_call(context, self._children, process)
        yield from output_of(process)
        yield language_pb2.RunPluginResponse(exitcode=process.wait())


def output_of(process: subprocess.Popen[bytes]) -> Iterator[Any]:
    """Both output streams of a process as messages, in order of arrival, until both are closed."""
    messages: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def pump(stream: IO[bytes], field: str) -> None:
        while chunk := stream.read1(65536):  # type: ignore[attr-defined]  # a pipe is a BufferedReader
            messages.put(language_pb2.RunPluginResponse(**{field: chunk}))
        messages.put(None)

    for stream, field in ((process.stdout, "stdout"), (process.stderr, "stderr")):
        threading.Thread(target=pump, args=(stream, field), daemon=True).start()
    for _ in range(2):
        yield from iter(messages.get, None)


def main() -> None:
    """Serve the engine whose address is the last argument, on a free port printed as the first line."""
    addresses = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    if not addresses:
        sys.exit("pulumi-language-python is a part of the Pulumi engine, which starts it with its own address.")
    children = Children()
    threading.Thread(target=leave_with_engine, args=(children,), daemon=True).start()
    server = grpc.server(futures.ThreadPoolExecutor(32))
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(LanguageHost(addresses[-1], children), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: server.stop(grace=0.2))
    server.wait_for_termination()
    children.end()


if __name__ == "__main__":
    main()
