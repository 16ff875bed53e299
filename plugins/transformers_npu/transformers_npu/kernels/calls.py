"""Which tensors the fused kernels take: plain tensors on one NPU, in one floating-point type, differentiated once."""

from __future__ import annotations

from typing import Any

__all__ = ["alike", "computed_in", "is_traced", "once"]


def is_traced() -> bool:
    """Return True while a graph is made: its calls go to the original, whose small operators the compiler fuses."""
    import torch

    return bool(torch.compiler.is_compiling() or torch.jit.is_tracing())


def alike(first: Any, *others: Any) -> bool:
    """Return True if all are plain tensors on one NPU, in the same one of float32, float16 and bfloat16.

    Args:
        first: of the call.
        others: of the call.
    """
    import torch

    if first.device.type != "npu" or is_traced():
        return False
    return first.dtype in (torch.float32, torch.float16, torch.bfloat16) and all(
        type(each) in (torch.Tensor, torch.nn.Parameter) and each.dtype == first.dtype and each.device == first.device
        for each in (first, *others)
    )


def computed_in(tensor: Any) -> Any:
    """Return the data type in which torch multiplies ``tensor``: autocast covers matmul and sdpa, and no fused kernel.

    Args:
        tensor: on an NPU, in float32, float16 or bfloat16.
    """
    import torch

    return torch.get_autocast_dtype("npu") if torch.is_autocast_enabled("npu") else tensor.dtype


def once(result: Any, patch: str) -> Any:
    """Return the result of a kernel, whose gradient cannot be differentiated again.

    torch_npu has no second derivatives of its fused kernels. Some of them raise an error that names no cause; those of
    npu_swiglu and npu_geglu are missing without an error.

    Args:
        result: of the kernel, changed in place.
        patch: the name of the patch that calls it.

    Raises:
        RuntimeError: in a backward pass with ``create_graph=True``.
    """
    if result.requires_grad:
        result.register_hook(_Once(patch))
    return result


class _Once:
    """A hook of a tensor that gets a gradient."""

    def __init__(self, patch: str) -> None:
        self._patch = patch

    def __call__(self, gradient: Any) -> None:
        import torch

        if torch.is_grad_enabled():  # in a backward pass: with create_graph=True only
            raise RuntimeError(
                f"create_graph=True: the kernel of the patch {self._patch} has no second derivative; run without the "
                f"patch: PATCHCORE_DISABLE={self._patch}"
            )
