"""``torch.Stream`` and ``torch.Event`` of NPUs.

torch's C++ asks the device guard for them, and a guard written in Python answers stream 0 of the first device and
knows no events. Methods that need no answer of the guard (comparing, querying and waiting, where nothing is ever
pending) are left to C++.
"""

from __future__ import annotations

import itertools
from contextlib import AbstractContextManager
from typing import Any, Optional

import torch

from npu_emulator import private_torch
from npu_emulator.device.dlpack.devices import Devices
from npu_emulator.device.dlpack.exchange import StandIn, exchange
from npu_emulator.errors import NotEmulated
from npu_emulator.private_torch import Event as _Event
from npu_emulator.private_torch import Stream as _Stream

__all__ = ["install", "npu_stream"]

_PRIVATE_USE = int(private_torch.DeviceType.PrivateUse1)
#: 0 is the default stream of each device.
_stream_ids = itertools.count(1)


def npu_stream(stream: torch.Stream) -> torch.Stream:
    """Return a stream as the ``torch.npu.Stream`` that it is."""
    npu: Any = torch.npu
    if isinstance(stream, npu.Stream):
        return stream
    return npu.Stream(stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type)


def install(devices: Devices) -> None:
    """Let ``torch.Stream`` and ``torch.Event`` make streams and events of NPUs too.

    Args:
        devices: the devices.
    """

    class Stream(_Stream, metaclass=StandIn):
        __doc__ = _Stream.__doc__
        __slots__ = ("_selections",)

        _selections: list[AbstractContextManager[None]]

        def __new__(cls, *args: Any, **kwargs: Any) -> torch.Stream:
            stream = _Stream(*args, **kwargs)
            if stream.device_type != _PRIVATE_USE:
                return stream if cls is Stream else super().__new__(cls, *args, **kwargs)
            number, index = stream.stream_id, stream.device_index
            if not _identifies_stream(args, kwargs):
                device = args[0] if args else kwargs.get("device")
                number, index = next(_stream_ids), devices.resolve(None if device is None else torch.device(device))
            self = super().__new__(cls, stream_id=number, device_index=index, device_type=_PRIVATE_USE)
            self._selections = []
            return self

        def record_event(self, event: Optional[torch.Event] = None) -> torch.Event:
            if self.device_type != _PRIVATE_USE:
                return super().record_event(event)
            recorded = Event(self.device) if event is None else event
            recorded.record(self)
            return recorded

        def __enter__(self) -> torch.Stream:
            if self.device_type != _PRIVATE_USE:
                return super().__enter__()
            selection = torch.npu.stream(npu_stream(self))
            selection.__enter__()
            self._selections.append(selection)
            return self

        def __exit__(self, *exception: Any) -> None:
            if self.device_type != _PRIVATE_USE:
                super().__exit__(*exception)
            else:
                self._selections.pop().__exit__(*exception)

    class Event(_Event, metaclass=StandIn):
        __doc__ = _Event.__doc__
        __slots__ = ()

        def __new__(cls, *args: Any, **kwargs: Any) -> torch.Event:
            if cls is Event:
                event = _Event(*args, **kwargs)
                if not _is_on_npu(event):
                    return event
            return super().__new__(cls, *args, **kwargs)

        def record(self, stream: Optional[torch.Stream] = None) -> None:
            if stream is None and _is_on_npu(self):
                stream = torch.npu.current_stream()
            super().record(stream)

        def synchronize(self) -> None:
            if not _is_on_npu(self):
                super().synchronize()

        def elapsed_time(self, other: torch.Event) -> float:
            if not _is_on_npu(self):
                return super().elapsed_time(other)
            raise NotEmulated(
                "npu_emulator: the Python core keeps no times in generic events, so torch.Event.elapsed_time is not "
                "emulated. Use torch.npu.Event(enable_timing=True), or the compiled core: python -m npu_emulator build."
            )

    # torch._dynamo makes those of compiled programs by their names in torch._C.
    exchange(Stream, torch, private_torch.C)
    exchange(Event, torch, private_torch.C)


def _identifies_stream(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether these are the arguments that name a stream there is: its number, device index and device type."""
    return len(args) + len(kwargs.keys() - {"priority"}) == 3


def _is_on_npu(event: torch.Event) -> bool:
    return event.device.type == "npu"
