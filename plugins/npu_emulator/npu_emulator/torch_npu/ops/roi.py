"""Features of regions of interest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Optional

import torch
from torch import Tensor

from npu_emulator.errors import NotEmulated
from npu_emulator.formulas.sampling import bilinear
from npu_emulator.torch_npu.ops.registry import operator

__all__ = ["npu_roi_align", "npu_roi_alignbk"]

#: Values of roi_end_mode, as torch_npu/contrib/module/roi_align.py uses them: as they are, and moved by half a pixel.
_PLAIN, _ALIGNED = 0, 3


class _Pooling(NamedTuple):
    """How regions become grids."""

    scale: float
    height: int
    width: int
    samples: int
    end_mode: int


@operator(
    "npu_roi_align(Tensor input, Tensor rois, float spatial_scale, int pooled_height, int pooled_width, int sample_num,"
    " int roi_end_mode) -> Tensor",
    differentiable=False,
)
def npu_roi_align(
    input: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sample_num: int,
    roi_end_mode: int,
) -> Tensor:
    """Return the mean of bilinear samples in every cell of a grid in every region (He et al., arXiv:1703.06870).

    Its gradient is an operator of its own, :func:`npu_roi_alignbk`.

    Args:
        input: shape (b, c, h, w).
        rois: shape (n, 5), (index in the batch, x1, y1, x2, y2).
        spatial_scale: pixels of the feature map per unit of ``rois``.
        pooled_height: rows of the grid.
        pooled_width: columns of the grid.
        sample_num: samples of a cell per direction; 0 for as many as it has pixels.
        roi_end_mode: 0, regions as they are, at least one pixel wide and high; 3, regions moved by half a pixel, of
            any size (``aligned=True`` of mmcv and torchvision).

    Returns:
        Shape (n, c, pooled_height, pooled_width).

    Raises:
        NotEmulated: another ``roi_end_mode``, which the documentation does not describe.
    """
    return _align(input, rois, _Pooling(spatial_scale, pooled_height, pooled_width, sample_num, roi_end_mode))


@operator(
    "npu_roi_alignbk(Tensor input, Tensor rois, int[] xdiff_shape, int pooled_width, int pooled_height,"
    " float spatial_scale, int sample_num, int? roi_end_mode=None) -> Tensor",
    differentiable=False,
)
def npu_roi_alignbk(
    input: Tensor,
    rois: Tensor,
    xdiff_shape: Sequence[int],
    pooled_width: int,
    pooled_height: int,
    spatial_scale: float,
    sample_num: int,
    roi_end_mode: Optional[int] = None,
) -> Tensor:
    """Return the gradient of :func:`npu_roi_align` with respect to its first argument.

    Args:
        input: gradient with respect to its result, shape (n, c, pooled_height, pooled_width).
        rois: as given to it.
        xdiff_shape: shape of its first argument.
        pooled_width: as given to it; note the order.
        pooled_height: as given to it.
        spatial_scale: as given to it.
        sample_num: as given to it.
        roi_end_mode: as given to it; ``None`` for 0.
    """
    end_mode = _PLAIN if roi_end_mode is None else roi_end_mode
    pooling = _Pooling(spatial_scale, pooled_height, pooled_width, sample_num, end_mode)
    with torch.enable_grad():
        # The result is linear in the features: their values do not matter to the gradient.
        features = input.new_zeros(tuple(xdiff_shape)).requires_grad_()
        pooled = _align(features, rois.detach(), pooling)
    if rois.shape[0] == 0:
        return torch.zeros_like(features)
    return torch.autograd.grad(pooled, features, input)[0]


def _align(features: Tensor, rois: Tensor, pooling: _Pooling) -> Tensor:
    if pooling.end_mode not in (_PLAIN, _ALIGNED):
        raise NotEmulated(f"npu_roi_align: roi_end_mode={pooling.end_mode} is not emulated; 0 and 3 are")
    cells = features.new_zeros(0, features.shape[1], pooling.height, pooling.width)
    return torch.cat([cells, *(_align_one(features, roi, pooling) for roi in rois.tolist())])


def _align_one(features: Tensor, roi: Sequence[float], pooling: _Pooling) -> Tensor:
    """Pool one region, (index in the batch, x1, y1, x2, y2), to the shape (1, c, pooled height, pooled width)."""
    shift = 0.5 if pooling.end_mode == _ALIGNED else 0.0
    left, top, right, bottom = (side * pooling.scale - shift for side in roi[1:])
    rows, row_samples = _positions(features, top, bottom, pooling.height, pooling)
    columns, column_samples = _positions(features, left, right, pooling.width, pooling)

    image = features[int(roi[0])].unsqueeze(0)
    height, width = features.shape[2:]
    # From -1 to the size a sample counts with the nearest pixel, beyond it is zero (mmcv 2.1.0, torchvision 0.15).
    inside_y, inside_x = ((at >= -1) & (at <= size) for at, size in ((rows, height), (columns, width)))
    y = rows.clamp(0, height - 1).view(-1, 1).expand(-1, columns.numel())
    x = columns.clamp(0, width - 1).view(1, -1).expand(rows.numel(), -1)
    sampled = bilinear(image, y.reshape(1, -1), x.reshape(1, -1))
    sampled = sampled * (inside_y.view(-1, 1) & inside_x.view(1, -1)).flatten()
    cells = sampled.view(1, -1, pooling.height, row_samples, pooling.width, column_samples)
    return cells.mean(dim=(3, 5))


def _positions(like: Tensor, start: float, end: float, cells: int, pooling: _Pooling) -> tuple[Tensor, int]:
    """Return where to sample along one axis, shape (cells * samples,), and the samples of a cell."""
    extent = end - start if pooling.end_mode == _ALIGNED else max(end - start, 1.0)
    samples = pooling.samples if pooling.samples > 0 else max(math.ceil(extent / cells), 1)
    steps = torch.arange(cells * samples, dtype=torch.float64, device=like.device)
    return (start + (steps + 0.5) * (extent / (cells * samples))).to(like.dtype), samples
