"""Voxelization against mmcv's compiled CPU operators: results are equal, not only close."""

from __future__ import annotations

from types import ModuleType

import pytest

torch = pytest.importorskip("torch")
mmcv_ops = pytest.importorskip("mmcv.ops")

from torch import Tensor  # noqa: E402

from npu_emulator.limits import LimitError, lifted  # noqa: E402

RANGE = [0.0, -4.0, -1.0, 6.0, 4.0, 2.0]
VOXEL = [0.5, 1.0, 0.75]


def cloud(count: int, features: int = 4, seed: int = 1) -> Tensor:
    """Points of which some are outside the range."""
    random = torch.Generator().manual_seed(seed)
    points = torch.rand(count, features, generator=random)
    low, high = torch.tensor(RANGE[:3]), torch.tensor(RANGE[3:])
    points[:, :3] = low - 0.5 + points[:, :3] * (high - low + 1)
    return points


@pytest.mark.parametrize("count", [1, 7, 500, 3000])
@pytest.mark.parametrize(
    ("max_points", "max_voxels"),
    [(35, 20000), (3, 20000), (1, 10), (35, 10)],
    ids=["all", "few points", "few", "few voxels"],
)
def test_hard_voxelize_is_mmcvs(mx_driving: ModuleType, count: int, max_points: int, max_voxels: int) -> None:
    from npu_emulator.mx_driving._C import hard_voxelize

    points = cloud(count)
    expected = mmcv_ops.voxelization(points, VOXEL, RANGE, max_points, max_voxels)
    number, *found = hard_voxelize(points, VOXEL, RANGE, max_points, max_voxels, "ZYX")
    assert number == len(expected[0]) > 0
    for ours, theirs in zip(found, expected):
        assert torch.equal(ours, theirs)
        assert ours.dtype == theirs.dtype
    xyz = hard_voxelize(points, VOXEL, RANGE, max_points, max_voxels, "XYZ")[2]
    assert torch.equal(xyz.flip(1), expected[1])


@pytest.mark.parametrize("count", [1, 7, 3000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_dynamic_voxelization_is_mmcvs(mx_driving: ModuleType, count: int, dtype: torch.dtype) -> None:
    points = cloud(count).to(dtype)
    expected = mmcv_ops.voxelization(points, VOXEL, RANGE, -1, -1)
    found = mx_driving.voxelization(points, VOXEL, RANGE, -1, -1)
    assert torch.equal(found, expected)
    assert found.dtype == expected.dtype
    assert count < 100 or (-1 in found and len(found.unique(dim=0)) > 100)


def test_points_on_edges_and_points_that_are_no_numbers(mx_driving: ModuleType) -> None:
    points = torch.tensor(
        [
            [0.0, -4.0, -1.0],  # the lower end is inside, the upper outside
            [6.0, 0.0, 0.0],
            [0.5, 0.0, 0.5],  # on the edge of a voxel: in the upper one
            [float("nan"), 0.0, 0.0],
            [float("inf"), 0.0, 0.0],
            [0.0, -1e30, 0.0],
        ]
    )
    outside = [-1, -1, -1]
    found = mx_driving.voxelization(points, VOXEL, RANGE)
    assert found.tolist() == [[0, 0, 0], outside, [2, 4, 1], outside, outside, outside]


def test_module(mx_driving: ModuleType) -> None:
    points = cloud(500)
    module = mx_driving.Voxelization(VOXEL, RANGE, 3, max_voxels=(20, 10), layout="ZYX")
    number, voxels, coors, counts = module(points)
    assert number == 20
    assert torch.equal(module.eval()(points)[1], voxels[:10])
    assert voxels.shape == (20, 3, 4)
    assert coors.shape == (20, 3)
    assert counts.shape == (20,)
    assert mx_driving.Voxelization(VOXEL, RANGE, -1)(points).shape == (500, 3)
    assert mx_driving.calls == {"hard_voxelize": 2, "dynamic_voxelization": 1}


def test_what_the_device_does_not_take(mx_driving: ModuleType) -> None:
    points = cloud(10)
    with pytest.raises(LimitError, match="at most 1000 points per voxel, found 1001"):
        mx_driving.voxelization(points, VOXEL, RANGE, 1001, 10)
    fine = [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]
    with pytest.raises(LimitError, match=r"2048 x 2048 x 256 voxels \(x, y, z\), found \(100, 100, 1000\)"):
        mx_driving.voxelization(points, [0.01, 0.01, 0.001], fine, 5, 10)
    assert not mx_driving.calls
    with lifted():
        assert mx_driving.voxelization(points, [0.01, 0.01, 0.001], fine, 5, 10)[0] == len(
            points[points_in(points, fine)]
        )


def points_in(points: Tensor, limits: list[float]) -> Tensor:
    low, high = torch.tensor(limits[:3]), torch.tensor(limits[3:])
    return ((points[:, :3] >= low) & (points[:, :3] < high)).all(dim=1)


def test_mistakes(mx_driving: ModuleType) -> None:
    from npu_emulator.mx_driving._C import dynamic_voxelization

    with pytest.raises(ValueError, match="expected points, found none"):
        mx_driving.voxelization(torch.zeros(0, 4), VOXEL, RANGE)
    with pytest.raises(ValueError, match=r"three positive voxel sizes.*found \[0\.5, 0\.0, 1\.0\]"):
        mx_driving.voxelization(cloud(5), [0.5, 0.0, 1.0], RANGE)
    with pytest.raises(ValueError, match=r"points of shape \(n, 3 or more\), found \(5, 2\)"):
        mx_driving.voxelization(cloud(5)[:, :2], VOXEL, RANGE, 5, 5)
    with pytest.raises(ValueError, match="expected a layout of XYZ, ZYX, found 'YXZ'"):
        mx_driving.voxelization(cloud(5), VOXEL, RANGE, 5, 5, True, "YXZ")
    with pytest.raises(ValueError, match=r"coors of shape \(3, 5\) and int32, found \(5, 3\)"):
        dynamic_voxelization(cloud(5), torch.zeros(5, 3, dtype=torch.int32), 4, 4, 4, *VOXEL, *RANGE[:3])
