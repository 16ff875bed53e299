"""Run the same computation on the CPU and on the emulated NPU, and compare."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Callable

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_map

import patchcore as pc

NPU = torch.device("npu", 0)


def applied(patch: pc.Patch) -> pc.Patcher:
    """Return a context in which the patch is applied."""
    return pc.Patcher([patch], enable=patch, strict=True)


def to_npu(tree: Any, device: torch.device | str = NPU) -> Any:
    """Return nested containers with every tensor copied to the NPU, leaves that want a gradient again as leaves."""

    def move(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return leaf.detach().clone().to(device).requires_grad_(leaf.requires_grad)
        return torch.device(device) if isinstance(leaf, torch.device) else leaf

    return tree_map(move, tree)


def assert_same(
    emulated: Any, expected: Any, *, rtol: float | None = None, atol: float | None = None, check_stride: bool = False
) -> None:
    """Assert that nested results are alike: structure, dtype, shape, layout and values.

    Args:
        emulated: what was computed on the NPU; every tensor of it has to be there.
        expected: what the CPU computed from the same values.
        rtol: relative tolerance, with ``atol``; default: exactly equal, NaN equal to NaN.
        atol: absolute tolerance.
        check_stride: strides have to be equal, too.
    """
    found, structure = tree_flatten(emulated)
    wanted, wanted_structure = tree_flatten(expected)
    assert structure == wanted_structure, f"expected {wanted_structure}, found {structure}"
    for one, other in zip(found, wanted):
        if not isinstance(other, torch.Tensor):
            assert one == other
            continue
        assert one.device.type == "npu", f"a result is on {one.device}"
        exact = rtol is None and atol is None
        tolerance = {"rtol": 0, "atol": 0} if exact else {"rtol": rtol or 0, "atol": atol or 0}
        torch.testing.assert_close(one.cpu(), other, equal_nan=True, check_layout=True, **tolerance)
        if check_stride and other.layout is torch.strided:
            assert one.stride() == other.stride()


def agree(function: Callable[..., Any], *arguments: Any, rtol: float | None = None, atol: float | None = None) -> None:
    """Assert that a function gives on the NPU what it gives on the CPU, and the gradients of its inputs as well.

    Args:
        function: computes a tensor or containers of tensors.
        arguments: for the CPU; copies of them go to the NPU. Those that require a gradient are differentiated.
        rtol: relative tolerance; default: exactly equal.
        atol: absolute tolerance.
    """
    theirs = to_npu(copy.copy(arguments))
    expected, emulated = function(*arguments), function(*theirs)
    assert_same(emulated, expected, rtol=rtol, atol=atol)
    wanted, found = leaves_to_differentiate(arguments), leaves_to_differentiate(theirs)
    if not wanted:
        return
    assert_same(gradients(emulated, found), gradients(expected, wanted), rtol=rtol, atol=atol)


def leaves_to_differentiate(tree: Any) -> list[torch.Tensor]:
    """Return the tensors in nested containers that require a gradient."""
    return [leaf for leaf in tree_flatten(tree)[0] if isinstance(leaf, torch.Tensor) and leaf.requires_grad]


def gradients(outputs: Any, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return the gradients of a fixed, uneven weighting of all outputs."""
    total = None
    for output in tree_flatten(outputs)[0]:
        if not isinstance(output, torch.Tensor) or not output.requires_grad:
            continue
        dense = output.to_dense() if output.layout is not torch.strided else output
        dense = dense.to(torch.complex64) if dense.dtype is torch.complex32 else dense  # the CPU has no sum of these
        weights = torch.linspace(0.5, 1.5, dense.numel()).reshape(dense.shape)
        share = (dense * weights.to(dense.device, dense.dtype)).sum().abs()
        total = share if total is None else total + share
    assert total is not None, "no output depends on the inputs"
    return list(torch.autograd.grad(total, inputs, materialize_grads=True))


def agree_on(ours: nn.Module, theirs: nn.Module, *inputs: Tensor) -> None:
    """Assert that equal modules, one on each device, agree forward and in the gradients of inputs and parameters."""
    copies = to_npu(inputs)
    expected, emulated = ours(*inputs), theirs(*copies)
    assert_same(emulated, expected, rtol=1e-5, atol=1e-5)
    weights = torch.linspace(-1, 1, expected.numel()).reshape(expected.shape)
    (expected * weights).sum().backward()
    (emulated * weights.npu()).sum().backward()
    wanted = [leaf.grad for leaf in (*inputs, *ours.parameters()) if leaf.requires_grad]
    found = [leaf.grad for leaf in (*copies, *theirs.parameters()) if leaf.requires_grad]
    assert_same(found, wanted, rtol=1e-5, atol=1e-5)
