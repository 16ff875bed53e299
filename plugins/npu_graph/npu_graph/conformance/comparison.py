"""Compares the results of a backend with those of eager."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Optional

import torch

from npu_graph.pipeline.checking import deviation

__all__ = ["MODEL_TOLERANCES", "TOLERANCES", "Tolerances", "compare", "describe"]

#: By name of a dtype: relative to each element, and relative to the largest magnitude of the tensor.
Tolerances = Mapping[str, tuple[float, float]]

#: The tolerances where ``graph_tolerances`` sets no others. Integers and booleans are equal.
TOLERANCES: Tolerances = {
    "float64": (1e-10, 1e-10),
    "float32": (2e-5, 1e-5),
    "float16": (1e-2, 2e-3),
    "bfloat16": (5e-2, 2e-2),
}

#: By name of a dtype: the allowed difference relative to the largest magnitude of a result, gradient or buffer of a
#: model, where ``graph_model_tolerance`` says nothing else.
MODEL_TOLERANCES = {"float64": 1e-9, "float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}


def compare(got: torch.Tensor, wanted: torch.Tensor, tolerances: Tolerances) -> Optional[str]:
    """Return the difference and the allowed one as a text, ``None`` if the tensors agree.

    Strides have to be the same as far as they mean something: not those of dimensions of size one, nor of tensors
    without elements.
    """
    if got.shape == wanted.shape and got.dtype is wanted.dtype and _lie_alike(got, wanted):
        got = wanted.clone() if not got.numel() else got.as_strided(got.shape, wanted.stride())
    found = deviation(got, wanted, tolerances)
    if found is None or not wanted.is_floating_point():
        return found
    relative, of_largest = tolerances.get(str(wanted.dtype).partition(".")[2], (0.0, 0.0))
    return f"{found}; allowed: {relative:g} of each, {of_largest:g} of the largest"


def _lie_alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    steps = zip(one.shape, one.stride(), other.stride())
    return not one.numel() or all(size == 1 or step == wanted for size, step, wanted in steps)


def describe(tensor: torch.Tensor) -> str:
    """Return dtype and shape, and strides where they are not those of a tensor row by row."""
    strides = "" if tensor.is_contiguous() else f" strides {tuple(tensor.stride())}"
    return f"{str(tensor.dtype).partition('.')[2]} {tuple(tensor.shape)}{strides}"
