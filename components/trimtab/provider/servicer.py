"""The provider as the engine sees it: wire messages in, wire messages out, errors in one line.

Built on the protocol's own servicer. The SDK's experimental base would load the whole SDK into the plugin, loses old
inputs, unknowns, partial failures and `refresh_before_update`, and answers every error with a traceback.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial, wraps
from typing import Any, NoReturn

import grpc
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime.proto import (
    engine_pb2,
    engine_pb2_grpc,
    plugin_pb2,
    provider_pb2,
    provider_pb2_grpc,
    status_pb2,
)

from trimtab.model.errors import TrimtabError
from trimtab.model.names import Urn
from trimtab.provider import codec, declaration
from trimtab.provider.aws import Aws, AwsCallError
from trimtab.provider.kinds import KINDS
from trimtab.provider.kinds.kind import Kind, Live

_DIFF = provider_pb2.PropertyDiff


class _Status(grpc.Status):
    """A gRPC status with details, as abort_with_status wants it."""

    def __init__(self, message: str, details: bytes) -> None:
        self.code = grpc.StatusCode.UNKNOWN
        self.details = message
        self.trailing_metadata = (("grpc-status-details-bin", details),)


def one_line_errors(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Answer errors with one sentence; the traceback of an unexpected one goes to the engine's debug log."""

    @wraps(method)
    async def guarded(self: Servicer, request: Any, context: Any) -> Any:
        try:
            return await method(self, request, context)
        except (AwsCallError, TrimtabError) as error:
            await context.abort(grpc.StatusCode.UNKNOWN, str(error))
        except grpc.aio.AbortError:
            raise
        except Exception as error:  # noqa: BLE001  # the engine would show the whole traceback
            await self.log(request.urn, traceback.format_exc(), engine_pb2.DEBUG)
            sentence = f"internal error in trimtab: {type(error).__name__}: {error} (`pulumi --debug` shows where)"
            await context.abort(grpc.StatusCode.INTERNAL, sentence)

    return guarded


