"""NumPy functions for generated source: arrays in, arrays out; images are ``[..., channels, height, width]``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Optional

import numpy as np

__all__ = [
    "Window",
    "adaptive_pool",
    "adaptive_pool_backward",
    "add_at",
    "along",
    "average_pool",
    "average_pool_backward",
    "bfloat16",
    "convolution",
    "convolution_backward",
    "count",
    "crop",
    "erf",
    "expand",
    "float16",
    "from_front",
    "max_pool",
    "nearest_backward",
    "put",
    "sigmoid",
    "sign",
    "transposed_convolution",
    "transposed_convolution_backward",
]

Array = Any
Pair = tuple[int, int]

_erf = np.frompyfunc(math.erf, 1, 1)


def erf(x: Array) -> Array:
    """Return the error function of each element."""
    return np.asarray(_erf(x)).astype(x.dtype)


def float16(x: Any) -> Any:
    """Return a float32 array, or those in a tuple, rounded to the values of float16."""
    if isinstance(x, tuple):
        return tuple(map(float16, x))
    return x if x is None or x.dtype != np.float32 else x.astype(np.float16).astype(np.float32)


def bfloat16(x: Any) -> Any:
    """Return a float32 array, or those in a tuple, rounded to the values of bfloat16, half to even."""
    if isinstance(x, tuple):
        return tuple(map(bfloat16, x))
    if x is None or x.dtype != np.float32:
        return x
    bits = np.asarray(x).view(np.uint32)
    nearest = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return np.where(np.isnan(x), x, (nearest & np.uint32(0xFFFF0000)).view(np.float32))


def sigmoid(x: Array) -> Array:
    """Return ``1 / (1 + exp(-x))``."""
    one = x.dtype.type(1)
    return one / (one + np.exp(-x))


def sign(x: Array) -> Array:
    """Return -1, 0 or 1, and 0 for NaN, as torch does."""
    return ((x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)) if x.dtype != np.bool_ else x


def count(start: float, end: float, step: float) -> int:
    """Return the number of steps from ``start`` to before ``end``."""
    return max(0, math.ceil((end - start) / step))


def expand(x: Array, size: Sequence[int]) -> Array:
    """Return a view of ``x`` in a larger shape; -1 is a size that stays."""
    kept = (1,) * (len(size) - x.ndim) + x.shape
    return np.broadcast_to(x, [own if wanted == -1 else wanted for own, wanted in zip(kept, size)])


def put(x: Array, place: Any, values: Array) -> Array:
    """Return a copy of ``x`` with values at a place."""
    result = np.array(x)
    result[place] = values
    return result


def add_at(x: Array, place: Any, values: Array) -> Array:
    """Return a copy of ``x`` with values added at a place, as often as it is named."""
    result = np.array(x)
    np.add.at(result, place, values)
    return result


def along(index: Array, dim: int) -> tuple[Array, ...]:
    """Return the place that has ``index`` in one dimension and the element's own position in the others."""
    place = list(np.ogrid[tuple(slice(size) for size in index.shape)])
    place[dim] = from_front(index)
    return tuple(place)


def from_front(index: Array) -> Array:
    """Return an index that does not count from the end.

    Raises:
        IndexError: a number in it is negative.
    """
    if (index < 0).any():
        raise IndexError(f"index {index.min()} is out of range")
    return index


def crop(x: Array, shape: Sequence[int]) -> Array:
    """Return the first elements of ``x`` in each dimension."""
    return x[tuple(slice(size) for size in shape)]


# --- convolution ------------------------------------------------------------------------------------------------------


class Window(NamedTuple):
    """How a kernel moves over an image, per dimension of the image."""

    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    groups: int


def convolution(x: Array, weight: Array, bias: Optional[Array], window: Window) -> Array:
    """Return the convolution.

    Args:
        x: ``[N, C, *image]``, or without ``N``.
        weight: ``[O, C / groups, *kernel]``.
        bias: ``[O]``.
        window: stride, padding, dilation, groups.
    """
    if x.ndim < weight.ndim:
        return convolution(x[None], weight, bias, window)[0]
    columns = _columns(x, weight.shape[2:], window)
    grouped = weight.reshape(window.groups, -1, *weight.shape[1:])
    places = columns.shape[1 + weight.ndim :]
    flat = columns.reshape(x.shape[0], window.groups, -1, math.prod(places))
    result = np.matmul(grouped.reshape(*grouped.shape[:2], -1), flat).reshape(x.shape[0], weight.shape[0], *places)
    return result if bias is None else result + bias.reshape(-1, *[1] * (weight.ndim - 2))


def convolution_backward(
    grad: Array, x: Array, weight: Array, window: Window, wanted: Sequence[bool]
) -> tuple[Optional[Array], Optional[Array], Optional[Array]]:
    """Return the gradients of image, weight and bias; ``None`` for those that are not wanted."""
    grad_x = _image_gradient(grad, weight, x.shape[2:], window) if wanted[0] else None
    grad_weight = _weight_gradient(grad, x, weight.shape, window) if wanted[1] else None
    return grad_x, grad_weight, _bias_gradient(grad) if wanted[2] else None


