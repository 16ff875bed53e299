"""Dropout, whose mask is a tensor of bits, and operators that are fused with it."""

from __future__ import annotations

from typing import Union

import torch
from torch import Tensor

from npu_emulator.torch_npu.ops.precision import accumulated
from npu_emulator.torch_npu.ops.registry import operator

__all__ = [
    "npu_dropout",
    "npu_dropout_backward",
    "npu_dropout_do_mask",
    "npu_dropout_with_add_softmax",
    "pack_bits",
    "unpack_bits",
]

#: The device makes its masks in units of this many bits.
_MASK_ALIGNMENT = 128


def pack_bits(kept: Tensor) -> Tensor:
    """Return a mask as the device stores it: a bit per element, the least significant first, 1 to keep one.

    Args:
        kept: bool, any shape.

    Returns:
        uint8, one dimension; its length is a multiple of 16 bytes, and the bits beyond the last element are 0.
    """
    flat = kept.flatten()
    padding = -flat.numel() % _MASK_ALIGNMENT
    bits = torch.cat((flat, flat.new_zeros(padding))).view(-1, 8).to(torch.uint8)
    weights = 2 ** torch.arange(8, dtype=torch.uint8, device=kept.device)
    return (bits * weights).sum(dim=-1, dtype=torch.uint8)


def unpack_bits(mask: Tensor, like: Tensor) -> Tensor:
    """Return which elements a mask keeps.

    Args:
        mask: as :func:`pack_bits` returns it.
        like: a tensor of the wanted shape.

    Returns:
        bool, of the shape of ``like``.

    Raises:
        ValueError: the mask has fewer bits than ``like`` has elements.
    """
    if mask.numel() * 8 < like.numel():
        raise ValueError(f"expected a dropout mask of at least {-(-like.numel() // 8)} bytes, found {mask.numel()}")
    shifts = torch.arange(8, dtype=torch.uint8, device=mask.device)
    bits = (mask.flatten().unsqueeze(-1) >> shifts) & 1
    return bits.flatten()[: like.numel()].view(like.shape).bool()


@operator(
    "_npu_dropout(Tensor input, float p) -> (Tensor, Tensor)",
    differentiable=(0,),
    tags=[torch.Tag.nondeterministic_seeded],
)
def npu_dropout(input: Tensor, p: float) -> tuple[Tensor, Tensor]:
    """Set elements to 0 at random, and scale the others by ``1 / (1 - p)``.

    Args:
        input: floating point.
        p: probability of 0, in [0, 1].

    Returns:
        The result, and the mask as :func:`pack_bits` returns it.
    """
    mask = pack_bits(torch.rand(input.shape, device=input.device) >= p)
    return _scaled(input, mask, p), mask


@operator("npu_dropout_do_mask(Tensor input, Tensor mask, float p) -> (Tensor, Tensor)", differentiable=(0,))
def npu_dropout_do_mask(input: Tensor, mask: Tensor, p: float) -> tuple[Tensor, Tensor]:
    """Set to 0 the elements that a mask does not keep, and scale the others by ``1 / (1 - p)``.

    Args:
        input: floating point.
        mask: as :func:`pack_bits` returns it.
        p: probability of 0 that the mask was made with.

    Returns:
        The result, and the mask.
    """
    return _scaled(input, mask, p), mask.clone()


@operator("npu_dropout_backward(Tensor grad_output, Tensor mask, float p) -> Tensor", differentiable=False)
def npu_dropout_backward(grad_output: Tensor, mask: Tensor, p: float) -> Tensor:
    """Return the gradient of :func:`npu_dropout` with respect to its input.

    Args:
        grad_output: gradient with respect to its first output.
        mask: its second output.
        p: as given to it.
    """
    return _scaled(grad_output, mask, p)


@operator(
    "npu_dropout_with_add_softmax(Tensor input, Tensor x1, Scalar alpha, float prob, int dim)"
    " -> (Tensor, Tensor, Tensor)",
    differentiable=(2,),
    tags=[torch.Tag.nondeterministic_seeded],
)
def npu_dropout_with_add_softmax(
    input: Tensor, x1: Tensor, alpha: Union[int, float], prob: float, dim: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return dropout of the softmax of ``x1 + alpha * input``.

    Args:
        input: floating point.
        x1: of the same shape.
        alpha: weight of ``input``.
        prob: probability of 0 of the dropout. (The documentation's formula reads as if it were that of the opposite;
            its example, with 0.9 and nine in ten elements 0, does not.)
        dim: the dimension of the softmax.

    Returns:
        The mask as :func:`pack_bits` returns it, the softmax, and the result.
    """
    softmax = torch.softmax(accumulated(x1) + alpha * accumulated(input), dim).to(input.dtype)
    output, mask = npu_dropout(softmax, prob)
    return mask, softmax, output


def _scaled(tensor: Tensor, mask: Tensor, p: float) -> Tensor:
    # With p = 1 nothing is kept: the scale, infinite, is never used.
    scale = 1 / (1 - p) if p < 1 else 0.0
    return torch.where(unpack_bits(mask, tensor), tensor * scale, 0)
