"""Activations and gated activations."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from npu_emulator.torch_npu.ops.precision import accumulated
from npu_emulator.torch_npu.ops.registry import operator

__all__ = [
    "fast_gelu",
    "npu_fast_gelu",
    "npu_geglu",
    "npu_gelu",
    "npu_mish",
    "npu_rotary_mul",
    "npu_silu",
    "npu_silu_",
    "npu_swiglu",
]

#: The constant of the sigmoid approximation of GELU (Hendrycks and Gimpel, arXiv:1606.08415, section 2).
_GELU_SIGMOID_SCALE = 1.702


@operator("npu_fast_gelu(Tensor self) -> Tensor")
def npu_fast_gelu(self: Tensor) -> Tensor:
    """Return ``x * sigmoid(1.702 * x)``.

    Args:
        self: floating point, any shape.
    """
    x = accumulated(self)
    return (x * torch.sigmoid(_GELU_SIGMOID_SCALE * x)).to(self.dtype)


@operator("fast_gelu(Tensor self) -> Tensor")
def fast_gelu(self: Tensor) -> Tensor:
    """Return the same as :func:`npu_fast_gelu`, under its older name.

    Args:
        self: floating point, any shape.
    """
    return npu_fast_gelu(self)


@operator("npu_gelu(Tensor self, *, str approximate='none') -> Tensor")
def npu_gelu(self: Tensor, *, approximate: str = "none") -> Tensor:
    """Return GELU.

    Args:
        self: floating point, any shape.
        approximate: ``"none"`` or ``"tanh"``.
    """
    return functional.gelu(self, approximate=approximate)


@operator("npu_silu(Tensor self) -> Tensor")
def npu_silu(self: Tensor) -> Tensor:
    """Return ``x * sigmoid(x)``.

    Args:
        self: floating point, any shape.
    """
    return functional.silu(self)


@operator("npu_silu_(Tensor(a!) self) -> Tensor(a!)")
def npu_silu_(self: Tensor) -> Tensor:
    """Replace ``x`` with ``x * sigmoid(x)``, and return it.

    Args:
        self: floating point, any shape.
    """
    return functional.silu(self, inplace=True)


@operator("npu_mish(Tensor self) -> Tensor")
def npu_mish(self: Tensor) -> Tensor:
    """Return ``x * tanh(softplus(x))``.

    Args:
        self: floating point, any shape.
    """
    return functional.mish(self)


@operator("npu_swiglu(Tensor self, int dim=-1) -> Tensor")
def npu_swiglu(self: Tensor, dim: int = -1) -> Tensor:
    """Return SiLU of the first half times the second half (Shazeer, arXiv:2002.05202).

    Args:
        self: floating point, of even size in ``dim``.
        dim: the dimension that is halved.

    Raises:
        ValueError: the size is odd.
    """
    gate, value = _halves("npu_swiglu", self, dim)
    return (functional.silu(accumulated(gate)) * accumulated(value)).to(self.dtype)


@operator(
    "npu_geglu(Tensor self, int dim=-1, int approximate=1, bool activate_left=False) -> (Tensor, Tensor)",
    differentiable=(0,),
)
def npu_geglu(self: Tensor, dim: int = -1, approximate: int = 1, activate_left: bool = False) -> tuple[Tensor, Tensor]:
    """Return GELU of one half times the other half (Shazeer, arXiv:2002.05202).

    Args:
        self: floating point, of even size in ``dim``.
        dim: the dimension that is halved.
        approximate: 0 for GELU, 1 for its approximation with tanh.
        activate_left: whether GELU is taken of the first half; otherwise of the second.

    Returns:
        The product, and GELU of the activated half.

    Raises:
        ValueError: the size is odd.
    """
    left, right = _halves("npu_geglu", self, dim)
    activated, value = (left, right) if activate_left else (right, left)
    gelu = functional.gelu(accumulated(activated), approximate="tanh" if approximate == 1 else "none")
    return (gelu * accumulated(value)).to(self.dtype), gelu.to(self.dtype)


@operator("npu_rotary_mul(Tensor self, Tensor r1, Tensor r2, str rotary_mode='half') -> Tensor")
def npu_rotary_mul(self: Tensor, r1: Tensor, r2: Tensor, rotary_mode: str = "half") -> Tensor:
    """Apply rotary position embedding (Su et al., arXiv:2104.09864): ``r1 * x + r2 * rotated(x)``.

    Args:
        self: shape (..., d), d even.
        r1: cosines, of a shape that broadcasts to that of ``self``.
        r2: sines, likewise.
        rotary_mode: which elements turn together: ``"half"``, i and i + d / 2; ``"interleave"``, 2i and 2i + 1.

    Raises:
        ValueError: d is odd, or there is no such mode.
    """
    if rotary_mode == "half":
        first, second = _halves("npu_rotary_mul", self, -1)
        rotated = torch.cat((-second, first), dim=-1)
    elif rotary_mode == "interleave":
        pairs = self.unflatten(-1, (-1, 2))
        rotated = torch.stack((-pairs[..., 1], pairs[..., 0]), dim=-1).flatten(-2)
    else:
        raise ValueError(f"npu_rotary_mul: expected rotary_mode 'half' or 'interleave', found {rotary_mode!r}")
    turned = accumulated(r1) * accumulated(self) + accumulated(r2) * accumulated(rotated)
    return turned.to(self.dtype)


def _halves(name: str, tensor: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    if tensor.shape[dim] % 2:
        raise ValueError(f"{name}: expected an even size in dimension {dim}, found shape {tuple(tensor.shape)}")
    first, second = tensor.chunk(2, dim)
    return first, second
