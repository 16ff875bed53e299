"""The current stream of every device, which each thread has for itself.

The compiled core's device guard keeps it, where torch's generic functions (``torch.accelerator.current_stream``) find
it too. The core in Python has no such guard and asks this module instead.
"""

from __future__ import annotations

import threading
from typing import Any, Callable, Optional

from torch import Stream

from npu_emulator import device as emulated
from npu_emulator import private_torch
from npu_emulator.torch_npu.npu import _initialization
from npu_emulator.torch_npu.npu._utils import valid_device_index

__all__ = ["StreamContext", "current_stream", "default_stream", "set_stream", "stream"]


class _Selection(threading.local):
    def __init__(self) -> None:
        self.by_device: dict[int, Stream] = {}


_selection = _Selection()


def default_stream(device: Any = None) -> Stream:
    """Return the stream that a device has without anybody making it."""
    _initialization._lazy_init()
    return _stream_with_id(0, valid_device_index(device))


def current_stream(device: Any = None) -> Stream:
    """Return the stream of a device that this thread has selected, else the default one."""
    _initialization._lazy_init()
    index = valid_device_index(device)
    selected = _selection.by_device.get(index)
    if _guard_keeps_streams():
        number = private_torch.accelerator_getStream(index).stream_id
        if selected is None or selected.stream_id != number:
            return _stream_with_id(number, index)
    return selected or default_stream(index)


def set_stream(stream: Optional[Stream]) -> None:
    """Select a stream in this thread, and its device; ``None`` changes nothing."""
    if stream is None:
        return
    _selection.by_device[stream.device_index] = stream
    emulated.active().set_device(stream.device_index)
    if _guard_keeps_streams():
        private_torch.accelerator_setStream(stream)


def _guard_keeps_streams() -> bool:
    return emulated.active().name == "native"


#: Called with the number of a stream and the index of its device; set by the module that has the class of streams.
make_stream: Optional[Callable[[int, int], Stream]] = None


def _stream_with_id(number: int, index: int) -> Stream:
    assert make_stream is not None
    return make_stream(number, index)


class StreamContext:
    """Context manager that selects a stream, and its device, within the block.

    Args:
        stream: the stream; ``None`` changes nothing.
    """

    def __init__(self, stream: Optional[Stream]) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is None:
            return
        self._device = emulated.active().current_device()
        self._previous = current_stream(self.stream.device_index)
        set_stream(self.stream)

    def __exit__(self, *exception: object) -> None:
        if self.stream is None:
            return
        set_stream(self._previous)
        emulated.active().set_device(self._device)


def stream(stream: Optional[Stream]) -> StreamContext:
    """Return a context manager that selects a stream, and its device, within the block."""
    return StreamContext(stream)
