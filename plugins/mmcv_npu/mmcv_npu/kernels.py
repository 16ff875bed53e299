"""The shared part of patches that call kernels of mx_driving: which tensors a kernel takes, and in which precision."""

from __future__ import annotations

import importlib.util
import weakref
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import patchcore as pc

#: The Patchers that have applied a patch of these kernels while one of their plugins emulated the NPU.
_with_emulation: weakref.WeakSet[pc.Patcher] = weakref.WeakSet()
#: True if there are any. A number of its own, because torch.compile guards a global that :func:`takes` reads only if it
#: is a plain value: a graph would not follow a change of the set (torch 2.13).
_emulated = False


def note_emulation(patcher: pc.Patcher) -> None:
    """Note whether the NPU is emulated for the patches of ``patcher``, for :func:`takes`.

    A patch that several Patchers apply is written once: it takes tensors on the CPU if one of them has the emulation.

    Args:
        patcher: about to apply a patch that calls the kernels.
    """
    global _emulated
    if "npu" in patcher.plugins.emulated_devices():
        _with_emulation.add(patcher)
    else:
        _with_emulation.discard(patcher)
    _emulated = bool(_with_emulation)


def operators_are_built() -> Any:
    """Return ``True``, or a :class:`patchcore.Skip` where mmcv is installed without its compiled operators.

    mmcv is not imported.
    """
    spec = importlib.util.find_spec("mmcv")
    folders = spec.submodule_search_locations if spec is not None else None
    if not folders or any(next(Path(folder).glob("_ext*"), None) for folder in folders):
        return True
    return pc.Skip("mmcv is installed without its operators: there is no mmcv._ext")


def takes(tensor: Any) -> bool:
    """Return True for a tensor on the NPU, which the kernels are for. Any other stays with the original operator.

    Emulated kernels compute on every device. If a plugin emulates them and torch has no device ``npu``
    (``npu_emulator.install(device=False)``), they take every tensor, so that a patch can be tried on the CPU.

    Args:
        tensor: any tensor of the call; an operator has all of them on one device.
    """
    if tensor.device.type == "npu":
        return True
    import torch

    return _emulated and not hasattr(torch, "npu")


def takes_dtype(tensor: Any) -> bool:
    """Return whether a tensor may be cast to float32, which the kernels compute in, without losing digits."""
    import torch

    return tensor.dtype in (torch.float32, torch.float16, torch.bfloat16)


#: Set on the autograd context of a forward pass that a kernel did, whose backward pass is the kernel's too.
_MARK = "on_mx_driving"


def mark_forward(ctx: Any) -> None:
    """Note on an autograd context that a kernel does the forward pass."""
    setattr(ctx, _MARK, True)


def did_forward(ctx: Any, *grad_output: Any) -> bool:
    """Return whether a kernel did the forward pass: the condition for its backward pass."""
    return getattr(ctx, _MARK, False)


def without_autocast(tensor: Any) -> AbstractContextManager[Any]:
    """Return a context without autocast on the tensor's device, for a kernel that gets float32 and is to stay there."""
    import torch

    context: AbstractContextManager[Any] = torch.autocast(tensor.device.type, enabled=False)
    return context