class Servicer(provider_pb2_grpc.ResourceProviderServicer):
    """One engine's provider. AWS calls run in threads, so that a slow one holds up nobody else."""

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._aws = Aws()
        self._refresh_first = False

    async def GetPluginInfo(self, request: Any, context: Any) -> Any:
        """Our version."""
        return plugin_pb2.PluginInfo(version=declaration.version())

    async def GetSchema(self, request: Any, context: Any) -> Any:
        """The package schema."""
        return provider_pb2.GetSchemaResponse(schema=declaration.schema_text())

    async def Cancel(self, request: Any, context: Any) -> Any:
        """Give up waiting; calls that are under way finish."""
        self.stop_waiting()
        return empty_pb2.Empty()

    def stop_waiting(self) -> None:
        """Let everything that only waits end with an error that says so."""
        self._aws.cancel()

    async def Handshake(self, request: Any, context: Any) -> Any:
        """Agree on features with the engine."""
        self._refresh_first = request.supports_refresh_before_update
        return provider_pb2.ProviderHandshakeResponse(accept_secrets=True, accept_resources=False, accept_outputs=False)

    async def Attach(self, request: Any, context: Any) -> Any:
        """Serve another engine (PULUMI_DEBUG_PROVIDERS)."""
        self._engine = request.address
        return empty_pb2.Empty()

    async def CheckConfig(self, request: Any, context: Any) -> Any:
        """The provider has no configuration of its own: AWS's environment is it.

        The program's configuration shares the name ``trimtab``; it is kept out of the provider's state.
        """
        kept = {key: value for key, value in request.news.fields.items() if key in ENGINE_CONFIG}
        return provider_pb2.CheckResponse(inputs=struct_pb2.Struct(fields=kept))

    async def DiffConfig(self, request: Any, context: Any) -> Any:
        """A change of configuration never replaces resources."""
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE)

    async def Configure(self, request: Any, context: Any) -> Any:
        """Nothing to configure; previews are supported."""
        return provider_pb2.ConfigureResponse(acceptSecrets=True, supportsPreview=True)

    @one_line_errors
    async def Check(self, request: Any, context: Any) -> Any:
        """Validate inputs and fill in defaults, names and desired capacity."""
        urn, kind = Urn.parse(request.urn), kind_of(request.urn)
        old, new = codec.decode(request.olds), codec.decode(request.news)
        inputs = {key: value for key, value in codec.reveal(new).items() if value is not None}
        failures = list(declaration.failures(kind.token, inputs))
        if failures:
            return refusal(failures)
        try:
            checked = kind.check(codec.reveal(old), inputs, urn)
        except TrimtabError as error:
            return refusal([declaration.Failure(getattr(error, "path", ""), getattr(error, "problem", str(error)))])
        for remark in checked.remarks:
            await self.log(request.urn, remark)
        return provider_pb2.CheckResponse(inputs=codec.encode(codec.mark_like(checked.inputs, new)))

    @one_line_errors
    async def Diff(self, request: Any, context: Any) -> Any:
        """Compare the last inputs with the new ones, property by property."""
        token = Urn.parse(request.urn).type
        old, new = codec.decode(request.old_inputs), codec.decode(request.news)
        details = differences(old, new, declaration.replaces_on(token), frozenset(request.ignoreChanges))
        return provider_pb2.DiffResponse(
            changes=provider_pb2.DiffResponse.DIFF_SOME if details else provider_pb2.DiffResponse.DIFF_NONE,
            replaces=[key for key, kind in details.items() if kind in REPLACING],
            diffs=list(details),
            detailedDiff={key: _DIFF(kind=kind, inputDiff=True) for key, kind in details.items()},
            hasDetailedDiff=True,
        )

    @one_line_errors
    async def Create(self, request: Any, context: Any) -> Any:
        """Make the resource, or say what is not known yet in a preview."""
        kind, inputs = kind_of(request.urn), codec.decode(request.properties)
        if request.preview:
            outputs = {**inputs, **dict.fromkeys(declaration.computed(kind.token), codec.UNKNOWN)}
            return provider_pb2.CreateResponse(properties=codec.encode(outputs))
        call = partial(kind.create, self._aws, codec.reveal(inputs), Urn.parse(request.urn))
        live = await asyncio.to_thread(call)
        await self._report_problems(context, kind, live, inputs)
        return provider_pb2.CreateResponse(
            id=live.id, properties=state_of(live, inputs), refresh_before_update=self._refreshes(kind)
        )

    @one_line_errors
    async def Read(self, request: Any, context: Any) -> Any:
        """The resource as AWS has it; an empty id when it is gone."""
        kind, inputs, state = kind_of(request.urn), codec.decode(request.inputs), codec.decode(request.properties)
        live = await asyncio.to_thread(kind.read, self._aws, request.id, codec.reveal(inputs))
        if live is None:
            return provider_pb2.ReadResponse()
        for remark in live.remarks:
            await self.log(request.urn, remark)
        return provider_pb2.ReadResponse(
            id=live.id,
            inputs=codec.encode(codec.mark_like(live.inputs, inputs, state)),
            properties=state_of(live, inputs, state),
            refresh_before_update=self._refreshes(kind),
        )

    @one_line_errors
    async def Update(self, request: Any, context: Any) -> Any:
        """Bring the resource to its new inputs."""
        kind, news, olds = kind_of(request.urn), codec.decode(request.news), codec.decode(request.olds)
        if request.preview:
            kept = {key: olds.get(key) for key in declaration.computed(kind.token)}
            outputs = {**news, **kept, **dict.fromkeys(kind.unstable, codec.UNKNOWN)}
            return provider_pb2.UpdateResponse(properties=codec.encode(outputs))
        old_inputs = codec.reveal(codec.decode(request.old_inputs))
        call = partial(kind.update, self._aws, request.id, old_inputs, codec.reveal(news), Urn.parse(request.urn))
        live = await asyncio.to_thread(call)
        await self._report_problems(context, kind, live, news)
        return provider_pb2.UpdateResponse(properties=state_of(live, news), refresh_before_update=self._refreshes(kind))

    @one_line_errors
    async def Delete(self, request: Any, context: Any) -> Any:
        """Remove the resource; what is gone already is fine."""
        await asyncio.to_thread(kind_of(request.urn).delete, self._aws, request.id)
        return empty_pb2.Empty()

    def _refreshes(self, kind: Kind) -> bool:
        return self._refresh_first and kind.live

    async def _report_problems(self, context: Any, kind: Kind, live: Live, inputs: Mapping[str, Any]) -> None:
        """Record a partly made resource in the state instead of losing it."""
        if live.problems:
            await init_failed(context, live, inputs, refresh_first=self._refreshes(kind))

    async def log(self, urn: str, message: str, severity: Any = engine_pb2.WARNING) -> None:
        """Say something in the engine's own log, beside the resource; an engine that is gone need not hear it."""
        async with grpc.aio.insecure_channel(self._engine) as channel:
            stub: Any = engine_pb2_grpc.EngineStub(channel)  # typed for blocking channels only
            with suppress(grpc.RpcError):
                await stub.Log(engine_pb2.LogRequest(severity=severity, message=message, urn=urn))


