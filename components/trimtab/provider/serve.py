"""The plugin's process: one free port, printed as the first line; gone as soon as the engine is.

Everything slow (boto3) is imported on first use: the engine starts this process in every run, also in those that
change nothing.
"""

from __future__ import annotations

import os

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

import asyncio
import signal
import sys
from ctypes import CDLL
from importlib.metadata import version

import grpc.aio
from pulumi.runtime._grpc_settings import _GRPC_CHANNEL_OPTIONS
from pulumi.runtime.proto import provider_pb2_grpc

from trimtab.provider.servicer import Servicer

PR_SET_PDEATHSIG = 1


def leave_with_parent() -> None:
    """Ask the kernel for SIGTERM when the process that started us dies."""
    CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


async def serve(arguments: list[str]) -> None:
    """Serve the engine named by the last argument that is no option, until it asks us to stop."""
    engine = next((each for each in reversed(arguments) if not each.startswith("-")), "")
    server = grpc.aio.server(options=_GRPC_CHANNEL_OPTIONS)
    servicer = Servicer(arguments, version("trimtab"), engine)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, lambda: asyncio.ensure_future(server.stop(grace=5)))
    print(port, flush=True)
    await server.wait_for_termination()


def main() -> None:
    """Entry of ``pulumi-resource-trimtab``, which only the Pulumi engine has a use for."""
    if len(sys.argv) > 1 and sys.argv[-1] in {"-h", "--help"}:
        print("pulumi-resource-trimtab is a Pulumi plugin: `pulumi up` starts it. See docs/provider.md.")
        return
    leave_with_parent()
    asyncio.run(serve(sys.argv[1:]))


if __name__ == "__main__":
    main()
