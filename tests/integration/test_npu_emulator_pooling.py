"""Pooling in a bird's-eye view against loops over the terms, and against gradcheck."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple, Optional

import pytest

torch = pytest.importorskip("torch")

from kernel_results import assert_agree, output_and_gradients  # noqa: E402
from torch import Tensor  # noqa: E402

from npu_emulator.limits import LimitError, lifted  # noqa: E402

BATCH, DEPTH, HEIGHT, WIDTH = VIEW = (2, 3, 4, 5)
CHANNELS = 8
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


def coordinates(count: int = 60, seed: int = 1) -> Tensor:
    """(h, w, d, b), some of them several times."""
    random = torch.Generator().manual_seed(seed)
    columns = [torch.randint(0, size, (count,), generator=random) for size in (HEIGHT, WIDTH, DEPTH, BATCH)]
    return torch.stack(columns, dim=1).int()


def loop(rows: Sequence[Tensor], cells: Sequence[Sequence[int]]) -> Tensor:
    """The definition; differentiable."""
    output = rows[0].new_zeros(BATCH, DEPTH, HEIGHT, WIDTH, CHANNELS)
    for row, (h, w, d, b) in zip(rows, cells):
        cell = torch.zeros_like(output)
        cell[b, d, h, w] = 1
        output = output + cell * row
    return output.permute(0, 4, 1, 2, 3)


@dtypes
def test_bev_pool(mx_driving: ModuleType, dtype: torch.dtype) -> None:
    places = coordinates()
    feat = torch.randn(60, CHANNELS, dtype=dtype, generator=torch.Generator().manual_seed(2))
    expected = output_and_gradients(lambda f: loop(list(f), places.tolist()), [feat])
    assert_agree(output_and_gradients(mx_driving.bev_pool, [feat], places, *VIEW), expected)
    without_depth = output_and_gradients(
        lambda f: mx_driving.bev_pool_v3(None, f, None, None, places, [*VIEW, CHANNELS]), [feat]
    )
    assert_agree(without_depth, expected)
    assert mx_driving.calls == {
        "bev_pool": 1,
        "bev_pool_backward": 1,
        "bev_pool_v3": 1,
        "bev_pool_v3_backward": 1,
    }


class Lift(NamedTuple):
    """Two cameras of 3 x 4 pixels, each pixel at five depths; terms in the order of their cells."""

    depth: Tensor
    feat: Tensor
    ranks_depth: Tensor
    ranks_feat: Tensor
    ranks_bev: Tensor
    interval_starts: Tensor
    interval_lengths: Tensor

    @classmethod
    def random(cls, dtype: torch.dtype, terms: int = 50) -> Lift:
        random = torch.Generator().manual_seed(3)
        depth = torch.rand(BATCH, 2, 5, 3, 4, dtype=dtype, generator=random)
        feat = torch.randn(BATCH, 2, 3, 4, CHANNELS, dtype=dtype, generator=random)
        ranks_bev = torch.randint(0, BATCH * DEPTH * HEIGHT * WIDTH, (terms,), generator=random).sort().values
        starts = [i for i in range(terms) if i == 0 or ranks_bev[i] != ranks_bev[i - 1]]
        lengths = [after - start for start, after in zip(starts, [*starts[1:], terms])]
        return cls(
            depth,
            feat,
            torch.randint(0, depth.numel(), (terms,), generator=random).int(),
            torch.randint(0, feat.numel() // CHANNELS, (terms,), generator=random).int(),
            ranks_bev.int(),
            torch.tensor(starts).int(),
            torch.tensor(lengths).int(),
        )

    def expected(self, depth: Tensor, feat: Tensor) -> Tensor:
        rows, cells = [], []
        for of_depth, of_feat, cell in zip(self.ranks_depth, self.ranks_feat, self.ranks_bev.tolist()):
            rows.append(depth.flatten()[of_depth] * feat.reshape(-1, CHANNELS)[of_feat])
            rest, w = divmod(cell, WIDTH)
            rest, h = divmod(rest, HEIGHT)
            b, d = divmod(rest, DEPTH)
            cells.append((h, w, d, b))
        return loop(rows, cells)


@dtypes
def test_bev_pool_with_depth(mx_driving: ModuleType, dtype: torch.dtype) -> None:
    lift = Lift.random(dtype)
    expected = output_and_gradients(lift.expected, [lift.depth, lift.feat])
    ranks = (lift.ranks_depth, lift.ranks_feat, lift.ranks_bev)
    shape = (*VIEW, CHANNELS)
    sorted_terms = output_and_gradients(
        mx_driving.bev_pool_v2, [lift.depth, lift.feat], *ranks, shape, lift.interval_starts, lift.interval_lengths
    )
    assert_agree(sorted_terms, expected)
    order = torch.randperm(50, generator=torch.Generator().manual_seed(4))
    shuffled = [rank[order] for rank in ranks]
    assert_agree(output_and_gradients(mx_driving.bev_pool_v3, [lift.depth, lift.feat], *shuffled, shape), expected)


@pytest.mark.parametrize(
    ("name", "channels", "message"),
    [
        ("bev_pool", 1025, "bev_pool: the device takes at most 1024 channels, found 1025"),
        ("bev_pool_v2", 1025, "bev_pool_v2: the device takes at most 1024 channels, found 1025"),
        ("bev_pool_v3", 12, "bev_pool_v3: the device takes a multiple of 8 channels, found 12"),
    ],
)
def test_channels_that_the_device_does_not_take(mx_driving: ModuleType, name: str, channels: int, message: str) -> None:
    places = coordinates(1)
    cell, zero, one = torch.zeros(1).int(), torch.zeros(1).int(), torch.ones(1).int()
    calls: dict[str, Any] = {
        "bev_pool": lambda: mx_driving.bev_pool(torch.ones(1, channels), places, *VIEW),
        "bev_pool_v2": lambda: mx_driving.bev_pool_v2(
            torch.ones(1, 1, 1, 1, 1), torch.ones(1, 1, 1, 1, channels), zero, zero, cell, (*VIEW, channels), zero, one
        ),
        "bev_pool_v3": lambda: mx_driving.bev_pool_v3(
            None, torch.ones(1, channels), None, None, places, (*VIEW, channels)
        ),
    }
    with pytest.raises(LimitError, match=message):
        calls[name]()
    assert not mx_driving.calls
    with lifted():
        assert calls[name]().sum() == channels


def test_views_that_the_device_does_not_take(mx_driving: ModuleType) -> None:
    """Refused before it is allocated."""
    with pytest.raises(LimitError, match=r"at most 2\*\*31 elements in the view, found 2147483656"):
        mx_driving.bev_pool(torch.ones(1, 8), torch.zeros(1, 4).int(), 1, 1, 2**28 + 1, 1)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ([[4, 0, 0, 0]], r"bev_pool: expected \(h, w, d, b\) below \(4, 5, 3, 2\), found \[4, 0, 0, 0\]"),
        ([[0, -1, 0, 0]], r"found \[0, -1, 0, 0\]"),
        ([[0, 0, 0, 2]], r"found \[0, 0, 0, 2\]"),
        ([[0, 0, 0]], r"coordinates of shape \(n, 4\), found \(1, 8\) and \(1, 3\)"),
        (None, r"found \(1, 8\) and \(2, 4\)"),
    ],
)
def test_places_outside_the_view(mx_driving: ModuleType, place: Optional[list[list[int]]], message: str) -> None:
    places = torch.zeros(2, 4).int() if place is None else torch.tensor(place).int()
    with pytest.raises(ValueError, match=message):
        mx_driving.bev_pool(torch.ones(1, 8), places, *VIEW)


def test_intervals_that_are_not_the_runs(mx_driving: ModuleType) -> None:
    lift = Lift.random(torch.float32)
    with pytest.raises(
        ValueError, match=r"each run of equal ranks_bev .*, found other intervals \(1\); sort the ranks"
    ):
        mx_driving.bev_pool_v2(*lift[:5], (*VIEW, CHANNELS), torch.tensor([0]), torch.tensor([50]))
