"""Streams and events.

Emulated kernels run in the calling thread and have finished when they return. So all that streams and events promise
(what is before what) holds without waiting, and what they let one find out (a race where a wait is missing) cannot be
seen here. Events do measure time, on the host's clock.
"""

from __future__ import annotations

import itertools
import time
from typing import Any, NoReturn, Optional

import torch

from npu_emulator import private_torch
from npu_emulator.torch_npu.npu import _current_streams
from npu_emulator.torch_npu.npu._refusals import refuse
from npu_emulator.torch_npu.npu._utils import valid_device_index

__all__ = ["Event", "ExternalEvent", "ExternalStream", "Stream", "SyncLaunchStream"]

#: The name of an extension's device in c10.
PRIVATE_USE = int(private_torch.DeviceType.PrivateUse1)

#: 0 is the default stream of each device, and the compiled core numbers the streams of ``torch.Stream`` from 1.
_stream_ids = itertools.count(1 << 32)


class Stream(torch.Stream):
    """A queue of work on one device, in name: work is done at once, whatever stream it is given to.

    Args:
        device: the device; ``None`` is the current one.
        priority: recorded, see :attr:`priority`.
        stream_id: identifies an existing stream, together with ``device_index``, as torch's own functions pass it.
        device_index: see there.
        device_type: see there.
    """

    #: Lower numbers are served first on the hardware; here nothing waits to be served.
    priority: int

    def __new__(
        cls,
        device: Any = None,
        priority: int = 0,
        *,
        stream_id: Optional[int] = None,
        device_index: Optional[int] = None,
        device_type: int = PRIVATE_USE,
    ) -> Stream:
        index = valid_device_index(device) if device_index is None else device_index
        number = next(_stream_ids) if stream_id is None else stream_id
        self = super().__new__(cls, stream_id=number, device_index=index, device_type=device_type)
        self.priority = priority
        return self

    def wait_event(self, event: Event) -> None:
        """Let work given to this stream from now on wait for an event, which has happened already."""

    def wait_stream(self, stream: torch.Stream) -> None:
        """Let work given to this stream from now on wait for that of another, which is done already."""

    def record_event(self, event: Optional[Event] = None) -> Event:
        """Record an event, a new one if none is given, and return it."""
        recorded = Event() if event is None else event
        recorded.record(self)
        return recorded

    def query(self) -> bool:
        """Return whether all work given to this stream is done: it is."""
        return True

    def synchronize(self) -> None:
        """Wait for the work given to this stream, which is done already."""

    def set_data_preprocess_stream(self, is_data_preprocess_stream: bool = False) -> None:
        """Mark the stream as one that prepares data: hardware schedules it otherwise. Nothing is scheduled here."""

    @property
    def npu_stream(self) -> int:
        """Identifies the stream among those of its device. It is no pointer that CANN's runtime knows."""
        return self.stream_id

    @property
    def _as_parameter_(self) -> NoReturn:
        refuse("Passing a torch.npu.Stream to a C function", "there is no stream of CANN's runtime behind it")

    def __enter__(self) -> Stream:
        self._selected = _current_streams.StreamContext(self)
        self._selected.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._selected.__exit__(*exception)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, torch.Stream):
            return NotImplemented
        return (self.device, self.stream_id) == (other.device, other.stream_id)

    def __hash__(self) -> int:
        return hash((self.device, self.stream_id))

    def __repr__(self) -> str:
        return f"<torch_npu.npu.{type(self).__name__} device={self.device} npu_stream={self.npu_stream:#x}>"


class SyncLaunchStream(Stream):
    """A stream whose kernels are launched by the calling thread, which all emulated ones are."""


class ExternalStream(Stream):
    """A stream that another library made.

    Args:
        stream_ptr: identifies it.
        device: the device; ``None`` is the current one.
    """

    def __new__(cls, stream_ptr: int, device: Any = None, **_: Any) -> ExternalStream:
        return super().__new__(cls, stream_id=stream_ptr, device_index=valid_device_index(device))


class Event(torch.Event):
    """A mark in a stream, which is reached when it is recorded.

    Args:
        enable_timing: whether :meth:`elapsed_time` may be called.
        blocking: how the host waits on the hardware; it never waits here.
        interprocess: must be false.

    Raises:
        NotEmulated: an event for several processes is asked for.
    """

    enable_timing: bool
    _recorded_at: Optional[float]

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> Event:
        if interprocess:
            refuse("torch.npu.Event(interprocess=True)", "emulated devices of two processes are not connected")
        self = super().__new__(cls, "npu", enable_timing=enable_timing, blocking=blocking)
        self.enable_timing = enable_timing
        self._recorded_at = None
        return self

    def record(self, stream: Optional[torch.Stream] = None) -> None:
        """Record the event in a stream, the current one if none is given: note the time."""
        self._recorded_at = time.perf_counter()

    def wait(self, stream: Optional[torch.Stream] = None) -> None:
        """Let work given to a stream from now on wait for the event, which has happened already."""

    def query(self) -> bool:
        """Return whether all work before the event is done: it is."""
        return True

    def synchronize(self) -> None:
        """Wait for the event, which has happened already."""

    def elapsed_time(self, end_event: Event) -> float:
        """Return the milliseconds on the host's clock from this event to a later one.

        Raises:
            ValueError: one of the events was made without ``enable_timing``.
            RuntimeError: one of them was not recorded.
        """
        if not (self.enable_timing and end_event.enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        return (end_event._time_recorded() - self._time_recorded()) * 1e3

    def recorded_time(self) -> int:
        """Return when the event was recorded, in microseconds of the host's clock.

        Raises:
            ValueError: the event was made without ``enable_timing``.
            RuntimeError: it was not recorded.
        """
        if not self.enable_timing:
            raise ValueError("The event must be created with argument 'enable_timing=True'.")
        return int(self._time_recorded() * 1e6)

    def _time_recorded(self) -> float:
        if self._recorded_at is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return self._recorded_at

    @property
    def _as_parameter_(self) -> NoReturn:
        refuse("Passing a torch.npu.Event to a C function", "there is no event of CANN's runtime behind it")

    def __repr__(self) -> str:
        state = "uninitialized" if self._recorded_at is None else "recorded"
        return f"<torch_npu.npu.{type(self).__name__} {state}>"


class ExternalEvent(Event):
    """An event that orders streams and the host on the hardware, and measures no time."""

    def __new__(cls) -> ExternalEvent:
        return super().__new__(cls)

    def reset(self, stream: Optional[torch.Stream] = None) -> None:
        """Forget that the event was recorded."""
        self._recorded_at = None


_current_streams.make_stream = lambda number, index: Stream(stream_id=number, device_index=index)
