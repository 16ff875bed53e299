"""Whole models of diffusers compute the same with the patches, forward and gradients, and reach them."""

from __future__ import annotations

from typing import Any

import diffusers
import pytest
import torch
from diffusion_models import ARCHITECTURES, Architecture

import patchcore as pc
from diffusers_npu.plugin import PATCHES
from diffusers_npu.processors import FLUX_PROCESSOR

#: Of the largest absolute value that is expected in the same tensor; gradients of whole models in 16 bits are noisy.
TOLERANCES = {torch.float32: 1e-4, torch.float16: 6e-2, torch.bfloat16: 2e-1}


def moved(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, dict):
        return {name: moved(each, dtype) for name, each in value.items()}
    if not isinstance(value, torch.Tensor):
        return value
    return value.to("npu", dtype if value.is_floating_point() else value.dtype)


def outcome(architecture: Architecture, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """The result of the model, and the gradients of its parameters."""
    torch.manual_seed(0)
    model = getattr(diffusers, architecture.kind)(**architecture.config)
    for parameter in model.parameters():  # many start with zeros, which hide what comes before them
        torch.nn.init.normal_(parameter, 0.0, 0.2)
    inputs = moved(architecture.inputs(), dtype)
    model = model.to("npu", dtype).train()
    result = model(**inputs, return_dict=False)[0]
    weights = torch.randn(result.shape)
    (result.float() * weights.to("npu")).sum().backward()
    found = {"result": result}
    found.update((name, p.grad) for name, p in model.named_parameters() if p.grad is not None)
    return {name: tensor.detach().float().cpu() for name, tensor in found.items()}


def difference(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> tuple[float, str]:
    assert found.keys() == expected.keys()
    worst = max(tensor.abs().max().item() for name, tensor in expected.items() if name != "result")
    return max(
        (
            ((found[name] - tensor).abs().max() / max(tensor.abs().max().item(), 1e-3 * worst)).item(),
            name,
        )
        for name, tensor in expected.items()
    )


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda a: a.kind)
def test_computes_the_same_with_the_patches(architecture: Architecture, dtype: torch.dtype, by_formula: None) -> None:
    expected = outcome(architecture, dtype)
    with pc.Patcher(PATCHES, count=True) as patcher:
        found = outcome(architecture, dtype)
    records = [record for record in patcher.report().patches if record.name != FLUX_PROCESSOR.name]
    counts = {record.name: sum(taken(change) for change in record.changes) for record in records}
    assert {name: count for name, count in counts.items() if count} == architecture.hits
    worst, where = difference(found, expected)
    assert worst <= TOLERANCES[dtype], where


def taken(change: Any) -> int:
    return (change.calls if change.replaced is None else change.replaced) or 0
