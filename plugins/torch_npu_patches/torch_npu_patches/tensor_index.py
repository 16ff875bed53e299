"""Boolean-mask indexing on NPU tensors through ``masked_select``.

``masked_select`` keeps the tensor for its backward pass, of which indexing keeps the shape alone. A program that writes
to a tensor after it has selected from it (PGD of mmdet3d does) would fail in the backward pass, so that is done here,
by the dimensions that indexing keeps.
"""

from __future__ import annotations

from typing import Any, Callable

import patchcore as pc


def make_getitem(original: Callable[[Any, Any], Any], device: str = "npu") -> Callable[[Any, Any], Any]:
    """Return a ``Tensor.__getitem__`` that selects with boolean masks of rank 1 by ``torch.masked_select``.

    It does so for tensors of rank 1, and of rank 2 with as many rows as the mask has elements, on ``device`` only.
    Every other index goes to ``original``, after one type comparison: ``x[0]`` comes through here on every call.

    Args:
        original: the method to fall back to.
        device: type of the device whose tensors are treated so.
    """
    import torch

    tensor_type, boolean, masked_select = torch.Tensor, torch.bool, torch.masked_select
    grad_enabled, keeping_the_shape = torch.is_grad_enabled, _make_selection().apply

    def __getitem__(self: Any, index: Any) -> Any:
        if (
            type(index) is tensor_type
            and index.dtype is boolean
            and self.device.type == device
            and index.device == self.device  # masked_select, unlike indexing, takes no mask from the CPU
            and index.dim() == 1
            and self.dim() in (1, 2)
            and self.shape[0] == index.shape[0]
        ):
            select = keeping_the_shape if self.requires_grad and grad_enabled() else masked_select
            if self.dim() == 1:
                return select(self, index)
            columns = self.shape[1]
            if columns:
                return select(self, index.unsqueeze(1)).view(-1, columns)
        return original(self, index)

    return __getitem__


def _make_selection() -> Any:
    """Return the autograd Function that does ``masked_select`` and keeps the shape of the tensor, not the tensor."""
    import torch

    class MaskedSelection(torch.autograd.Function):
        """The elements of a tensor where a mask, which may be broadcast, is true."""

        generate_vmap_rule = True

        @staticmethod
        def forward(tensor: Any, mask: Any) -> Any:
            return torch.masked_select(tensor, mask)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, Any], output: Any) -> None:
            tensor, mask = inputs
            ctx.shape = tensor.shape
            ctx.save_for_backward(mask)
            ctx.save_for_forward(mask)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> tuple[Any, None]:
            (mask,) = ctx.saved_tensors
            return grad.new_zeros(ctx.shape).masked_scatter(mask, grad), None

        @staticmethod
        def jvp(ctx: Any, tangent: Any, _: Any) -> Any:
            return torch.masked_select(tangent, ctx.saved_tensors[0])

    return MaskedSelection


TENSOR_INDEX = pc.Patch(
    "torch.tensor_index",
    [pc.Replace("torch:Tensor.__getitem__", factory=make_getitem)],
    summary="boolean masks of NPU tensors through masked_select",
    requires="torch>=2",
    needs="torch_npu",
    legacy_names=["index", "tensor_index", "TensorIndex"],
    checks=[
        pc.Check(f"torch_npu_patches.checks:{name}", dtypes=dict.fromkeys(("float32", "float16", "bfloat16"), 0.0))
        for name in ("masked_vector", "masked_rows")
    ],
)
