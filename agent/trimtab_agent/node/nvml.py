"""The only door to pynvml, opened only in the worker process: a hung driver must never hang the agent.

Each value is asked for on its own, so that one that a driver does not support, or one lost GPU, hides no other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pynvml

from trimtab_agent.node.snapshot import Gpu, Snapshot, Xid

XID_EVENT = 0x8
RECOVERY_ACTION_FIELD = 230
EVENTS_AT_ONCE = 256
MILLIWATTS = 1000


class Driver:
    """An initialised NVML."""

    def __init__(self) -> None:
        """Initialise; raises pynvml.NVMLError when there is no library or no driver."""
        pynvml.nvmlInit()
        self._events = pynvml.nvmlEventSetCreate()
        self._registered: set[int] = set()

    def snapshot(self) -> Snapshot:
        """Everything now; handles are looked up anew, because a reset makes old ones stale."""
        try:
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            return Snapshot(problem=f"the driver does not say how many GPUs there are: {error}")
        gpus = tuple(self._gpu(index) for index in range(count))
        return Snapshot(_text(quietly(pynvml.nvmlSystemGetDriverVersion)), gpus, self._drain_events())

    def _gpu(self, index: int) -> Gpu:
        """One GPU. A lost one may still have a handle and a UUID: any call on it can be the first that says so."""
        uuid = None
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            uuid = _text(pynvml.nvmlDeviceGetUUID(handle))
            self._register(index, handle)
            return _values(Gpu(index, uuid), handle)
        except pynvml.NVMLError as error:
            lost = _is_lost(error)
            return Gpu(index, uuid, lost=lost, problem=None if lost else str(error))

    def _register(self, index: int, handle: Any) -> None:
        if index in self._registered:
            return
        supported = quietly(pynvml.nvmlDeviceGetSupportedEventTypes, handle) or 0
        if supported & XID_EVENT:
            quietly(pynvml.nvmlDeviceRegisterEvents, handle, XID_EVENT, self._events)
            self._registered.add(index)

    def _drain_events(self) -> tuple[Xid, ...]:
        """The Xids that the driver's event set holds; a time-out is its normal end."""
        found: list[Xid] = []
        while len(found) < EVENTS_AT_ONCE:
            event = quietly(pynvml.nvmlEventSetWait_v2, self._events, 1)
            if event is None:
                break
            if event.eventType == XID_EVENT:
                found.append(Xid(int(event.eventData), uuid=_text(quietly(pynvml.nvmlDeviceGetUUID, event.device))))
        return tuple(found)


def _values(gpu: Gpu, handle: Any) -> Gpu:
    memory = told(pynvml.nvmlDeviceGetMemoryInfo, handle)
    rates = told(pynvml.nvmlDeviceGetUtilizationRates, handle)
    power = told(pynvml.nvmlDeviceGetPowerUsage, handle)
    rows = told(pynvml.nvmlDeviceGetRemappedRows, handle)
    processes = told(pynvml.nvmlDeviceGetComputeRunningProcesses_v3, handle)
    pci = told(pynvml.nvmlDeviceGetPciInfo_v3, handle)
    return Gpu(
        gpu.index,
        gpu.uuid,
        _text(told(pynvml.nvmlDeviceGetName, handle)),
        _text(pci.busId) if pci else None,
        utilization_ratio=None if rates is None else rates.gpu / 100,
        memory_used_bytes=None if memory is None else memory.used,
        memory_total_bytes=None if memory is None else memory.total,
        temperature_celsius=told(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU),
        power_watts=None if power is None else power / MILLIWATTS,
        ecc_uncorrected=told(
            pynvml.nvmlDeviceGetTotalEccErrors,
            handle,
            pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
            pynvml.NVML_VOLATILE_ECC,
        ),
        remap_pending=None if rows is None else bool(rows[2]),
        remap_failure=None if rows is None else bool(rows[3]),
        recovery_action=_recovery_action(handle),
        processes=None if processes is None else len(processes),
    )


def _recovery_action(handle: Any) -> int | None:
    values = told(pynvml.nvmlDeviceGetFieldValues, handle, [RECOVERY_ACTION_FIELD])
    if not values or values[0].nvmlReturn != pynvml.NVML_SUCCESS:
        return None
    return int(values[0].value.uiVal)


def told(call: Callable[..., Any], *arguments: Any) -> Any:
    """A GPU's answer, or None when the driver does not give it; raises pynvml.NVMLError when the GPU is lost."""
    try:
        return call(*arguments)
    except pynvml.NVMLError as error:
        if _is_lost(error):
            raise
        return None


def quietly(call: Callable[..., Any], *arguments: Any) -> Any:
    """The call's answer, or None when the driver does not give it."""
    try:
        return call(*arguments)
    except pynvml.NVMLError:
        return None


def _is_lost(error: pynvml.NVMLError) -> bool:
    return bool(error.value == pynvml.NVML_ERROR_GPU_IS_LOST)


def _text(value: Any) -> str | None:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
