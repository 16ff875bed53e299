"""Sees every operator that a process runs, by a ``TorchDispatchMode``, in the program's thread and those it starts.

A mode is called below autograd: it sees the operators for which kernels of the device are looked up, after operators
that are only compositions of others were taken apart (``CompositeImplicitAutograd``). With tensors of an NPU, those of
``CompositeExplicitAutograd`` are looked into as well: their kernels, which are the same for every device, run under the
mode, unless the table says that torch_npu has a kernel of its own.

Backward runs in the thread that asks for it, on the CPU and on the emulated NPU; autograd's own threads for a real
device have the modes of the thread that asks (torch 2.13, ``ATen/ThreadLocalState``). Forked processes, as the workers
of a ``DataLoader`` are by default, are not traced.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import sys
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional

import patchcore as pc
from npu_migrate.ops import phases
from npu_migrate.ops.records import OperatorRecord, ProcessTrace
from npu_migrate.ops.sites import Replaced, Site, Sites
from patchcore.plugin import write_whole

__all__ = ["REQUEST", "Request", "trace_process"]

logger = logging.getLogger("patchcore")

#: The file with the request for a trace, beside those that processes write.
REQUEST = "request.json"

#: How many of the newest forward calls are remembered for their backward pass.
_REMEMBERED = 200_000


class Request(NamedTuple):
    """The request for a trace: its tables and targets.

    Args:
        kernels: operators that torch_npu has kernels for: composites among them are not looked into.
        targets: of patches, by patch.
    """

    kernels: Collection[str] = ()
    targets: Mapping[str, Sequence[str]] = {}

    def write(self, folder: Path) -> None:
        """Leave it in ``folder`` for the processes that trace."""
        view = {"kernels": sorted(self.kernels), "targets": {name: list(t) for name, t in self.targets.items()}}
        write_whole(folder / REQUEST, json.dumps(view))

    @classmethod
    def read(cls, folder: Path) -> Request:
        """Return the request in ``folder``, an empty one where there is none."""
        try:
            view = json.loads(folder.joinpath(REQUEST).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return cls()
        return cls(frozenset(view["kernels"]), view["targets"])


class Tracer:
    """The records of this process.

    Args:
        request: the settings of the trace.
    """

    def __init__(self, request: Request) -> None:
        self.kernels = request.kernels
        self.records: dict[tuple[str, str], OperatorRecord] = {}
        self.emulated = 0  # calls that are no operators on a real NPU
        self.sites = Sites(Replaced(request.targets), Path.cwd())
        self.mode: Optional[Callable[[], Any]] = None
        self._lock = threading.Lock()
        self._forward: dict[int, Site] = {}
        self._torch: Any = None

    def start(self, torch: Any, options: Mapping[str, Any]) -> None:
        """Begin in this thread, and in every one that is started from now on; called when torch has been imported."""
        from npu_migrate.ops.mode import make_mode

        self._torch = torch
        self.mode = make_mode(self)
        self.mode().__enter__()

    def in_thread(self, original: Callable[[Any], None], thread: Any) -> None:
        """Wrapper of ``threading.Thread.run`` as a thread enters it: trace the thread.

        Args:
            original: of the class ``Thread``.
            thread: that begins.
        """
        if self.mode is None:
            original(thread)
        else:
            with self.mode():
                original(thread)

    def saw(
        self, operator: str, device: str, dtypes: Sequence[str], shapes: str, caller: Optional[str], raised: bool
    ) -> None:
        """Count a call that the calling frame's caller made."""
        node = self._torch._C._current_autograd_node()
        phase = phases.current() or (phases.FORWARD if node is None else phases.BACKWARD)
        frame = sys._getframe(2)
        with self._lock:
            site = self._site(frame, node)
            if site.emulated:
                self.emulated += 1
                return
            key = operator, device
            if key not in self.records:
                self.records[key] = OperatorRecord(operator, device)
            self.records[key].add(phase, dtypes, shapes, site.line, caller=caller, patches=site.patches, raised=raised)

    def _site(self, frame: Any, node: Any) -> Site:
        """Where a call was made; for autograd's own calls, where the forward call was whose gradient they compute.

        A node has the number that the next node is to get when the forward operator begins (``_get_sequence_nr``).
        """
        if node is None:
            site = self.sites.find(frame)
            if self._torch.is_grad_enabled():
                self._forward.setdefault(self._torch.autograd._get_sequence_nr() - 1, site)
                if len(self._forward) > _REMEMBERED:
                    del self._forward[next(iter(self._forward))]
            return site
        own = self.sites.find(frame, within_engine=True)
        if own.line is not None:
            return own  # a backward function of the program
        return self._forward.get(node._sequence_nr()) or self.sites.find(frame)

    def forget(self) -> None:
        """Drop the records: a forked process has a copy of those that its parent will write."""
        self.records.clear()
        self.emulated = 0

    def write(self, folder: Path) -> None:
        """Write the records into ``folder``."""
        version = None if self._torch is None else str(self._torch.__version__)
        trace = ProcessTrace(os.getpid(), tuple(sys.argv), version, tuple(self.records.values()), self.emulated)
        try:
            trace.write(folder)
        except OSError as error:
            logger.error("--trace-operators %s: the operators cannot be written: %s", folder, error)


def trace_process(folder: Path) -> None:
    """Trace this process from the import of torch on, and write its operators into ``folder`` at its end.

    Args:
        folder: made if need be; a :class:`Request` may be in it.
    """
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    tracer = Tracer(Request.read(folder))
    pc.Patcher(tuple(_patches(tracer))).apply()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=tracer.forget)
    atexit.register(tracer.write, folder)


def _patches(tracer: Tracer) -> Iterator[pc.Patch]:
    yield from phases.PATCHES
    # many programs override Thread.run; this method calls it (Python 3.9 to 3.13, threading.py)
    yield pc.Patch("operators.threads", [pc.Wrap("threading:Thread._bootstrap_inner", tracer.in_thread)])
    yield pc.Patch("operators.trace", [pc.Call(tracer.start, module="torch")])
