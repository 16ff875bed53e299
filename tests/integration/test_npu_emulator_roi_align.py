"""Pooling of rotated regions against mmcv's compiled CPU operator."""

from __future__ import annotations

import math
from types import ModuleType

import pytest

torch = pytest.importorskip("torch")
mmcv_ops = pytest.importorskip("mmcv.ops")

from kernel_results import assert_agree, output_and_gradients  # noqa: E402
from torch import Tensor  # noqa: E402

POOLED = (3, 4)


def inputs(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Two images of 9 x 11 pixels, and regions of which some reach outside."""
    random = torch.Generator().manual_seed(1)
    features = torch.randn(2, 5, 9, 11, generator=random, dtype=dtype)
    unit = torch.rand(12, 6, generator=random, dtype=dtype)
    scale = torch.tensor([2.0, 24.0, 20.0, 16.0, 12.0, 2 * math.pi], dtype=dtype)
    rois = unit * scale
    rois[:, 0] = rois[:, 0].floor()
    rois[:, 5] -= math.pi
    return features, rois


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("sampling_ratio", [0, 1, 2])
@pytest.mark.parametrize("aligned", [True, False], ids=["aligned", ""])
@pytest.mark.parametrize("clockwise", [True, False], ids=["clockwise", ""])
def test_roi_align_rotated_agrees_with_mmcv(
    mx_driving: ModuleType, dtype: torch.dtype, sampling_ratio: int, aligned: bool, clockwise: bool
) -> None:
    features, rois = inputs(dtype)
    expected = output_and_gradients(
        lambda x: mmcv_ops.roi_align_rotated(x, rois, POOLED, 0.5, sampling_ratio, aligned, clockwise), [features]
    )
    found = output_and_gradients(
        lambda x: mx_driving.roi_align_rotated(x, rois, 0.5, sampling_ratio, *POOLED, aligned, clockwise), [features]
    )
    assert_agree(found, expected)
    assert mx_driving.calls == {"roi_align_rotated": 1, "roi_align_rotated_backward": 1}


def test_regions_that_are_none(mx_driving: ModuleType) -> None:
    features, rois = inputs(torch.float32)
    assert mx_driving.roi_align_rotated(features, rois[:0], 0.5, 2, *POOLED).shape == (0, 5, 3, 4)
    rois[:, 3:5] = 0
    assert not mx_driving.roi_align_rotated(features, rois, 0.5, 0, *POOLED).any()
    with pytest.raises(ValueError, match=r"regions of shape \(n, 6\) and bins, found .*\(12, 5\) and 3 x 4"):
        mx_driving.roi_align_rotated(features, rois[:, :5], 0.5, 2, *POOLED)
    with pytest.raises(ValueError, match="and 0 x 4"):
        mx_driving.roi_align_rotated(features, rois, 0.5, 2, 0, 4)