def transposed_convolution(
    x: Array, weight: Array, bias: Optional[Array], window: Window, output_padding: Sequence[int]
) -> Array:
    """Return the transposed convolution: the gradient of an image. ``weight``: ``[C, O / groups, *kernel]``."""
    if x.ndim < weight.ndim:
        return transposed_convolution(x[None], weight, bias, window, output_padding)[0]
    geometry = zip(x.shape[2:], weight.shape[2:], *window[:3], output_padding)
    image = [(size - 1) * s - 2 * p + d * (k - 1) + extra + 1 for size, k, s, p, d, extra in geometry]
    result = _image_gradient(x, weight, image, window)
    return result if bias is None else result + bias.reshape(-1, *[1] * (weight.ndim - 2))


def transposed_convolution_backward(
    grad: Array, x: Array, weight: Array, window: Window, wanted: Sequence[bool]
) -> tuple[Optional[Array], Optional[Array], Optional[Array]]:
    """Return the gradients of image, weight and bias; ``None`` for those that are not wanted."""
    grad_x = convolution(grad, weight, None, window) if wanted[0] else None
    if grad_x is not None:
        grad_x = grad_x[tuple(slice(size) for size in x.shape)]  # the rows of output_padding have no part in it
    grad_weight = _weight_gradient(x, grad, weight.shape, window) if wanted[1] else None
    return grad_x, grad_weight, _bias_gradient(grad) if wanted[2] else None


def _columns(x: Array, kernel: Sequence[int], window: Window) -> Array:
    """Return the windows of the kernel: ``[N, groups, C / groups, *kernel, *places]``."""
    rank = len(kernel)
    padded = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in window.padding)])
    extent = [(k - 1) * d + 1 for k, d in zip(kernel, window.dilation)]
    seen = np.lib.stride_tricks.sliding_window_view(padded, extent, axis=tuple(range(2, 2 + rank)))
    steps = [slice(None, None, s) for s in window.stride] + [slice(None, None, d) for d in window.dilation]
    seen = seen[(slice(None), slice(None), *steps)]
    seen = np.moveaxis(seen, range(2 + rank, 2 + 2 * rank), range(2, 2 + rank))
    return seen.reshape(x.shape[0], window.groups, -1, *seen.shape[2:])


