"""Second derivatives, which torch_npu does not have for its fused kernels: an error here."""

from __future__ import annotations

from typing import Any

__all__ = ["once"]


def once(result: Any, patch: str, besides: str = "") -> Any:
    """Return the result of a kernel, whose gradient cannot be differentiated again.

    torch_npu has no second derivatives of its fused kernels. Some of them raise an error that names no cause; that of
    npu_geglu is missing without an error.

    Args:
        result: of the kernel, changed in place.
        patch: the name of the patch that calls it; those of all that may have called it, with commas.
        besides: the rest of the message, where the original calls a kernel, too.

    Raises:
        RuntimeError: in a backward pass with ``create_graph=True``.
    """
    import torch

    if result.requires_grad and not (torch.compiler.is_compiling() or torch.jit.is_tracing()):
        result.register_hook(_Once(patch, besides))
    return result


class _Once:
    """A hook of a tensor that gets a gradient."""

    def __init__(self, patch: str, besides: str) -> None:
        self._patch = patch
        self._besides = besides

    def __call__(self, gradient: Any) -> None:
        import torch

        if torch.is_grad_enabled():  # in a backward pass: with create_graph=True only
            raise RuntimeError(
                "create_graph=True: a kernel of diffusers-npu-patches has no second derivative; run without the patch: "
                f"PATCHCORE_DISABLE={self._patch}{self._besides}"
            )
