"""A call of each operator that the reference vendor converts, for tests that compare it with eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

__all__ = ["CASES", "FLOATS", "INTEGERS", "Case", "Inputs"]

aten = torch.ops.aten
prims = torch.ops.prims
FLOATS = ("float32", "float64")
INTEGERS = ("int64", "int32", "uint8")
NUMBERS = (*FLOATS, *INTEGERS)
EVERY = (*NUMBERS, "bool")


class Inputs:
    """Tensors of one dtype, in sizes that may be symbolic: ``rows x columns`` matrices, images, indices."""

    def __init__(self, dtype: torch.dtype, rows: int, columns: int, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)

        def make(*shape: int) -> torch.Tensor:
            if dtype.is_floating_point:
                return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
            low, high = (0, 2) if dtype is torch.bool else (0 if dtype is torch.uint8 else -5, 6)
            return torch.randint(low, high, shape, generator=generator).to(dtype)

        self.tensors = {
            "x": make(rows, columns),
            "y": make(rows, columns),
            "row": make(columns),
            "zero_dim": make(),
            "turned": make(columns, rows).t(),
            "cube": make(2, rows, columns),
            "cube2": make(2, columns, 3),
            "image": make(2, 4, rows + 5, columns + 4),
            "weight": make(6, 2, 3, 3),
            "back": make(4, 3, 3, 2),
            "mask": make(rows, columns) > 0,
            "wide": make(rows, columns).to(torch.float64 if dtype.is_floating_point else torch.int64),
            "index": torch.randint(0, rows, (rows, columns), generator=generator),
            "picks": torch.randint(0, 4, (3,), generator=generator),
        }


class Case(NamedTuple):
    """One call.

    Args:
        operator: the overload that is to be converted.
        call: takes the tensors of :class:`Inputs` by name.
        dtypes: names of those it is tried on.
        label: tells cases of one operator apart.
    """

    operator: str
    call: Callable[[Any], Any]
    dtypes: tuple[str, ...] = FLOATS
    label: str = ""

    @property
    def name(self) -> str:
        return f"{self.operator}{f' {self.label}' if self.label else ''}"


def _unary(packet: Any, dtypes: tuple[str, ...] = FLOATS) -> Case:
    return Case(str(packet.default), lambda t: packet.default(t.x), dtypes)


def _binary(overload: Any, dtypes: tuple[str, ...] = FLOATS) -> list[Case]:
    return [
        Case(str(overload), lambda t: overload(t.x, t.y), dtypes),
        Case(str(overload), lambda t: overload(t.x, t.row), dtypes, "broadcast"),
        Case(str(overload), lambda t: overload(t.zero_dim, t.turned), dtypes, "zero dimensions, turned"),
    ]


UNARY = [
    *(
        _unary(getattr(aten, name))
        for name in ["acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "exp2", "expm1"]
    ),
    *(
        _unary(getattr(aten, name))
        for name in ["log", "log10", "log1p", "log2", "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh"]
    ),
    *(_unary(getattr(aten, name)) for name in ["reciprocal", "ceil", "floor", "round", "trunc", "isinf", "isnan"]),
    *(_unary(getattr(aten, name), NUMBERS) for name in ["abs", "neg", "relu", "sign"]),
    _unary(aten.bitwise_not, (*INTEGERS, "bool")),
    _unary(aten.logical_not, EVERY),
    Case("aten.exp.default", lambda t: aten.exp.default(t.x), INTEGERS, "of integers"),
    Case("aten.sigmoid.default", lambda t: aten.sigmoid.default(t.zero_dim), FLOATS, "zero dimensions"),
    Case("aten.isnan.default", lambda t: aten.isnan.default(aten.log.default(t.x)), FLOATS, "of NaN"),
    Case("aten.sign.default", lambda t: aten.sign.default(aten.log.default(t.x)), FLOATS, "of NaN"),
]

BINARY = [
    *(case for name in ("add", "mul", "sub") for case in _binary(getattr(aten, name).Tensor, NUMBERS)),
    *(case for name in ("maximum", "minimum") for case in _binary(getattr(aten, name).default, EVERY)),
    *(case for name in ["eq", "ne", "lt", "le", "gt", "ge"] for case in _binary(getattr(aten, name).Tensor, EVERY)),
    # what torch says of the strides of a transposed operand, and what its kernel gives, are not the same here (2.13)
    *(
        case
        for name in ("and", "or", "xor")
        for case in _binary(getattr(aten, f"logical_{name}").default, EVERY)
        if "turned" not in case.label
    ),
    *(
        case
        for name in ("and", "or", "xor")
        for case in _binary(getattr(aten, f"bitwise_{name}").Tensor, (*INTEGERS, "bool"))
    ),
    *_binary(aten.div.Tensor, FLOATS),
    Case("aten.div.Tensor", lambda t: aten.true_divide.Tensor(t.x, t.y), FLOATS, "by another name"),
    *_binary(aten.atan2.default),
    *_binary(aten.fmod.Tensor),
    *_binary(aten.remainder.Tensor),
    Case("aten.div.Tensor", lambda t: aten.div.Tensor(t.x, t.y), INTEGERS, "of integers"),
    Case("aten.div.Tensor_mode", lambda t: aten.div.Tensor_mode(t.x, t.y, rounding_mode="floor")),
    Case("aten.div.Tensor_mode", lambda t: aten.div.Tensor_mode(t.x, t.y, rounding_mode="trunc"), FLOATS, "trunc"),
    Case("aten.div.Tensor_mode", lambda t: aten.div.Tensor_mode(t.x, t.y, rounding_mode=None), FLOATS, "none"),
    Case("aten.div.Scalar_mode", lambda t: aten.div.Scalar_mode(t.x, 3, rounding_mode="floor"), NUMBERS),
    Case("aten.div.Scalar", lambda t: aten.div.Scalar(t.x, 3), NUMBERS),
    Case("aten.add.Tensor", lambda t: aten.add.Tensor(t.x, t.y, alpha=2), NUMBERS, "alpha"),
    Case("aten.sub.Tensor", lambda t: aten.sub.Tensor(t.x, t.y, alpha=2), NUMBERS, "alpha"),
    Case("aten.add.Tensor", lambda t: aten.add.Tensor(t.x, 2.5), NUMBERS, "integers and a float"),
    Case("aten.add.Tensor", lambda t: aten.add.Tensor(t.x, t.wide), NUMBERS, "two dtypes"),
    Case("aten.mul.Tensor", lambda t: aten.mul.Tensor(t.zero_dim, t.mask), NUMBERS, "with booleans"),
    Case("aten.mul.Tensor", lambda t: aten.mul.Tensor(t.wide.sum(), t.x), FLOATS, "wider, of no dimensions"),
    Case("aten.lt.Tensor", lambda t: aten.lt.Tensor(t.x, t.wide), NUMBERS, "two dtypes"),
    Case(
        "aten.eq.Scalar", lambda t: aten.eq.Scalar(aten.full.default([3], 0.1, dtype=t.x.dtype), 0.1), FLOATS, "inexact"
    ),
    *(
        Case(str(getattr(aten, name).Scalar), lambda t, name=name: getattr(aten, name).Scalar(t.x, 2), NUMBERS)
        for name in ["add", "sub", "mul", "eq", "ne", "lt", "le", "gt", "ge", "fmod", "remainder"]
    ),
    *(
        Case(
            f"aten.bitwise_{name}.Scalar",
            lambda t, name=name: getattr(aten, f"bitwise_{name}").Scalar(t.x, 3),
            INTEGERS,
        )
        for name in ("and", "or", "xor")
    ),
    Case("aten.mul.Tensor", lambda t: aten.mul.Tensor(t.x, t.x.shape[0]), NUMBERS, "by a size"),
    Case("aten.add.Tensor", lambda t: aten.add.Tensor(t.x, t.y, alpha=t.x.shape[1]), NUMBERS, "alpha is a size"),
    Case("aten.div.Tensor", lambda t: aten.div.Tensor(t.x, t.x.shape[1] ** 0.5), FLOATS, "by a root of a size"),
    Case("aten.pow.Tensor_Scalar", lambda t: aten.pow.Tensor_Scalar(t.x, 3)),
    Case("aten.pow.Tensor_Scalar", lambda t: aten.pow.Tensor_Scalar(t.x, 2), FLOATS, "square"),
    Case("aten.pow.Tensor_Scalar", lambda t: aten.pow.Tensor_Scalar(t.x, 0.5), NUMBERS[:4], "root"),
    Case("aten.pow.Tensor_Tensor", lambda t: aten.pow.Tensor_Tensor(t.x, t.y)),
    Case("aten.pow.Scalar", lambda t: aten.pow.Scalar(2.0, t.x), NUMBERS),
    Case("aten.clamp.default", lambda t: aten.clamp.default(t.x, 0, 2), NUMBERS),
    Case("aten.clamp.default", lambda t: aten.clamp.default(t.x, 1.5), FLOATS, "below"),
    Case("aten.clamp.default", lambda t: aten.clamp.default(t.x, 2, -2), FLOATS, "bounds crossed"),
    Case("aten.clamp.Tensor", lambda t: aten.clamp.Tensor(t.x, t.row, t.y), NUMBERS),
    Case("aten.where.self", lambda t: aten.where.self(t.mask, t.x, t.y), EVERY),
    Case("aten.where.self", lambda t: aten.where.self(t.mask, t.x, t.wide.sum()), NUMBERS, "two dtypes"),
]

MADE = [
    Case("aten._to_copy.default", lambda t: aten._to_copy.default(t.x, dtype=torch.int32), EVERY),
    Case("aten._to_copy.default", lambda t: aten._to_copy.default(t.x, dtype=torch.bool), EVERY, "bool"),
    Case("prims.convert_element_type.default", lambda t: prims.convert_element_type.default(t.x, torch.float32), EVERY),
    Case("aten.clone.default", lambda t: aten.clone.default(t.turned, memory_format=torch.contiguous_format), EVERY),
    Case("aten.copy.default", lambda t: aten.copy.default(t.x, t.row), EVERY),
    Case("aten.full.default", lambda t: aten.full.default([t.x.shape[0], 3], 2, dtype=t.x.dtype), EVERY),
    Case("aten.full.default", lambda t: aten.full.default([3], float("-inf"), dtype=t.x.dtype), FLOATS, "infinite"),
    Case("aten.full_like.default", lambda t: aten.full_like.default(t.x, 1), EVERY),
    Case("aten.scalar_tensor.default", lambda t: aten.scalar_tensor.default(1, dtype=t.x.dtype), EVERY),
    Case("aten.arange.start_step", lambda t: aten.arange.start_step(0, t.x.shape[0], 1), NUMBERS),
    Case("aten.arange.start_step", lambda t: aten.arange.start_step(1, 8, 3, dtype=t.x.dtype), NUMBERS, "steps"),
    Case(
        "prims.iota.default",
        lambda t: prims.iota.default(
            t.x.shape[0], start=2, step=3, dtype=torch.int64, device=torch.device("cpu"), requires_grad=False
        ),
        NUMBERS,
    ),
]

REDUCTIONS = [
    Case("aten.sum.dim_IntList", lambda t: aten.sum.dim_IntList(t.x, [1]), EVERY),
    Case("aten.sum.dim_IntList", lambda t: aten.sum.dim_IntList(t.cube, [0, -1], True), EVERY, "keepdim"),
    Case("aten.sum.dim_IntList", lambda t: aten.sum.dim_IntList(t.x, []), EVERY, "empty list is all"),
    Case("aten.sum.dim_IntList", lambda t: aten.sum.dim_IntList(t.x, None), EVERY, "none is all"),
    Case("aten.sum.dim_IntList", lambda t: aten.sum.dim_IntList(t.zero_dim, [0]), EVERY, "zero dimensions"),
    Case("aten.sum.dim_IntList", lambda t: aten.sum.dim_IntList(t.x, [0], dtype=torch.float64), EVERY, "dtype"),
    Case("aten.sum.default", lambda t: aten.sum.default(t.x), EVERY),
    Case("aten.mean.dim", lambda t: aten.mean.dim(t.cube, [1, 2], True)),
    Case("aten.mean.dim", lambda t: aten.mean.dim(t.x, None), FLOATS, "none is all"),
    Case("aten.mean.dim", lambda t: aten.mean.dim(t.x, [0], dtype=torch.float64), INTEGERS, "of integers"),
    Case("aten.mean.default", lambda t: aten.mean.default(t.x)),
    Case("aten.prod.default", lambda t: aten.prod.default(t.row), NUMBERS),
    Case("aten.prod.dim_int", lambda t: aten.prod.dim_int(t.x, 0, True), NUMBERS),
    Case("aten.amax.default", lambda t: aten.amax.default(t.x, [-1], True), EVERY),
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
    Case("aten.flip.default", lambda t: aten.flip.default(t.cube, [0, 2]), EVERY),
    Case("aten.diagonal.default", lambda t: aten.diagonal.default(t.cube, 1, 1, 2), EVERY),
    Case("aten.constant_pad_nd.default", lambda t: aten.constant_pad_nd.default(t.cube, [1, 2, 0, 3], 1), EVERY),
]

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

MATRICES = [
    Case("aten.mm.default", lambda t: aten.mm.default(t.x, aten.permute.default(t.turned, [1, 0]))),
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
    *(Case("aten.convolution.default", lambda t, o=o: _convolve(t, **o), FLOATS, k) for k, o in GEOMETRIES.items()),
    Case("aten.convolution.default", lambda t: _convolve(t, bias=t.weight[:, 0, 0, 0].contiguous()), FLOATS, "bias"),
    *(
        Case("aten.convolution_backward.default", lambda t, o=o: _convolve_backward(t, **o), FLOATS, k)
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

CASES = [*UNARY, *BINARY, *MADE, *REDUCTIONS, *LAYOUT, *INDEXING, *MATRICES, *IMAGES]
