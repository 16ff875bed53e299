"""torch.distributed for programs that name NCCL, with HCCL in use.

A program gets the names that it has used: a process group that was made as ``nccl`` answers ``nccl`` to
``get_backend``, so that ``if dist.get_backend() == "nccl":`` goes where it goes on GPUs, and one made as ``hccl``
answers ``hccl``. torch itself, which chooses NCCL's own features by that answer, is told the truth.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any, Callable

import patchcore as pc
from torch_npu_patches.transfer_to_npu import audit
from torch_npu_patches.transfer_to_npu.audit import Place
from torch_npu_patches.transfer_to_npu.devices import nccl_backend, npu_backend
from torch_npu_patches.transfer_to_npu.wrappers import Argument, rewriting, under_the_name

__all__ = [
    "make_available_device_type",
    "make_get_backend",
    "make_init_process_group",
    "make_is_nccl_available",
    "make_new_group",
]

Make = Callable[[Any], Any]

#: The process groups that were asked for as NCCL.
_ASKED_AS_NCCL: weakref.WeakSet[Any] = weakref.WeakSet()

_BACKEND = Argument("backend", npu_backend)
_DEVICE_ID = Argument("device_id")


def make_init_process_group(group: str, target: pc.Target) -> Make:
    """``init_process_group``: NCCL is HCCL, and the default group remembers the name that the program passed."""

    def make(original: Any) -> Any:
        import torch.distributed as dist

        initialize = rewriting(original, (_BACKEND, _DEVICE_ID), group, target)

        def init_process_group(backend: Any = None, *args: Any, **kwargs: Any) -> None:
            initialize(backend, *args, **kwargs)
            if npu_backend(backend) is not None:
                _ASKED_AS_NCCL.add(dist.group.WORLD)

        return under_the_name(init_process_group, original, target)

    return make


def make_new_group(group: str, target: pc.Target) -> Make:
    """``new_group``: like :func:`make_init_process_group`; without a backend it is one like the default group."""

    def make(original: Any) -> Any:
        import torch.distributed as dist

        create = rewriting(original, (_BACKEND, _DEVICE_ID), group, target)

        def new_group(ranks: Any = None, timeout: Any = None, backend: Any = None, *args: Any, **kwargs: Any) -> Any:
            made = create(ranks, timeout, backend, *args, **kwargs)
            like_default = backend is None and dist.group.WORLD in _ASKED_AS_NCCL
            if isinstance(made, dist.ProcessGroup) and (like_default or npu_backend(backend) is not None):
                _ASKED_AS_NCCL.add(made)
            return made

        return under_the_name(new_group, original, target)

    return make


def make_get_backend(target: pc.Target) -> Make:
    """``get_backend``: the name that the program passed."""

    def make(original: Any) -> Any:
        import torch.distributed as dist

        def get_backend(group: Any = None) -> str:
            backend: str = original(group)
            asked = dist.group.WORLD if group is None else group
            if asked not in _ASKED_AS_NCCL or _is_of_torch(sys._getframe(1)):
                return backend
            return nccl_backend(backend) or backend

        return under_the_name(get_backend, original, target)

    return make


def make_is_nccl_available(group: str, target: pc.Target) -> Make:
    """``is_nccl_available``: whether HCCL is, for all but torch itself."""

    def make(original: Any) -> Any:
        import torch.distributed as dist

        note_call = audit.counter_of(Place(group, str(target), "")).note_call

        def is_nccl_available() -> bool:
            if _is_of_torch(sys._getframe(1)):
                return bool(original())
            answer = bool(dist.is_backend_available("hccl"))
            note_call(answer, answer)
            return answer

        return under_the_name(is_nccl_available, original, target)

    return make


def make_available_device_type(target: pc.Target) -> Make:
    """Where ``nn.DataParallel`` looks for its module (``torch/_utils.py``): in the place of CUDA on the NPU."""

    def make(original: Any) -> Any:
        def available_device_type() -> Any:
            device_type = original()
            return "npu" if device_type == "cuda" else device_type

        return under_the_name(available_device_type, original, target)

    return make


def _is_of_torch(frame: Any) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in ("torch", "torch_npu")
