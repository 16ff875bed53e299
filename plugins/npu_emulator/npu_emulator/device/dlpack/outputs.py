"""``out=`` arguments: kernels write through an alias, which cannot grow, so growing is done here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Callable

import torch
from torch import Tensor

from npu_emulator.device.dlpack.retagging import cpu_alias

#: Returns the alias of a CPU tensor on the device of an index.
Adopt = Callable[[Tensor, int], Tensor]

__all__ = ["asks_for_resize", "fill"]


def asks_for_resize(error: RuntimeError) -> bool:
    """Return whether a kernel failed because it wanted to give an alias more memory."""
    return "not resizable" in str(error)


def fill(
    names: tuple[str, ...],
    kwargs: dict[str, Any],
    cpu_kwargs: dict[str, Any],
    compute: Callable[[dict[str, Any]], None],
    adopt: Adopt,
) -> None:
    """Compute into ``out=`` arguments.

    Args:
        names: of those arguments.
        kwargs: all keyword arguments, on the NPU.
        cpu_kwargs: the same on the CPU, as aliases.
        compute: runs the operator with keyword arguments on the CPU.
        adopt: returns a CPU tensor's alias on a device.
    """
    empty = [name for name in names if _has_no_size(kwargs[name])]
    attempt = {**cpu_kwargs, **_fresh(cpu_kwargs, empty)} if empty else cpu_kwargs
    try:
        compute(attempt)
    except RuntimeError as error:
        if not asks_for_resize(error) or len(empty) == len(names):
            raise
        attempt = {**cpu_kwargs, **_fresh(cpu_kwargs, names)}
        compute(attempt)
    for name in names:
        out, written = kwargs[name], attempt[name]
        if isinstance(out, Tensor):
            _take_over(out, cpu_kwargs[name], written, adopt)
        else:
            for each in zip(out, cpu_kwargs[name], written):
                _take_over(*each, adopt)


def _take_over(target: Tensor, alias: Tensor, written: Tensor, adopt: Adopt) -> None:
    """Copy the result of a kernel to an output, unless the kernel wrote to the memory of the output."""
    if written is alias:
        if target.shape != alias.shape:
            # The kernel made it smaller, and has written where the output's memory is.
            target.resize_(alias.shape)
    elif target.untyped_storage().nbytes():
        if target.shape != written.shape:
            target.resize_(written.shape)
        cpu_alias(target).copy_(written)
    else:
        target.set_(adopt(written, target.get_device()))


def _has_no_size(out: Any) -> bool:
    return out.numel() == 0 if isinstance(out, Tensor) else any(tensor.numel() == 0 for tensor in out)


def _fresh(cpu_kwargs: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return outputs of no size and with memory of their own, which kernels may resize without a warning."""
    fresh: dict[str, Any] = {}
    for name in names:
        out = cpu_kwargs[name]
        new = [torch.empty(0, dtype=tensor.dtype, device="cpu") for tensor in _as_list(out)]
        fresh[name] = new[0] if isinstance(out, Tensor) else new
    return fresh


def _as_list(out: Any) -> list[Tensor]:
    return [out] if isinstance(out, Tensor) else list(out)
