"""Matrix products."""

from __future__ import annotations

import torch

from npu_graph.conformance.cases.case import FLOATS, NUMBERS, Case

__all__ = ["MATRICES"]

aten = torch.ops.aten

MATRICES = [
    Case("aten.mm.default", lambda t: aten.mm.default(t.x, aten.permute.default(t.turned, [1, 0]))),
    Case(
        "aten.mm.default",
        lambda t: [
            aten.mm.default(t.empty, t.cube2[0]),
            aten.mm.default(t.one, t.row[None]),
            aten.mm.default(t.gaps, t.cube2[0]),
        ],
        FLOATS,
        "edges",
    ),
    Case("aten.bmm.default", lambda t: aten.bmm.default(t.cube, t.cube2), NUMBERS[:3]),
    Case("aten.addmm.default", lambda t: aten.addmm.default(t.zero_dim, t.x, t.cube2[0])),
    Case(
        "aten.addmm.default",
        lambda t: aten.addmm.default(t.x[0, :1], t.x, t.cube2[0], beta=0.5, alpha=2),
        FLOATS,
        "scaled",
    ),
    Case("aten.addmm.default", lambda t: aten.addmm.default(t.x[0, :1], t.x, t.cube2[0], beta=0), FLOATS, "beta is 0"),
]
