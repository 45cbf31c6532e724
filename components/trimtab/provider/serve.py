"""The plugin's process: one free port, printed as the first line; gone as soon as the engine is.

Everything slow (the SDK, boto3) stays out or is imported on first use: the engine starts this process in every
command, also in those that change nothing.
"""

from __future__ import annotations

import os

from trimtab.provider.protocol import without_sdk

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

import asyncio
import signal
import sys
from concurrent.futures import ThreadPoolExecutor

THREADS = 32
PARENT_POLL_SECONDS = 1.0


async def parent_to_die() -> None:
    """Wait until the process that started us is gone."""
    parent = os.getppid()
    while os.getppid() == parent:  # noqa: ASYNC110  # the kernel sets no event for this
        await asyncio.sleep(PARENT_POLL_SECONDS)


async def serve(engine: str) -> None:
    """Serve the engine at this address until it stops us, or is no more."""
    import grpc.aio
    from pulumi.runtime._grpc_settings import _GRPC_CHANNEL_OPTIONS
    from pulumi.runtime.proto import provider_pb2_grpc

    from trimtab.provider.servicer import Servicer

    server, servicer = grpc.aio.server(options=_GRPC_CHANNEL_OPTIONS), Servicer(engine)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(THREADS, "aws"))
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    print(port, flush=True)
    await asyncio.wait(
        [asyncio.ensure_future(each) for each in (stopped.wait(), parent_to_die())],
        return_when=asyncio.FIRST_COMPLETED,
    )
    servicer.stop_waiting()
    await server.stop(grace=5)


def main() -> None:
    """Entry of ``pulumi-resource-trimtab``, which only the Pulumi engine has a use for."""
    if len(sys.argv) > 1 and sys.argv[-1] in {"-h", "--help"}:
        print("pulumi-resource-trimtab is a Pulumi plugin: `pulumi up` starts it. See docs/provider.md.")
        return
    without_sdk()
    engine = next((each for each in reversed(sys.argv[1:]) if not each.startswith("-")), "")
    asyncio.run(serve(engine))


if __name__ == "__main__":
    main()
