"""Reading and writing at indices."""

from __future__ import annotations

import torch

from npu_graph.conformance.cases.case import EVERY, FLOATS, NUMBERS, Case

__all__ = ["INDEXING"]

aten = torch.ops.aten

INDEXING = [
    Case("aten.embedding.default", lambda t: aten.embedding.default(t.x, t.index, 1), FLOATS),
    Case("aten.index.Tensor", lambda t: aten.index.Tensor(t.x, [t.picks]), EVERY),
    Case("aten.index.Tensor", lambda t: aten.index.Tensor(t.cube, [None, t.picks]), EVERY, "second dimension"),
    Case("aten.index.Tensor", lambda t: aten.index.Tensor(t.image, [None, t.picks, None, t.picks]), EVERY, "apart"),
    Case("aten.index_put.default", lambda t: aten.index_put.default(t.x, [t.picks], t.row), EVERY),
    Case("aten.index_put.default", lambda t: aten.index_put.default(t.x, [t.picks], t.row, True), NUMBERS, "add"),
    Case("aten.gather.default", lambda t: aten.gather.default(t.x, 0, t.index), EVERY),
    Case("aten.gather.default", lambda t: aten.gather.default(t.x, 0, t.index[:, :2]), EVERY, "smaller"),
    Case("aten.scatter.src", lambda t: aten.scatter.src(t.x, 1, t.index[:, :1], t.y), EVERY),
    Case("aten.scatter.value", lambda t: aten.scatter.value(t.x, 0, t.index, 1), EVERY),
    Case("aten.scatter_add.default", lambda t: aten.scatter_add.default(t.x, 0, t.index, t.y), NUMBERS),
]