def _image_gradient(grad: Array, weight: Array, image: Sequence[int], window: Window) -> Array:
    kernel, groups = weight.shape[2:], window.groups
    places = grad.shape[2:]
    by_group = grad.reshape(grad.shape[0], groups, -1, math.prod(places))
    transposed = np.swapaxes(weight.reshape(groups, weight.shape[0] // groups, -1), 1, 2)
    columns = np.matmul(transposed, by_group).reshape(grad.shape[0], -1, *kernel, *places)
    # the last places of the kernel may leave an edge of the padded image unseen
    extent = [size + 2 * p for size, p in zip(image, window.padding)]
    result = np.zeros((grad.shape[0], columns.shape[1], *extent), grad.dtype)
    for offset in np.ndindex(*kernel):
        geometry = zip(offset, window.stride, window.dilation, places)
        at = tuple(slice(o * d, o * d + (count - 1) * s + 1, s) for o, s, d, count in geometry)
        result[(slice(None), slice(None), *at)] += columns[(slice(None), slice(None), *offset)]
    inner = tuple(slice(p, p + size) for p, size in zip(window.padding, image))
    return result[(slice(None), slice(None), *inner)]


def _weight_gradient(grad: Array, x: Array, shape: Sequence[int], window: Window) -> Array:
    kernel, groups, places = shape[2:], window.groups, math.prod(grad.shape[2:])
    columns = _columns(x, kernel, window)
    columns = columns[(..., *(slice(size) for size in grad.shape[2:]))]
    by_group = grad.reshape(grad.shape[0], groups, -1, places)
    flat = columns.reshape(grad.shape[0], groups, -1, places)
    return np.matmul(by_group, np.swapaxes(flat, 2, 3)).sum(axis=0).reshape(shape)


def _bias_gradient(grad: Array) -> Array:
    return grad.sum(axis=(0, *range(2, grad.ndim)))


# --- pooling ----------------------------------------------------------------------------------------------------------


def max_pool(
    x: Array, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair, ceil_mode: bool
) -> tuple[Array, Array]:
    """Return the largest element of each window and its place in the image, counted row by row."""
    if x.ndim == 3:
        values, indices = max_pool(x[None], kernel, stride, padding, dilation, ceil_mode)
        return values[0], indices[0]
    height, width = x.shape[2:]
    geometry = list(zip((height, width), kernel, stride, padding, dilation))
    places = [_places(*each, ceil_mode) for each in geometry]
    more = [max(0, (n - 1) * s + (k - 1) * d + 1 - size - p) for n, (size, k, s, p, d) in zip(places, geometry)]
    edges = [(0, 0), (0, 0), *((p, after) for p, after in zip(padding, more))]
    padded = np.pad(x, edges, constant_values=-np.inf)
    extent = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
    seen = np.lib.stride_tricks.sliding_window_view(padded, extent, axis=(2, 3))
    seen = seen[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]][:, :, : places[0], : places[1]]
    flat = seen.reshape(*seen.shape[:4], -1)
    best = flat.argmax(axis=-1)
    broken = np.isnan(flat[..., ::-1])
    best = np.where(broken.any(axis=-1), flat.shape[-1] - 1 - broken.argmax(axis=-1), best)  # torch takes the last NaN
    values = np.take_along_axis(flat, best[..., None], -1)[..., 0]
    rows = np.arange(places[0])[:, None] * stride[0] - padding[0] + best // kernel[1] * dilation[0]
    columns = np.arange(places[1]) * stride[1] - padding[1] + best % kernel[1] * dilation[1]
    return values, rows * width + columns


def _places(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    """How many windows fit; under ``ceil_mode`` one more that begins inside the image."""
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    if not ceil_mode:
        return room // stride + 1
    count = -(-room // stride) + 1
    return count - 1 if (count - 1) * stride >= size + padding else count


def average_pool(
    x: Array, kernel: Pair, stride: Pair, padding: Pair, count_include_pad: bool, divisor: Optional[int]
) -> Array:
    """Return the mean of each window."""
    leading = ((0, 0),) * (x.ndim - 2)
    padded = np.pad(x, (*leading, *((p, p) for p in padding)))
    seen = np.lib.stride_tricks.sliding_window_view(padded, kernel, axis=(-2, -1))
    sums = seen[..., :: stride[0], :: stride[1], :, :].sum(axis=(-2, -1))
    counts = _counts(x.shape[-2:], sums.shape[-2:], kernel, stride, padding, count_include_pad, divisor)
    return sums / counts.astype(x.dtype)


def average_pool_backward(
    grad: Array,
    shape: Sequence[int],
    kernel: Pair,
    stride: Pair,
    padding: Pair,
    count_include_pad: bool,
    divisor: Optional[int],
) -> Array:
    """Return the gradient of the image."""
    counts = _counts(shape[-2:], grad.shape[-2:], kernel, stride, padding, count_include_pad, divisor)
    share = grad / counts.astype(grad.dtype)
    result = np.zeros((*shape[:-2], shape[-2] + 2 * padding[0], shape[-1] + 2 * padding[1]), grad.dtype)
    rows, columns = grad.shape[-2:]
    for i, j in np.ndindex(*kernel):
        result[..., i : i + rows * stride[0] : stride[0], j : j + columns * stride[1] : stride[1]][
            ..., :rows, :columns
        ] += share
    return result[..., padding[0] : padding[0] + shape[-2], padding[1] : padding[1] + shape[-1]]


def _counts(
    image: Sequence[int],
    places: Sequence[int],
    kernel: Pair,
    stride: Pair,
    padding: Pair,
    include: bool,
    divisor: Optional[int],
) -> Array:
    """How many elements each window divides by."""
    if divisor is not None:
        return np.full(places, divisor)
    per_dim = []
    for size, count, k, s, p in zip(image, places, kernel, stride, padding):
        start = np.arange(count) * s - p
        stop = np.minimum(start + k, size + p)
        per_dim.append(stop - start if include else np.minimum(stop, size) - np.maximum(start, 0))
    return per_dim[0][:, None] * per_dim[1]


def adaptive_pool(x: Array, size: Sequence[int]) -> Array:
    """Return the means of cells that cover the image."""
    result = np.empty((*x.shape[:-2], *size), x.dtype)
    for place, cell in _cells(x.shape[-2:], size):
        result[(..., *place)] = x[(..., *cell)].mean(axis=(-2, -1))
    return result


def adaptive_pool_backward(grad: Array, shape: Sequence[int]) -> Array:
    """Return the gradient of the image."""
    result = np.zeros(shape, grad.dtype)
    for place, cell in _cells(shape[-2:], grad.shape[-2:]):
        area = math.prod(each.stop - each.start for each in cell)
        result[(..., *cell)] += grad[(..., *place, None, None)] / grad.dtype.type(area)
    return result


def _cells(image: Sequence[int], size: Sequence[int]) -> Any:
    for place in np.ndindex(*size):
        yield place, tuple(slice(i * n // count, -(-(i + 1) * n // count)) for i, n, count in zip(place, image, size))


def nearest_backward(grad: Array, shape: Sequence[int], scales: Sequence[Optional[float]]) -> Array:
    """Return the gradient of an image that was enlarged by repeating the nearest element."""
    sources = []
    for size, count, scale in zip(shape[-2:], grad.shape[-2:], scales):
        ratio = np.float32(size / count if scale is None else 1 / scale)
        sources.append(np.minimum((np.arange(count, dtype=np.float32) * ratio).astype(np.int64), size - 1))
    result = np.zeros(shape, grad.dtype)
    np.add.at(result, (..., sources[0][:, None], sources[1]), grad)
    return result
