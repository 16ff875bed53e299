"""From points to the cells of a grid."""

import torch

_IMPLEMENTATIONS = {}


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
    if device in _IMPLEMENTATIONS:
        return _IMPLEMENTATIONS[device](features, cells, count)
    raise NotImplementedError(f"camgeo.pool_cells has no implementation for {device}")


def _implementation(device):
    def register(function):
        return _IMPLEMENTATIONS.setdefault(device, function)

    return register


@_implementation("cpu")
def _by_adding(features, cells, count):
    return features.new_zeros(count, features.shape[1]).index_add(0, cells, features)


@_implementation("cuda")
def _by_sorting(features, cells, count):
    """Without the atomic additions of index_add: the same sums in every run."""
    cells, order = cells.sort(stable=True)
    found, lengths = cells.unique_consecutive(return_counts=True)
    sums = torch.segment_reduce(features[order].float(), "sum", lengths=lengths, axis=0)
    return features.new_zeros(count, features.shape[1]).index_copy(0, found, sums.to(features.dtype))