ENGINE_CONFIG = frozenset({"version", "pluginDownloadURL", "__internal"})
REPLACING = frozenset({_DIFF.ADD_REPLACE, _DIFF.DELETE_REPLACE, _DIFF.UPDATE_REPLACE})


def kind_of(urn: str) -> Kind:
    """The kind that a URN names; raises ValueError for one we do not have."""
    token = Urn.parse(urn).type
    if token not in KINDS:
        raise ValueError(f"trimtab has no resource kind {token}; it has {', '.join(KINDS)}")
    return KINDS[token]


def refusal(failures: list[declaration.Failure]) -> Any:
    """A Check answer that names each property and its problem."""
    return provider_pb2.CheckResponse(
        failures=[provider_pb2.CheckFailure(property=each.property, reason=each.reason) for each in failures]
    )


def differences(
    old: Mapping[str, Any], new: Mapping[str, Any], replacing: frozenset[str], ignored: frozenset[str]
) -> dict[str, Any]:
    """Each changed top-level property with the engine's kind of change.

    Unknown counts as changed, and so does a value that became secret: what the state holds in clear must go.
    """
    details: dict[str, Any] = {}
    for key in sorted((set(old) | set(new)) - ignored):
        if key in old and key in new and old[key] == new[key] and not codec.has_unknown(new[key]):
            continue
        plain = _DIFF.ADD if key not in old else _DIFF.DELETE if key not in new else _DIFF.UPDATE
        details[key] = plain + 1 if key in replacing else plain  # each kind's _REPLACE follows it
    return details


def state_of(live: Live, *models: Mapping[str, Any]) -> Any:
    """What the state stores: inputs and outputs, with secrets marked as they came."""
    return codec.encode(codec.mark_like({**live.inputs, **live.outputs}, *models))


async def init_failed(context: Any, live: Live, inputs: Mapping[str, Any], *, refresh_first: bool) -> NoReturn:
    """Abort with the engine's error for a resource that exists and is not complete."""
    detail = provider_pb2.ErrorResourceInitFailed(
        id=live.id,
        properties=state_of(live, inputs),
        inputs=codec.encode(inputs),
        reasons=list(live.problems),
        refresh_before_update=refresh_first,
    )
    status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message="; ".join(live.problems))
    status.details.add().Pack(detail)
    await context.abort_with_status(_Status(status.message, status.SerializeToString()))
    raise AssertionError("abort_with_status returned")
