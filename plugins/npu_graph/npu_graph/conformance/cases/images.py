"""Convolutions, pooling, resizing, and their gradients."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from npu_graph.conformance.cases.case import FLOATS, Case

__all__ = ["IMAGES"]

aten = torch.ops.aten


def _convolve(t: Any, **options: Any) -> Any:
    arguments = {
        "stride": [1, 1],
        "padding": [0, 0],
        "dilation": [1, 1],
        "transposed": False,
        "output_padding": [0, 0],
        "groups": 2,
        **options,
    }
    weight = t.back if arguments["transposed"] else t.weight
    bias = arguments.pop("bias", None)
    return aten.convolution.default(t.image, weight, bias, *arguments.values())


def _convolve_backward(t: Any, **options: Any) -> Any:
    mask = options.pop("mask", [True, True, True])
    result = _convolve(t, **options)
    weight = t.back if options.get("transposed") else t.weight
    grad = aten.cos.default(result)
    arguments = [options.get(key, [1, 1]) for key in ("stride", "padding", "dilation")]
    arguments[1] = options.get("padding", [0, 0])
    transposed, more = options.get("transposed", False), options.get("output_padding", [0, 0])
    results = aten.convolution_backward.default(
        grad, t.image, weight, [result.shape[1]], *arguments, transposed, more, options.get("groups", 2), mask
    )
    return [each for each in results if each is not None]


GEOMETRIES: dict[str, dict[str, Any]] = {
    "plain": {},
    "strided": {"stride": [2, 3], "padding": [1, 2]},
    "dilated": {"dilation": [2, 1], "padding": [1, 0], "stride": [1, 2]},
    "transposed": {"transposed": True, "groups": 1},
    "transposed, strided": {
        "transposed": True,
        "groups": 2,
        "stride": [2, 3],
        "padding": [1, 1],
        "output_padding": [1, 2],
    },
}
IMAGES = [
    *(Case("aten.convolution.default", partial(_convolve, **o), FLOATS, k) for k, o in GEOMETRIES.items()),
    Case("aten.convolution.default", lambda t: _convolve(t, bias=t.weight[:, 0, 0, 0].contiguous()), FLOATS, "bias"),
    *(
        Case("aten.convolution_backward.default", partial(_convolve_backward, **o), FLOATS, k)
        for k, o in GEOMETRIES.items()
    ),
    Case(
        "aten.convolution_backward.default",
        lambda t: _convolve_backward(t, mask=[False, True, False]),
        FLOATS,
        "gradient of the weight",
    ),
    Case(
        "aten.max_pool2d_with_indices.default",
        lambda t: aten.max_pool2d_with_indices.default(t.image, [3, 3], [2, 2], [1, 1]),
    ),
    Case(
        "aten.max_pool2d_with_indices.default",
        lambda t: aten.max_pool2d_with_indices.default(t.image, [3, 2], [3, 2], [1, 0], [1, 2], True),
        FLOATS,
        "ceil, dilated",
    ),
    Case("aten.avg_pool2d.default", lambda t: aten.avg_pool2d.default(t.image, [3, 2], [2, 2], [1, 1])),
    Case(
        "aten.avg_pool2d.default",
        lambda t: aten.avg_pool2d.default(t.image, [3], [2], [1], False, False),
        FLOATS,
        "inner",
    ),
    Case(
        "aten.avg_pool2d_backward.default",
        lambda t: aten.avg_pool2d_backward.default(
            aten.cos.default(aten.avg_pool2d.default(t.image, [3, 2], [2, 2], [1, 1], False, False)),
            t.image,
            [3, 2],
            [2, 2],
            [1, 1],
            False,
            False,
            None,
        ),
    ),
    Case("aten._adaptive_avg_pool2d.default", lambda t: aten._adaptive_avg_pool2d.default(t.image, [3, 4])),
    Case(
        "aten._adaptive_avg_pool2d_backward.default",
        lambda t: aten._adaptive_avg_pool2d_backward.default(
            aten.cos.default(aten._adaptive_avg_pool2d.default(t.image, [3, 4])), t.image
        ),
    ),
    Case(
        "aten.upsample_nearest2d_backward.default",
        lambda t: aten.upsample_nearest2d_backward.default(
            aten.cos.default(aten.upsample_nearest2d.default(t.image, [t.image.shape[2] * 2, t.image.shape[3] * 3])),
            [t.image.shape[2] * 2, t.image.shape[3] * 3],
            t.image.shape,
        ),
    ),
]
