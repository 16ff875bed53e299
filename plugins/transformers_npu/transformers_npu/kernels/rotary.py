"""Rotary embeddings with ``torch_npu.npu_rotary_mul``: ``x * cos + rotated(x) * sin``.

Limits of the kernel (op-plugin, ``torch_npu-npu_rotary_mul.md``): 4 dimensions; an even size of a head below 896; batch
and heads below 1,000 each; cosines for each position, and for each sequence or for all. If the cosines need a gradient,
batch times heads is at most 1,024. Interleaved: batch times heads below 1,000, and one cosine for all sequences.

Each ``takes_...`` returns whether the kernel computes the same as the original; it gets the arguments of its function.
``dim`` is the dimension of the heads in ``q`` and ``k``: 1 or 2.
"""

from __future__ import annotations

from typing import Any

from transformers_npu.kernels.calls import alike, once

LARGEST_HEAD = 896
MOST = 1000
MOST_WITH_GRADIENT = 1024


def _rotated(x: Any, cos: Any, sin: Any, mode: str = "half") -> Any:
    import torch_npu

    return once(torch_npu.npu_rotary_mul(x, cos, sin, mode), "transformers.rotary")


def _fits(x: Any, cos: Any, sin: Any, dim: Any, *, width: int = 0, interleaved: bool = False) -> bool:
    """Return True if the kernel rotates ``x`` by cosines that get a dimension ``dim`` for the heads.

    Args:
        x: 4 dimensions.
        cos: 3 dimensions: batch or 1, positions, size.
        sin: as the cosines.
        dim: of the heads, 1 or 2.
        width: the size that is rotated; 0 for that of the cosines, which is that of ``x`` then.
        interleaved: true if pairs of neighbours are rotated.
    """
    if not alike(x, cos, sin) or x.dim() != 4 or cos.dim() != 3 or sin.shape != cos.shape or dim not in (1, 2):
        return False
    batch, heads, positions = x.shape[0], x.shape[dim], x.shape[3 - dim]
    size = width or cos.shape[-1]
    each = cos.shape[0]
    if (not width and size != x.shape[-1]) or size > x.shape[-1] or size % 2 or not 0 < size < LARGEST_HEAD:
        return False
    if cos.shape[1] != positions or each not in (1, batch) or batch >= MOST or heads >= MOST or x.numel() == 0:
        return False
    if interleaved and (each != 1 or batch * heads >= MOST):
        return False
    return not (cos.requires_grad or sin.requires_grad) or batch * heads <= MOST_WITH_GRADIENT


def half(q: Any, k: Any, cos: Any, sin: Any, dim: int) -> tuple[Any, Any]:
    """Rotate the halves of each head.

    Args:
        q: queries, 4 dimensions.
        k: keys.
        cos: (batch or 1, positions, size of a head).
        sin: of the same shape.
        dim: see the module.
    """
    cos, sin = cos.unsqueeze(dim), sin.unsqueeze(dim)
    return _rotated(q, cos, sin), _rotated(k, cos, sin)


def takes_half(q: Any, k: Any, cos: Any, sin: Any, dim: Any) -> bool:
    """Return True for a call that :func:`half` computes; the same arguments, as for the functions below."""
    return _fits(q, cos, sin, dim) and _fits(k, cos, sin, dim)


def half_of_one(x: Any, cos: Any, sin: Any, dim: int) -> Any:
    """Rotate the halves of each head of one tensor; arguments as for :func:`half`."""
    return _rotated(x, cos.unsqueeze(dim), sin.unsqueeze(dim))


takes_half_of_one = _fits


def half_in_float32(q: Any, k: Any, cos: Any, sin: Any, dim: int) -> tuple[Any, Any]:
    """Rotate the halves of each head in float32; arguments as for :func:`half`."""
    cos, sin = cos.float().unsqueeze(dim), sin.float().unsqueeze(dim)
    return _rotated(q.float(), cos, sin).to(q.dtype), _rotated(k.float(), cos, sin).to(k.dtype)


def takes_half_in_float32(q: Any, k: Any, cos: Any, sin: Any, dim: Any) -> bool:
    """Return True for a call that :func:`half_in_float32` computes."""
    cos, sin = _in_type_of(q, cos), _in_type_of(q, sin)
    return _fits(q, cos, sin, dim) and _fits(k, cos, sin, dim)


def _in_type_of(x: Any, other: Any) -> Any:
    """Return ``other`` as it counts for the checks where both become float32: in the type of ``x`` if it is float32."""
    import torch

    return other.to(x.dtype) if other.dtype == torch.float32 and other.device == x.device else other


def vision_in_float32(q: Any, k: Any, cos: Any, sin: Any) -> tuple[Any, Any]:
    """Rotate the halves of each head in float32.

    Args:
        q: (positions, heads, size) or (batch, positions, heads, size).
        k: of as many dimensions.
        cos: (positions, size) or (batch, positions, size).
        sin: of the same shape.
    """
    if q.dim() == 4:
        return half_in_float32(q, k, cos, sin, 2)
    one = half_in_float32(q.unsqueeze(0), k.unsqueeze(0), cos.unsqueeze(0), sin.unsqueeze(0), 2)
    return one[0].squeeze(0), one[1].squeeze(0)


