"""Activations and gated activations."""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor
from torch.nn import functional

from npu_emulator.errors import NotEmulated
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


@operator("npu_fast_gelu(Tensor input) -> Tensor")
def npu_fast_gelu(input: Tensor) -> Tensor:
    """Return ``x * sigmoid(1.702 * x)``.

    Args:
        input: floating point, any shape.
    """
    x = accumulated(input)
    return (x * torch.sigmoid(_GELU_SIGMOID_SCALE * x)).to(input.dtype)


@operator("fast_gelu(Tensor input) -> Tensor")
def fast_gelu(input: Tensor) -> Tensor:
    """Return the same as :func:`npu_fast_gelu`, under its older name.

    Args:
        input: floating point, any shape.
    """
    return npu_fast_gelu(input)


@operator("npu_gelu(Tensor input, *, str approximate='none') -> Tensor")
def npu_gelu(input: Tensor, *, approximate: str = "none") -> Tensor:
    """Return GELU.

    Args:
        input: floating point, any shape.
        approximate: ``"none"`` or ``"tanh"``.
    """
    return functional.gelu(input, approximate=approximate)


@operator("npu_silu(Tensor input) -> Tensor")
def npu_silu(input: Tensor) -> Tensor:
    """Return ``x * sigmoid(x)``.

    Args:
        input: floating point, any shape.
    """
    return functional.silu(input)


@operator("npu_silu_(Tensor(a!) input) -> Tensor(a!)")
def npu_silu_(input: Tensor) -> Tensor:
    """Replace ``x`` with ``x * sigmoid(x)``, and return it.

    Args:
        input: floating point, any shape.
    """
    return functional.silu(input, inplace=True)


@operator("npu_mish(Tensor input) -> Tensor")
def npu_mish(input: Tensor) -> Tensor:
    """Return ``x * tanh(softplus(x))``.

    Args:
        input: floating point, any shape.
    """
    return functional.mish(input)


@operator("npu_swiglu(Tensor input, int dim=-1) -> Tensor")
def npu_swiglu(input: Tensor, dim: int = -1) -> Tensor:
    """Return SiLU of the first half times the second half (Shazeer, arXiv:2002.05202).

    Args:
        input: floating point, of even size in ``dim``.
        dim: the dimension that is halved.

    Raises:
        ValueError: the size is odd.
    """
    gate, value = _halves("npu_swiglu", input, dim)
    return (functional.silu(accumulated(gate)) * accumulated(value)).to(input.dtype)


@operator(
    "npu_geglu(Tensor input, int dim=-1, int approximate=1, bool activate_left=False) -> (Tensor, Tensor)",
    differentiable=(0,),
)
def npu_geglu(input: Tensor, dim: int = -1, approximate: int = 1, activate_left: bool = False) -> tuple[Tensor, Tensor]:
    """Return GELU of one half times the other half (Shazeer, arXiv:2002.05202).

    Args:
        input: floating point, of even size in ``dim``.
        dim: the dimension that is halved.
        approximate: 0 for GELU, 1 for its approximation with tanh.
        activate_left: whether GELU is taken of the first half; otherwise of the second.

    Returns:
        The product, and GELU of the activated half.

    Raises:
        ValueError: the size is odd.
    """
    left, right = _halves("npu_geglu", input, dim)
    activated, value = (left, right) if activate_left else (right, left)
    gelu = functional.gelu(accumulated(activated), approximate="tanh" if approximate == 1 else "none")
    return (gelu * accumulated(value)).to(input.dtype), gelu.to(input.dtype)


@operator("npu_rotary_mul(Tensor input, Tensor r1, Tensor r2, str rotary_mode='half', Tensor? rotate=None) -> Tensor")
def npu_rotary_mul(
    input: Tensor, r1: Tensor, r2: Tensor, rotary_mode: str = "half", rotate: Optional[Tensor] = None
) -> Tensor:
    """Apply rotary position embedding (Su et al., arXiv:2104.09864): ``r1 * x + r2 * rotated(x)``.

    Args:
        input: shape (..., d), d even.
        r1: cosines, of a shape that broadcasts to that of ``input``.
        r2: sines, likewise.
        rotary_mode: which elements turn together: ``"half"``, i and i + d / 2; ``"interleave"``, 2i and 2i + 1.
        rotate: ``None``.

    Raises:
        NotEmulated: ``rotate`` is given.
        ValueError: d is odd, or there is no such mode.
    """
    if rotate is not None:
        raise NotEmulated("npu_rotary_mul: rotate is not emulated; pass rotary_mode alone")
    if rotary_mode == "half":
        first, second = _halves("npu_rotary_mul", input, -1)
        rotated = torch.cat((-second, first), dim=-1)
    elif rotary_mode == "interleave":
        pairs = input.unflatten(-1, (-1, 2))
        rotated = torch.stack((-pairs[..., 1], pairs[..., 0]), dim=-1).flatten(-2)
    else:
        raise ValueError(f"npu_rotary_mul: expected rotary_mode 'half' or 'interleave', found {rotary_mode!r}")
    turned = accumulated(r1) * accumulated(input) + accumulated(r2) * accumulated(rotated)
    return turned.to(input.dtype)


def _halves(name: str, tensor: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    if tensor.shape[dim] % 2:
        raise ValueError(f"{name}: expected an even size in dimension {dim}, found shape {tuple(tensor.shape)}")
    first, second = tensor.chunk(2, dim)
    return first, second
