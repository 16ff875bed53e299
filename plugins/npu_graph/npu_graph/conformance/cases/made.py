"""Copies, casts and tensors made of nothing."""

from __future__ import annotations

import torch

from npu_graph.conformance.cases.case import EVERY, FLOATS, NUMBERS, Case

__all__ = ["MADE"]

aten = torch.ops.aten
prims = torch.ops.prims

MADE = [
    Case("aten._to_copy.default", lambda t: aten._to_copy.default(t.x, dtype=torch.int32), EVERY),
    Case("aten._to_copy.default", lambda t: aten._to_copy.default(t.x, dtype=torch.bool), EVERY, "bool"),
    Case("prims.convert_element_type.default", lambda t: prims.convert_element_type.default(t.x, torch.float32), EVERY),
    Case("aten.clone.default", lambda t: aten.clone.default(t.turned, memory_format=torch.contiguous_format), EVERY),
    Case("aten.copy.default", lambda t: aten.copy.default(t.x, t.row), EVERY),
    Case(
        "aten.full.default",
        lambda t: aten.full.default([t.x.shape[0], 3], 2, dtype=t.x.dtype, device=t.x.device),
        EVERY,
    ),
    Case(
        "aten.full.default",
        lambda t: aten.full.default([3], float("-inf"), dtype=t.x.dtype, device=t.x.device),
        FLOATS,
        "infinite",
    ),
    Case("aten.full_like.default", lambda t: aten.full_like.default(t.x, 1), EVERY),
    Case(
        "aten.scalar_tensor.default", lambda t: aten.scalar_tensor.default(1, dtype=t.x.dtype, device=t.x.device), EVERY
    ),
    Case("aten.arange.start_step", lambda t: aten.arange.start_step(0, t.x.shape[0], 1, device=t.x.device), NUMBERS),
    Case(
        "aten.arange.start_step",
        lambda t: aten.arange.start_step(1, 8, 3, dtype=t.x.dtype, device=t.x.device),
        NUMBERS,
        "steps",
    ),
    Case(
        "prims.iota.default",
        lambda t: prims.iota.default(
            t.x.shape[0], start=2, step=3, dtype=torch.int64, device=t.x.device, requires_grad=False
        ),
        NUMBERS,
    ),
]