def takes_vision_in_float32(q: Any, k: Any, cos: Any, sin: Any) -> bool:
    """Return True for a call that :func:`vision_in_float32` computes."""
    if q.dim() == 4:
        return takes_half_in_float32(q, k, cos, sin, 2)
    if not q.dim() == k.dim() == 3 or cos.dim() != 2 or sin.dim() != 2:
        return False
    return takes_half_in_float32(q.unsqueeze(0), k.unsqueeze(0), cos.unsqueeze(0), sin.unsqueeze(0), 2)


def half_partial(q: Any, k: Any, cos: Any, sin: Any, dim: int) -> tuple[Any, Any]:
    """Rotate the first numbers of each head, as many as the cosines have; arguments as for :func:`half`."""
    cos, sin = cos.unsqueeze(dim), sin.unsqueeze(dim)
    return _first_rotated(q, cos, sin), _first_rotated(k, cos, sin)


def _first_rotated(x: Any, cos: Any, sin: Any, mode: str = "half") -> Any:
    import torch

    size = cos.shape[-1]
    if size == x.shape[-1]:
        return _rotated(x, cos, sin, mode)
    return torch.cat([_rotated(x[..., :size].contiguous(), cos, sin, mode), x[..., size:]], dim=-1)


def takes_half_partial(q: Any, k: Any, cos: Any, sin: Any, dim: Any) -> bool:
    """Return True for a call that :func:`half_partial` computes."""
    return all(_fits(x, cos, sin, dim, width=cos.shape[-1]) for x in (q, k))


def halves_of_pairs(q: Any, k: Any, cos: Any, sin: Any, dim: int) -> tuple[Any, Any]:
    """Rotate pairs of neighbours, and return the first numbers of all pairs before the second ones.

    Args:
        q: as for :func:`half`.
        k: as for :func:`half`.
        cos: of which the first half counts.
        sin: likewise.
        dim: see the module.
    """
    cos, sin = _first_half_twice(cos).unsqueeze(dim), _first_half_twice(sin).unsqueeze(dim)
    return _rotated(_unpaired(q), cos, sin), _rotated(_unpaired(k), cos, sin)


def _first_half_twice(cos: Any) -> Any:
    import torch

    first = cos[..., : cos.shape[-1] // 2]
    return torch.cat((first, first), dim=-1)


def _unpaired(x: Any) -> Any:
    return x.unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)


takes_halves_of_pairs = takes_half


def halves_of_pairs_by_all(q: Any, k: Any, cos: Any, sin: Any, dim: int) -> tuple[Any, Any]:
    """Do the same with all cosines; arguments as for :func:`half`."""
    return half(_unpaired(q), _unpaired(k), cos, sin, dim)


takes_halves_of_pairs_by_all = takes_half


def pairs_in_float32(q: Any, k: Any, cos: Any, sin: Any, dim: int) -> tuple[Any, Any]:
    """Rotate pairs of neighbours in float32; arguments as for :func:`half`."""
    cos, sin = cos.float().unsqueeze(dim), sin.float().unsqueeze(dim)
    mode = "interleave"
    return _rotated(q.float(), cos, sin, mode).to(q.dtype), _rotated(k.float(), cos, sin, mode).to(q.dtype)


def takes_pairs_in_float32(q: Any, k: Any, cos: Any, sin: Any, dim: Any) -> bool:
    """Return True for a call that :func:`pairs_in_float32` computes."""
    cos, sin = _in_type_of(q, cos), _in_type_of(q, sin)
    return all(_fits(x, cos, sin, dim, interleaved=True) for x in (q, k))


def pairs_in_float32_by_first(q: Any, k: Any, cos: Any, sin: Any, dim: int) -> tuple[Any, Any]:
    """Rotate pairs of neighbours in float32 by the first half of the cosines, each of which counts for a pair."""
    return pairs_in_float32(q, k, _for_pairs(cos), _for_pairs(sin), dim)


def _for_pairs(cos: Any) -> Any:
    return cos[..., : cos.shape[-1] // 2].repeat_interleave(2, dim=-1)


takes_pairs_in_float32_by_first = takes_pairs_in_float32


def pairs_partial_by_first(q: Any, k: Any, cos: Any, sin: Any, dim: int) -> tuple[Any, Any]:
    """Rotate pairs among the first numbers of each head by the first half of the cosines; as for :func:`half`."""
    cos, sin = _for_pairs(cos).unsqueeze(dim), _for_pairs(sin).unsqueeze(dim)
    return _first_rotated(q, cos, sin, "interleave"), _first_rotated(k, cos, sin, "interleave")


def takes_pairs_partial_by_first(q: Any, k: Any, cos: Any, sin: Any, dim: Any) -> bool:
    """Return True for a call that :func:`pairs_partial_by_first` computes."""
    return all(_fits(x, cos, sin, dim, width=cos.shape[-1], interleaved=True) for x in (q, k))


def pairs_partial(q: Any, k: Any, cos: Any, sin: Any, dim: int) -> tuple[Any, Any]:
    """Rotate pairs among the first numbers of each head; arguments as for :func:`half`."""
    cos, sin = cos.unsqueeze(dim), sin.unsqueeze(dim)
    return _first_rotated(q, cos, sin, "interleave"), _first_rotated(k, cos, sin, "interleave")


takes_pairs_partial = takes_pairs_partial_by_first
