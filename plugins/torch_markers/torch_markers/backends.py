"""Backends that receive ranges: NVTX, MSTX, ITT, the profiler of torch, or a trace of our own.

A backend opens a range and returns a token, and closes it by that token.

Imported when markers are applied: needs torch.
"""

from __future__ import annotations

import importlib
import logging
from typing import Any, Callable, Optional, Protocol

import torch

from patchcore import PatchError
from patchcore.plugin import describe_error, find_module
from torch_markers import private_torch
from torch_markers.options import MarkerOptions
from torch_markers.recording import Recording

__all__ = ["Backend", "choose", "make_backend"]

logger = logging.getLogger("patchcore")


class Backend(Protocol):
    """Makes ranges."""

    #: Returns true if no tool records, so that ranges need not be made; ``None`` if that cannot be known.
    idle: Optional[Callable[[], bool]]

    def open(self, text: str) -> Any:
        """Begin a range of this thread; return the value for :meth:`close`."""

    def close(self, token: Any) -> None:
        """End a range of this thread, the one opened last."""

    def finish(self) -> None:
        """Write the events that are not written; no range is opened after that."""


def choose(name: str) -> str:
    """Return the name of a backend; for ``auto``, mstx with torch_npu and nvtx with CUDA."""
    if name != "auto":
        return name
    if find_module("torch_npu"):
        return "mstx"
    return "nvtx" if _has_gpu() else "record_function"


def _has_gpu() -> bool:
    """Return whether torch can use a GPU; ``torch.cuda.is_available()`` may speak of an NPU."""
    count: Optional[Callable[[], int]] = getattr(private_torch.C, "_cuda_getDeviceCount", None)
    return count is not None and count() > 0


def make_backend(options: MarkerOptions) -> Backend:
    """Return the backend that the options name.

    Raises:
        PatchError: it does not work here.
    """
    name = choose(options.backend)
    if name == "trace":
        return Recording(options.directory)
    return _MAKERS[name]()


class _PushPop:
    """A backend with a stack of its own for each thread."""

    idle: Optional[Callable[[], bool]] = None

    def __init__(self, push: Callable[[str], Any], pop: Callable[[], Any]) -> None:
        self.open = push
        self.close = lambda token: pop()

    def finish(self) -> None:
        pass


def _nvtx() -> Backend:
    from torch.cuda import nvtx

    # A CUDA build of torch makes ranges without a GPU, too, where no profiler of NVIDIA's can record them.
    if not _has_gpu():
        raise PatchError(
            "nvtx does not work here: torch finds no NVIDIA GPU. Choose another backend: record_function, trace"
        )
    try:
        nvtx.range_push("torch_markers")
        nvtx.range_pop()
    except RuntimeError as error:
        raise PatchError(f"nvtx does not work here: {error} Choose another backend: record_function, trace") from error
    return _PushPop(nvtx.range_push, nvtx.range_pop)


def _itt() -> Backend:
    from torch.profiler import itt

    if not itt.is_available():
        raise PatchError("this torch has no itt; choose another backend: record_function, trace")
    return _PushPop(itt.range_push, itt.range_pop)


class _RecordFunction:
    """The profiler of torch (``torch.profiler``, and ``torch_npu.profiler``, which records the same ranges).

    ``_RecordFunctionFast`` (torch 2.2 and later) costs a tenth of ``record_function``. Its ranges are the same but for
    their category, which is ``cpu_op`` instead of ``user_annotation`` in a chrome trace.
    """

    def __init__(self) -> None:
        from torch_markers.private_torch import autograd as _autograd
        from torch_markers.private_torch import profiler as _profiler

        self._range: Any = getattr(_profiler, "_RecordFunctionFast", None) or torch.profiler.record_function
        enabled = _autograd._profiler_enabled
        self.idle: Optional[Callable[[], bool]] = lambda: not enabled()

    def open(self, text: str) -> Any:
        opened = self._range(text)
        opened.__enter__()
        return opened

    def close(self, token: Any) -> None:
        token.__exit__(None, None, None)

    def finish(self) -> None:
        pass


class _Mstx:
    """``torch_npu.npu.mstx``: ``range_push`` and ``range_pop``, in older builds ``range_start`` and ``range_end``.

    torch_npu is imported by the program, after torch, so it is looked for when the first range is opened.
    """

    idle: Optional[Callable[[], bool]] = None

    def __init__(self) -> None:
        if not find_module("torch_npu"):
            raise PatchError(
                "mstx needs torch_npu, which is not installed (npu-emulator has one: --emulate-npu); "
                "choose another backend: record_function, trace"
            )
        self._open: Callable[[str], Any] = self._first
        self._close: Callable[[Any], Any] = _nothing

    def open(self, text: str) -> Any:
        return self._open(text)

    def close(self, token: Any) -> None:
        self._close(token)

    def _first(self, text: str) -> Any:
        try:
            mstx: Any = importlib.import_module("torch_npu").npu.mstx
            if hasattr(mstx, "range_push"):
                self._open, self._close = mstx.range_push, lambda token: mstx.range_pop()
            else:
                self._open, self._close = mstx.range_start, mstx.range_end
        except Exception as error:  # the training goes on without markers
            logger.warning("mstx does not work, there are no markers: %s", describe_error(error))
            self._open = _nothing
        return self._open(text)

    def finish(self) -> None:
        pass


def _nothing(_: Any) -> None:
    pass


_MAKERS: dict[str, Callable[[], Backend]] = {
    "nvtx": _nvtx,
    "mstx": _Mstx,
    "itt": _itt,
    "record_function": _RecordFunction,
}
