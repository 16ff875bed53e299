"""Collectives between NPUs: the back ends ``hccl`` and ``lccl`` of ``torch.distributed``, which are gloo on aliases.

Every operator of ``c10d`` gets a kernel for NPU tensors. It exchanges the tensors for their aliases on the CPU and
calls the CPU's kernel, on a process group whose back end for the CPU is the one that the caller's has for NPUs. Results
arrive in the memory that the two share.
"""

from __future__ import annotations

import atexit
import functools
import itertools
import time
import warnings
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable

import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d
from torch import Tensor

from npu_emulator import private_torch
from npu_emulator.device import active
from npu_emulator.private_torch import DispatchKey, DispatchKeySet
from npu_emulator.private_torch import distributed_c10d as _distributed_c10d

__all__ = ["BACKENDS", "is_available", "register"]

#: Huawei's collective communication library, and its low-latency variant.
BACKENDS = ("hccl", "lccl")

_CPU = DispatchKeySet(DispatchKey.CPU)
#: The form of their tensors is the caller's choice with HCCL as with NCCL; only the number of elements has to fit. gloo
#: wants the output to consist of pieces of the input's form.
_FORMLESS = (
    "_allgather_base_",
    "_reduce_scatter_base_",
    "allgather_into_tensor_coalesced_",
    "reduce_scatter_tensor_coalesced_",
)

#: How long the process waits at exit for gloo to let go of collectives, in seconds. It takes microseconds, unless the
#: program still holds the ``Work`` of one.
_PATIENCE = 0.5
_IN_THREAD = "npu_emulator.device.hccl"

# torch drops kernels with the library that registered them.
_kept: list[torch.library.Library] = []


def is_available() -> bool:
    """Return whether processes can communicate over the emulated HCCL: ``torch.distributed.is_hccl_available``."""
    return dist.is_available() and dist.is_gloo_available()


def register() -> None:
    """Register the back ends and their operators with ``torch.distributed``. Once per process."""
    if not is_available():
        return
    for name in BACKENDS:
        dist.Backend.register_backend(name, _make_gloo, extended_api=True, devices=["npu"])
    dist.is_hccl_available = is_available
    _never_split_gloo()
    _keep_own_names()
    atexit.register(_backends.wait)
    library = torch.library.Library("c10d", "IMPL")
    _kept.append(library)
    groups = _GroupsOnCpu()
    with warnings.catch_warnings():
        # torch's own kernels for devices of other vendors hand NPU tensors to the back end; replacing them is the aim.
        warnings.filterwarnings("ignore", message="(?s).*Overriding a previously registered kernel")
        for operator in _collectives():
            library.impl(operator, _kernel(operator, groups), "PrivateUse1", allow_override=True)


def _collectives() -> list[private_torch.OpOverload]:
    has_kernel = private_torch.dispatch_has_kernel_for_dispatch_key
    names = [name for name in private_torch.dispatch_get_all_op_names() if name.startswith("c10d::")]
    names = [name for name in names if has_kernel(name, "CPU") and has_kernel(name, "PrivateUse1")]
    return [getattr(torch.ops.c10d, name.partition("::")[2]).default for name in sorted(names)]


def _make_gloo(options: Any, process_group_options: Any) -> dist.ProcessGroupGloo:
    """Make the back end of a process group; options of HCCL have no effect, because they tune hardware.

    Args:
        options: a ``torch._C._distributed_c10d._DistributedBackendOptions``.
        process_group_options: a ``ProcessGroupHCCL.Options`` or ``None``.
    """
    _backends.drop()
    return dist.ProcessGroupGloo(options.store, options.group_rank, options.group_size, options.timeout)


def _never_split_gloo() -> None:
    """Let torch make subgroups of a group that is bound to a device (``init_process_group(device_id=...)``) anew.

    It would split them off the group's communicator, as it asks gloo whether it can be split, and then call what only
    NCCL has (torch 2.13).
    """
    split_source = c10d._get_split_source

    @functools.wraps(split_source)
    def split_source_but_gloo(pg: dist.ProcessGroup) -> Any:
        bound = pg.bound_device_id
        return None if bound is not None and bound.type == "npu" else split_source(pg)

    c10d._get_split_source = split_source_but_gloo


def _keep_own_names() -> None:
    """Let the names of :class:`_Backends` outlive ``destroy_process_group()``, which makes torch forget every name."""
    forget_all = c10d._unregister_all_process_groups

    @functools.wraps(forget_all)
    def forget_all_but_own() -> None:
        living = {name: group for name in _backends.names() if (group := _find(name)) is not None}
        forget_all()
        for name, group in living.items():
            _distributed_c10d._register_process_group(name, group)

    c10d._unregister_all_process_groups = forget_all_but_own


def _find(name: str) -> dist.ProcessGroup | None:
    """Return the process group of a name, or ``None`` where nothing in the process holds it any more."""
    try:
        return _distributed_c10d._resolve_process_group(name)
    except RuntimeError:
        return None


class _Held:
    """Lives as long as gloo, or the program, holds a collective that began with it."""


