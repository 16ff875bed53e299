"""Marks and ranges for the profiler.

They are recorded in this process (:data:`records`) and, while a profiler runs, appear in its trace by their names.
"""

from __future__ import annotations

import functools
import itertools
import threading
import time
import warnings
from collections import deque
from typing import Any, Callable, NamedTuple, Optional

import torch
from torch.autograd.profiler import record_function

from npu_emulator.torch_npu.npu.streams import Stream

__all__ = ["MARK", "RANGE", "Record", "mstx", "records"]

MARK = "mark"
RANGE = "range"
#: How many records are kept; older ones go.
KEPT = 10_000


class Record(NamedTuple):
    """One mark or finished range.

    Args:
        kind: :data:`MARK` or :data:`RANGE`.
        message: the argument of the call.
        domain: the argument of the call.
        started: seconds of :func:`time.perf_counter`.
        ended: likewise; the same for a mark.
    """

    kind: str
    message: str
    domain: str
    started: float
    ended: float


class _Open(NamedTuple):
    message: str
    domain: str
    started: float
    in_trace: Any


#: The last marks and finished ranges of this process, in the order in which they ended.
records: deque[Record] = deque(maxlen=KEPT)

_open: dict[int, _Open] = {}
_ids = itertools.count(1)
_lock = threading.Lock()


class mstx:
    """``torch.npu.mstx``: used as a namespace, never instantiated for its state."""

    @staticmethod
    def mark(message: str = "", stream: Optional[Stream] = None, domain: str = "default") -> None:
        """Record a mark.

        Args:
            message: its name.
            stream: where it stands on the hardware.
            domain: which group of marks it belongs to.
        """
        now = time.perf_counter()
        records.append(Record(MARK, message, domain, now, now))
        with record_function(f"mstx: {message}"):
            pass

    @staticmethod
    def range_start(message: str, stream: Optional[Stream] = None, domain: str = "default") -> int:
        """Begin a range.

        Args:
            message: its name; must not be empty.
            stream: where it stands on the hardware.
            domain: which group of ranges it belongs to.

        Returns:
            The id for :meth:`range_end`; 0, and a warning, when an argument is wrong (as torch_npu does it).
        """
        if not message or not isinstance(message, str):
            warnings.warn("mstx.range_start: expected a message that is not empty.", stacklevel=2)
            return 0
        if stream is not None and not isinstance(stream, torch.Stream):
            warnings.warn(f"mstx.range_start: expected a torch.npu.Stream, found {stream!r}.", stacklevel=2)
            return 0
        in_trace = torch.ops.profiler._record_function_enter_new(f"mstx: {message}", None)
        number = next(_ids)
        with _lock:
            _open[number] = _Open(message, domain, time.perf_counter(), in_trace)
        return number

    @staticmethod
    def range_end(range_id: int, domain: str = "default") -> None:
        """End a range; one that is not open changes nothing, with a warning.

        Args:
            range_id: the id that :meth:`range_start` returned.
            domain: the argument of the call.
        """
        with _lock:
            begun = _open.pop(range_id, None) if isinstance(range_id, int) else None
        if begun is None:
            warnings.warn(f"mstx.range_end: expected what mstx.range_start returned, found {range_id!r}.", stacklevel=2)
            return
        torch.ops.profiler._record_function_exit._RecordFunction(begun.in_trace)
        records.append(Record(RANGE, begun.message, begun.domain, begun.started, time.perf_counter()))

    @staticmethod
    def mstx_range(
        message: str, stream: Optional[Stream] = None, domain: str = "default"
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Return a decorator that puts every call of a function in a range. As in torch_npu, it is no context manager.

        Args:
            message: see :meth:`range_start`.
            stream: see there.
            domain: see there.
        """

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(function)
            def in_range(*args: Any, **kwargs: Any) -> Any:
                range_id = mstx.range_start(message, stream, domain)
                try:
                    return function(*args, **kwargs)
                finally:
                    mstx.range_end(range_id, domain)

            return in_range

        return decorate
