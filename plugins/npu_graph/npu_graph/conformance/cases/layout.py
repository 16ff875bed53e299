"""Views, concatenation, padding: elements that only move."""

from __future__ import annotations

import torch

from npu_graph.conformance.cases.case import EVERY, NUMBERS, Case

__all__ = ["LAYOUT"]

aten = torch.ops.aten

LAYOUT = [
    Case("aten.view.default", lambda t: aten.view.default(t.x, [t.x.shape[0] * t.x.shape[1]]), EVERY),
    Case("aten.view.default", lambda t: aten.view.default(t.cube, [-1, t.x.shape[1]]), EVERY, "-1"),
    Case("aten._unsafe_view.default", lambda t: aten.reshape.default(t.turned, [-1]), EVERY, "of a copy"),
    Case("aten._unsafe_view.default", lambda t: aten._unsafe_view.default(t.x, [-1]), EVERY),
    Case("aten.alias.default", lambda t: aten.alias.default(aten.neg.default(t.x)), NUMBERS),
    Case("aten.permute.default", lambda t: aten.permute.default(t.cube, [2, 0, 1]), EVERY),
    Case("aten.expand.default", lambda t: aten.expand.default(t.row, [3, -1]), EVERY),
    Case("aten.expand.default", lambda t: aten.expand.default(t.zero_dim, [2, t.x.shape[0]]), EVERY, "zero dimensions"),
    Case("aten.unsqueeze.default", lambda t: aten.unsqueeze.default(t.x, -1), EVERY),
    Case("aten.squeeze.default", lambda t: aten.squeeze.default(aten.unsqueeze.default(t.x, 1)), EVERY),
    Case("aten.squeeze.dim", lambda t: aten.squeeze.dim(aten.unsqueeze.default(t.x, 1), 1), EVERY),
    Case("aten.squeeze.dims", lambda t: aten.squeeze.dims(aten.unsqueeze.default(t.x, 1), [0, 1]), EVERY),
    Case("aten.slice.Tensor", lambda t: aten.slice.Tensor(t.x, 1, 1, -1, 2), EVERY),
    Case("aten.slice.Tensor", lambda t: aten.slice.Tensor(t.cube, -2, -3), EVERY, "from the end"),
    Case("aten.slice.Tensor", lambda t: aten.slice.Tensor(t.x, 0, 1, 1000), EVERY, "beyond the end"),
    Case("aten.select.int", lambda t: aten.select.int(t.cube, 1, -1), EVERY),
    Case("aten.select.int", lambda t: aten.select.int(t.row, 0, 1), EVERY, "an element"),
    Case("aten.slice_scatter.default", lambda t: aten.slice_scatter.default(t.x, t.y[1:3], 0, 1, 3), EVERY),
    Case("aten.select_scatter.default", lambda t: aten.select_scatter.default(t.x, t.row, 0, 1), EVERY),
    Case("aten.cat.default", lambda t: aten.cat.default([t.x, t.y, t.turned], 1), EVERY),
    Case("aten.cat.default", lambda t: aten.cat.default([t.x, t.wide], 0), NUMBERS, "two dtypes"),
    Case("aten.cat.default", lambda t: aten.cat.default([t.row[:0], t.x], -1), EVERY, "with an empty one"),
    Case("aten.cat.default", lambda t: aten.cat.default([t.gaps, t.empty, t.x], 0), EVERY, "edges"),
    Case("aten.flip.default", lambda t: aten.flip.default(t.cube, [0, 2]), EVERY),
    Case("aten.diagonal.default", lambda t: aten.diagonal.default(t.cube, 1, 1, 2), EVERY),
    Case("aten.constant_pad_nd.default", lambda t: aten.constant_pad_nd.default(t.cube, [1, 2, 0, 3], 1), EVERY),
]