class _Collectives:
    """Collectives of one process group that gloo may still hold."""

    def __init__(self) -> None:
        self._held: list[weakref.ref[_Held]] = []

    @contextmanager
    def begun(self) -> Iterator[None]:
        """Remember the collective that begins in the block."""
        held = _Held()
        self._held = [other for other in self._held if other() is not None]
        self._held.append(weakref.ref(held))
        private_torch.stash_obj_in_tls(_IN_THREAD, held)  # a work of gloo keeps the values of its thread
        try:
            yield
        finally:
            private_torch.remove_obj_from_tls(_IN_THREAD)

    def wait(self) -> None:
        """Return when gloo holds none of them, or after :data:`_PATIENCE`."""
        end = time.monotonic() + _PATIENCE
        while any(held() is not None for held in self._held) and time.monotonic() < end:
            time.sleep(0.0005)  # without Python's lock


class _Backends:
    """Keeps the back end of each process group until nothing else in the process holds that group.

    A thread of gloo drops each collective when it has ended, and needs Python's lock for the tensors and for the state
    of the thread that began it (torch 2.13: each backward pass leaves its ``contextvars.Context`` there). Whoever drops
    the last reference to a back end of gloo waits for that thread. torch holds Python's lock while it drops the
    reference of a ``DistributedDataParallel``, so the two would wait for each other forever. It does not hold the lock
    while it drops a reference of Python's, so that has to be the last one. HCCL has no such thread.

    torch's registry of process groups tells when a group is gone: it refers to them weakly.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._kept: dict[str, tuple[dist._Backend, _Collectives]] = {}

    def keep(self, group: dist.ProcessGroup, backend: dist._Backend, collectives: _Collectives) -> None:
        """Keep the back end of a group of the program, where these collectives begin."""
        name = f"{_IN_THREAD}.{next(self._numbers)}"
        _distributed_c10d._register_process_group(name, group)
        self._kept[name] = (backend, collectives)
        weakref.finalize(group, self.drop)

    def names(self) -> list[str]:
        """Return the names in torch's registry of the groups whose back ends are kept."""
        return list(self._kept)

    def drop(self) -> None:
        """Drop the back ends whose groups are gone."""
        for name in self.names():
            if _find(name) is None and self._kept.pop(name, None) is not None:
                _distributed_c10d._unregister_process_group(name)

    def wait(self) -> None:
        """Return when gloo holds no collective of any group: the process exits."""
        self.drop()
        for _, collectives in list(self._kept.values()):
            collectives.wait()


_backends = _Backends()


class _GroupOnCpu:
    """The process group that kernels of the CPU are called with, and the collectives that they have begun.

    Args:
        group: the program's.
    """

    def __init__(self, group: dist.ProcessGroup) -> None:
        self.group = dist.ProcessGroup(dist.HashStore(), group.rank(), group.size())
        backend = group._get_backend(torch.device("npu"))
        self.group._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, backend)
        self.collectives = _Collectives()
        _backends.keep(group, backend, self.collectives)


class _GroupsOnCpu:
    """Keeps a group for CPU tensors for each group of the program.

    They are held as long as the program holds its own: gloo has threads, which must not outlive
    ``destroy_process_group()``. One that lets go of a tensor while the interpreter exits aborts the process.
    """

    def __init__(self) -> None:
        self._groups: weakref.WeakKeyDictionary[dist.ProcessGroup, _GroupOnCpu] = weakref.WeakKeyDictionary()

    def of(self, boxed: torch.ScriptObject) -> _GroupOnCpu:
        """Return the group with the same back end, for tensors of the CPU."""
        group = dist.ProcessGroup.unbox(boxed)
        on_cpu = self._groups.get(group)
        if on_cpu is None:
            on_cpu = self._groups[group] = _GroupOnCpu(group)
        return on_cpu


def _kernel(operator: private_torch.OpOverload, groups: _GroupsOnCpu) -> Callable[..., Any]:
    schema = operator._schema
    group_position = [argument.name for argument in schema.arguments].index("process_group")
    formless = schema.name.partition("::")[2] in _FORMLESS
    returns_tensors = len(schema.returns) > 1

    def kernel(*args: Any) -> Any:
        on_cpu = [_exchange(argument, formless) for argument in args]
        group = groups.of(args[group_position])
        on_cpu[group_position] = group.group.boxed()
        with group.collectives.begun():
            result = operator.redispatch(_CPU, *on_cpu)
        # Where tensors are returned they are the first argument, and the work comes last.
        return (args[0], result[-1]) if returns_tensors else result

    return kernel


def _exchange(value: Any, formless: bool) -> Any:
    """Return the aliases of NPU tensors, in lists too, and anything else as it is."""
    if isinstance(value, (list, tuple)):
        return [_exchange(element, formless) for element in value]
    if not isinstance(value, Tensor):
        return value
    alias = active().alias_on_cpu(value) if value.device.type == "npu" else value
    if not formless:
        return alias
    if not alias.is_contiguous():
        raise ValueError("Tensors must be contiguous")
    return alias.view(-1)
