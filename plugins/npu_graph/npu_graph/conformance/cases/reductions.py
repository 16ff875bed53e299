"""Reductions and scans."""

from __future__ import annotations

from typing import Any

import torch

from npu_graph.conformance.cases.case import EVERY, FLOATS, INTEGERS, NUMBERS, Case

__all__ = ["REDUCTIONS"]

aten = torch.ops.aten


def _of_edges(overload: Any) -> Case:
    return Case(
        str(overload), lambda t: [overload(each, [1], True) for each in (t.empty, t.one, t.gaps)], EVERY, "edges"
    )


REDUCTIONS = [
    Case("aten.sum.dim_IntList", lambda t: aten.sum.dim_IntList(t.x, [1]), EVERY),
    Case("aten.sum.dim_IntList", lambda t: aten.sum.dim_IntList(t.cube, [0, -1], True), EVERY, "keepdim"),
    Case("aten.sum.dim_IntList", lambda t: aten.sum.dim_IntList(t.x, []), EVERY, "empty list is all"),
    Case("aten.sum.dim_IntList", lambda t: aten.sum.dim_IntList(t.x, None), EVERY, "none is all"),
    Case("aten.sum.dim_IntList", lambda t: aten.sum.dim_IntList(t.zero_dim, [0]), EVERY, "zero dimensions"),
    Case("aten.sum.dim_IntList", lambda t: aten.sum.dim_IntList(t.x, [0], dtype=torch.float64), EVERY, "dtype"),
    Case(
        "aten.sum.dim_IntList",
        lambda t: [aten.sum.dim_IntList(each, [0]) for each in (t.empty, t.one, t.gaps)],
        EVERY,
        "edges",
    ),
    Case("aten.sum.default", lambda t: aten.sum.default(t.x), EVERY),
    Case("aten.mean.dim", lambda t: aten.mean.dim(t.cube, [1, 2], True)),
    Case("aten.mean.dim", lambda t: aten.mean.dim(t.x, None), FLOATS, "none is all"),
    Case("aten.mean.dim", lambda t: aten.mean.dim(t.x, [0], dtype=torch.float64), INTEGERS, "of integers"),
    Case("aten.mean.dim", lambda t: [aten.mean.dim(each, [1]) for each in (t.empty, t.one, t.gaps)], FLOATS, "edges"),
    Case("aten.mean.default", lambda t: aten.mean.default(t.x)),
    Case("aten.prod.default", lambda t: aten.prod.default(t.row), NUMBERS),
    Case("aten.prod.dim_int", lambda t: aten.prod.dim_int(t.x, 0, True), NUMBERS),
    Case("aten.amax.default", lambda t: aten.amax.default(t.x, [-1], True), EVERY),
    _of_edges(aten.amax.default),
    _of_edges(aten.amin.default),
    Case("aten.prod.dim_int", lambda t: [aten.prod.dim_int(each, 0) for each in (t.empty, t.gaps)], NUMBERS, "edges"),
    Case("aten.any.dim", lambda t: [aten.any.dim(each, 0) for each in (t.empty, t.one, t.gaps)], EVERY, "edges"),
    Case("aten.amax.default", lambda t: aten.amax.default(t.x, []), EVERY, "empty list is all"),
    Case("aten.amax.default", lambda t: aten.amax.default(aten.log.default(t.x), [0]), FLOATS, "with NaN"),
    Case("aten.amin.default", lambda t: aten.amin.default(t.cube, [0, 2]), EVERY),
    Case("aten.max.default", lambda t: aten.max.default(t.x), EVERY),
    Case("aten.min.default", lambda t: aten.min.default(t.x), EVERY),
    Case("aten.max.dim", lambda t: aten.max.dim(t.x, 1)),
    Case("aten.min.dim", lambda t: aten.min.dim(t.x, 0, True)),
    Case("aten.argmax.default", lambda t: aten.argmax.default(t.x, 1)),
    Case("aten.argmax.default", lambda t: aten.argmax.default(t.x), FLOATS, "of all"),
    Case("aten.argmin.default", lambda t: aten.argmin.default(t.x, 0, True)),
    Case("aten.any.default", lambda t: aten.any.default(t.x), EVERY),
    Case("aten.any.dim", lambda t: aten.any.dim(t.x, 0, True), EVERY),
    Case("aten.any.dims", lambda t: aten.any.dims(t.cube, [0, 2]), EVERY),
    Case("aten.cumsum.default", lambda t: aten.cumsum.default(t.x, 1), EVERY),
]
