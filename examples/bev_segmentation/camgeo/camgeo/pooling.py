"""From points to the cells of a grid."""

import torch


def pool_cells(features, cells, count):
    """Return the sum of the features in each cell.

    Args:
        features: (points, channels).
        cells: the cell of each point, (points,).
        count: number of cells.

    Returns:
        (count, channels).
    """
    device = features.device.type
    if device == "cuda":
        return _by_sorting(features, cells, count)
    if device == "cpu":
        return features.new_zeros(count, features.shape[1]).index_add(0, cells, features)
    raise NotImplementedError(f"camgeo.pool_cells has no implementation for {device}")


def _by_sorting(features, cells, count):
    """Without the atomic additions of index_add: the same sums in every run."""
    cells, order = cells.sort(stable=True)
    found, lengths = cells.unique_consecutive(return_counts=True)
    sums = torch.segment_reduce(features[order].float(), "sum", lengths=lengths, axis=0)
    return features.new_zeros(count, features.shape[1]).index_copy(0, found, sums.to(features.dtype))
