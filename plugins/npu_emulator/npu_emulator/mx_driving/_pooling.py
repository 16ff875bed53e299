"""Sums features in the cells of a bird's-eye view, for the three bev_pool kernels.

Papers: Liu et al., "BEVFusion" (arXiv:2205.13542); Huang et al., "BEVPoolv2" (arXiv:2211.17111).
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from npu_emulator import limits

# B * D * H * W * C, of all three kernels.
LARGEST_VIEW = 2**31


def pool(rows: Tensor, cell: Tensor, view: Sequence[int]) -> Tensor:
    """Add up rows in cells.

    Args:
        rows: shape (n, c).
        cell: where each row goes, ``((b * d_size + d) * h_size + h) * w_size + w``, integers of shape (n,).
        view: number of images, and size along depth, height and width.

    Returns:
        Shape (b, c, d, h, w), differentiable in rows.
    """
    batch, depth, height, width = view
    output = rows.new_zeros(batch * depth * height * width, rows.shape[1])
    output = output.index_add(0, cell.long(), rows)
    return output.view(batch, depth, height, width, -1).permute(0, 4, 1, 2, 3).contiguous()


def lift(depth: Tensor, feat: Tensor, ranks_depth: Tensor, ranks_feat: Tensor) -> Tensor:
    """Return pixel features, each times the probability of one of its depths.

    Args:
        depth: probabilities, flattened for ``ranks_depth``.
        feat: shape (..., c), flattened but for the last axis for ``ranks_feat``.
        ranks_depth: integers of shape (n,).
        ranks_feat: likewise.

    Returns:
        Shape (n, c).
    """
    pixels = feat.reshape(-1, feat.shape[-1])
    return pixels[ranks_feat.long()] * depth.reshape(-1)[ranks_depth.long()].unsqueeze(1)


def cell_of(coordinates: Tensor, view: Sequence[int]) -> Tensor:
    """Number the cell at (h, w, d, b), integers of shape (n, 4), as for :func:`pool`."""
    h, w, d, b = coordinates.long().unbind(dim=1)
    _, depth, height, width = view
    return ((b * depth + d) * height + h) * width + w


def check_coordinates(kernel: str, feat: Tensor, coordinates: Tensor, view: Sequence[int]) -> None:
    """Check the (h, w, d, b) of the rows of feat.

    Raises:
        ValueError: they have another shape than (n, 4), or are outside the view.
    """
    if feat.dim() != 2 or tuple(coordinates.shape) != (feat.shape[0], 4):
        raise ValueError(
            f"mx_driving.{kernel}: expected features of shape (n, c) and coordinates of shape (n, 4), found "
            f"{tuple(feat.shape)} and {tuple(coordinates.shape)}"
        )
    batch, depth, height, width = view
    end = coordinates.new_tensor((height, width, depth, batch))
    outside = ((coordinates < 0) | (coordinates >= end)).any(dim=1)
    if outside.any():
        raise ValueError(
            f"mx_driving.{kernel}: expected (h, w, d, b) below {tuple(end.tolist())}, found "
            f"{coordinates[outside][0].tolist()}"
        )


def require_view(kernel: str, view: Sequence[int], channels: int) -> None:
    """Raise a LimitError unless the device takes a view of this size."""
    batch, depth, height, width = view
    numel = batch * depth * height * width * channels
    limits.require(numel <= LARGEST_VIEW, kernel, "at most 2**31 elements in the view", numel)
