"""Points, voxels of points and boxes against mmcv's compiled CPU operators, numpy-like loops and known areas."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType

import pytest

torch = pytest.importorskip("torch")
mmcv_ops = pytest.importorskip("mmcv.ops")

from kernel_results import assert_agree, output_and_gradients  # noqa: E402
from torch import Tensor  # noqa: E402

from npu_emulator.limits import LimitError, lifted  # noqa: E402


def random_boxes(count: int, seed: int = 1) -> Tensor:
    """(x, y, z, dx, dy, dz, angle), close enough to overlap."""
    random = torch.Generator().manual_seed(seed)
    place = 6 * torch.rand(count, 3, generator=random)
    size = 0.5 + 3 * torch.rand(count, 3, generator=random)
    angle = math.pi * (2 * torch.rand(count, 1, generator=random) - 1)
    return torch.cat([place, size, angle], dim=1)


def flat(boxes: Tensor) -> Tensor:
    """(x, y, dx, dy, angle), as mmcv's operators on rotated boxes take them."""
    return boxes[:, [0, 1, 3, 4, 6]].contiguous()


# --- overlap ------------------------------------------------------------------------------------------------------


def test_boxes_iou_bev_agrees_with_mmcv(mx_driving: ModuleType) -> None:
    a, b = random_boxes(30), random_boxes(40, seed=2)
    expected = mmcv_ops.box_iou_rotated(flat(a), flat(b))
    found = mx_driving.boxes_iou_bev(a, b)
    assert found.dtype == torch.float32
    assert (found > 0).sum() > 100
    # mmcv computes in float32, whose error at the crossings is the larger one
    assert torch.allclose(found, expected, rtol=0, atol=2e-5)


def test_boxes_overlap_bev_agrees_with_mmcv(mx_driving: ModuleType) -> None:
    a, b = random_boxes(30), random_boxes(40, seed=2)
    iou = mmcv_ops.box_iou_rotated(flat(a), flat(b))
    areas = (a[:, 3] * a[:, 4]).unsqueeze(1) + b[:, 3] * b[:, 4]
    expected = iou * areas / (1 + iou)
    assert torch.allclose(mx_driving.boxes_overlap_bev(a, b), expected, rtol=0, atol=3e-4)

    def corners(boxes: Tensor) -> Tensor:
        """(x1, y1, x2, y2, angle), which turns the other way round."""
        half = boxes[:, 3:5] / 2
        return torch.cat([boxes[:, :2] - half, boxes[:, :2] + half, -boxes[:, 6:]], dim=1)

    assert torch.allclose(mx_driving.boxes_overlap_bev(corners(a), corners(b)), expected, rtol=0, atol=3e-4)


@pytest.mark.parametrize(
    ("first", "second", "area"),
    [
        ([0, 0, 2, 2, 0], [1, 1, 3, 3, 0], 1),  # the example of mx-driving's page
        ([0, 0, 2, 2, 0.3], [0, 0, 2, 2, 0.3], 4),
        ([0, 0, 2, 2, 0], [0, 0, 2, 2, math.pi / 2], 4),
        ([0, 0, 2, 2, 0], [0, 0, 2, 2, math.pi / 4], 8 * (math.sqrt(2) - 1)),
        ([0, 0, 4, 4, 0], [1, 1, 2, 2, 1], 1),
        ([0, 0, 2, 2, 0], [2, 0, 4, 2, 0], 0),
        ([0, 0, 2, 2, 0], [5, 5, 6, 6, 0], 0),
        ([0, 0, 4, 1, math.pi / 2], [1.5, 1.5, 2.5, 9.5, 0], 1),
    ],
    ids=["corner", "same", "same, turned", "octagon", "within", "touching", "apart", "turned"],
)
def test_known_areas(mx_driving: ModuleType, first: list[float], second: list[float], area: float) -> None:
    boxes = torch.tensor([first, second], dtype=torch.float64)
    found = mx_driving.boxes_overlap_bev(boxes[:1], boxes[1:])
    assert found.item() == pytest.approx(area, abs=1e-9)
    assert mx_driving.boxes_overlap_bev(boxes[1:], boxes[:1]).item() == pytest.approx(area, abs=1e-9)


def test_boxes_that_are_none(mx_driving: ModuleType) -> None:
    assert mx_driving.boxes_overlap_bev(torch.zeros(0, 7), random_boxes(3)).shape == (0, 3)
    with pytest.raises(ValueError, match=r"boxes of shape \(n, 5\) or \(n, 7\), found \(3, 7\) and \(2, 5\)"):
        mx_driving.boxes_overlap_bev(random_boxes(3), torch.zeros(2, 5))
    with pytest.raises(ValueError, match=r"boxes_iou_bev: expected boxes of shape \(n, 7\), found \(2, 5\)"):
        mx_driving.boxes_iou_bev(torch.zeros(2, 5), torch.zeros(2, 5))
    many = torch.zeros(1, 7).expand(30_001, 7)
    with pytest.raises(LimitError, match="at most 900000000 pairs, found 900060001"):
        mx_driving.boxes_overlap_bev(many, many)


# --- suppression --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threshold", [0.05, 0.3, 0.7])
def test_nms3d_agrees_with_mmcv(mx_driving: ModuleType, threshold: float) -> None:
    boxes = random_boxes(60)
    scores = torch.rand(60, generator=torch.Generator().manual_seed(3))
    _, expected = mmcv_ops.nms_rotated(flat(boxes), scores, threshold)
    kept = mx_driving.nms3d(boxes, scores, threshold)
    assert torch.equal(kept, expected)
    assert 1 < len(kept) < 60


@pytest.mark.parametrize("threshold", [0.05, 0.3, 0.7])
def test_nms3d_normal_agrees_with_mmcv(mx_driving: ModuleType, threshold: float) -> None:
    boxes = random_boxes(60)
    scores = torch.rand(60, generator=torch.Generator().manual_seed(3))
    half = boxes[:, 3:5] / 2
    _, expected = mmcv_ops.nms(torch.cat([boxes[:, :2] - half, boxes[:, :2] + half], dim=1), scores, threshold)
    kept = mx_driving.nms3d_normal(boxes, scores, threshold)
    assert torch.equal(kept, expected)
    assert 1 < len(kept) < 60


@pytest.mark.parametrize("name", ["nms3d", "nms3d_normal"])
def test_suppression_of_nothing(mx_driving: ModuleType, name: str) -> None:
    kept = getattr(mx_driving, name)(torch.zeros(0, 7), torch.zeros(0), 0.5)
    assert kept.shape == (0,)
    with pytest.raises(ValueError, match=rf"{name}: expected boxes of shape \(n, 7\).*found \(2, 5\) and \(2,\)"):
        getattr(mx_driving, name)(torch.zeros(2, 5), torch.zeros(2), 0.5)


# --- points in boxes ----------------------------------------------------------------------------------------------


def test_points_in_boxes_all_is_mmcvs(mx_driving: ModuleType) -> None:
    boxes = torch.stack([random_boxes(20), random_boxes(20, seed=2)])
    points = 7 * torch.rand(2, 300, 3, generator=torch.Generator().manual_seed(4))
    expected = mmcv_ops.points_in_boxes_cpu(points, boxes)
    found = mx_driving.points_in_boxes_all(boxes, points)
    assert torch.equal(found, expected)
    assert found.dtype == torch.int32
    assert found.sum() > 200


def test_points_in_box_is_the_first_of_all(mx_driving: ModuleType) -> None:
    boxes = random_boxes(20).unsqueeze(0)
    points = 7 * torch.rand(1, 300, 3, generator=torch.Generator().manual_seed(4))
    every = mmcv_ops.points_in_boxes_cpu(points, boxes)[0]
    expected = [row.nonzero()[0].item() if row.any() else -1 for row in every]
    found = mx_driving.points_in_box(boxes, points)
    assert found.tolist() == [expected]
    assert len(set(expected)) > 10
    assert found.dtype == torch.int32
    assert mx_driving.points_in_box(boxes[:, :0], points).unique().tolist() == [-1]
    with pytest.raises(LimitError, match="points_in_box: the device takes one batch, found 2"):
        mx_driving.points_in_box(boxes.expand(2, -1, -1), points.expand(2, -1, -1))
    with pytest.raises(ValueError, match=r"points of shape \(b, n, 3\), found \(1, 20, 7\) and \(1, 300, 2\)"):
        mx_driving.points_in_boxes_all(boxes, points[..., :2])


# --- sampling and neighbours --------------------------------------------------------------------------------------


def test_furthest_point_sampling(mx_driving: ModuleType) -> None:
    points = torch.rand(2, 50, 3, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    sampled = mx_driving.furthest_point_sampling(points, 12)
    assert sampled.shape == (2, 12)
    assert sampled.dtype == torch.int32
    for cloud, indices in zip(points, sampled.tolist()):
        assert indices[0] == 0
        for number in range(1, 12):
            nearest = [min(math.dist(point, cloud[i]) for i in indices[:number]) for point in cloud.tolist()]
            assert indices[number] == nearest.index(max(nearest))
    assert mx_driving.furthest_point_sampling(torch.tensor([[[1.0, 2, 3], [4, 5, 6], [7, 8, 9]]]), 2).tolist() == [
        [0, 2]
    ]


def test_furthest_point_sampling_of_what_does_not_fit(mx_driving: ModuleType) -> None:
    for points, number in ((torch.zeros(1, 0, 3), 1), (torch.zeros(1, 5, 2), 1), (torch.zeros(1, 5, 3), 0)):
        with pytest.raises(ValueError, match=r"points of shape \(b, n, 3\), not empty, and one to sample"):
            mx_driving.furthest_point_sampling(points, number)
    with pytest.raises(LimitError, match="at most 383166 numbers, found 383169"):
        mx_driving.furthest_point_sampling(torch.zeros(1, 127723, 3), 1)


@pytest.mark.parametrize("transposed", [False, True], ids=["", "transposed"])
def test_knn(mx_driving: ModuleType, transposed: bool) -> None:
    random = torch.Generator().manual_seed(6)
    points, centers = torch.rand(2, 40, 3, generator=random), torch.rand(2, 7, 3, generator=random)

    def given(tensor: Tensor) -> Tensor:
        return tensor.transpose(1, 2) if transposed else tensor

    found = mx_driving.knn(5, given(points), given(centers), transposed)
    assert found.shape == (2, 5, 7)
    assert found.dtype == torch.int32
    expected = torch.cdist(centers.double(), points.double()).argsort(dim=-1)[..., :5]
    assert torch.equal(found.long(), expected.transpose(1, 2))
    assert torch.equal(mx_driving.knn(1, given(points), None, transposed)[:, 0], torch.arange(40).int().expand(2, 40))


def test_knn_of_what_does_not_fit(mx_driving: ModuleType) -> None:
    points = torch.rand(1, 200, 3)
    with pytest.raises(LimitError, match="k from 1 to 99, found 100"):
        mx_driving.knn(100, points)
    with lifted():
        assert mx_driving.knn(100, points).shape == (1, 100, 200)
    with pytest.raises(ValueError, match=r"expected 5 or more points.*found \(1, 4, 3\)"):
        mx_driving.knn(5, points[:, :4])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
def test_three_nn(mx_driving: ModuleType, dtype: torch.dtype) -> None:
    random = torch.Generator().manual_seed(8)
    target, source = (torch.rand(2, count, 3, generator=random).to(dtype) for count in (7, 40))
    distance, index = mx_driving.three_nn(target, source)
    expected = torch.cdist(target.double(), source.double()).sort(dim=-1)
    assert torch.equal(index.long(), expected.indices[..., :3])
    assert index.dtype == torch.int32
    assert torch.allclose(distance, expected.values[..., :3].to(dtype), rtol=2 * torch.finfo(dtype).eps, atol=0)
    with pytest.raises(ValueError, match=r"three or more sources.*found \(2, 7, 3\) and \(2, 2, 3\)"):
        mx_driving.three_nn(target, source[:, :2])


def test_group_points(mx_driving: ModuleType) -> None:
    random = torch.Generator().manual_seed(9)
    features = torch.randn(2, 3, 10, generator=random, dtype=torch.float64)
    indices = torch.randint(0, 10, (2, 4, 5), generator=random).int()

    def expected(rows: Tensor) -> Tensor:
        return torch.stack([image[:, index.long()] for image, index in zip(rows, indices)])

    ours = output_and_gradients(lambda rows: mx_driving.group_points(rows, indices), [features])
    assert_agree(ours, output_and_gradients(expected, [features]))
    assert mx_driving.calls == {"group_points": 1, "group_points_backward": 1}
    with pytest.raises(ValueError, match=r"indices of shape \(b, groups, samples\), found \(2, 3, 10\) and \(2, 4\)"):
        mx_driving.group_points(features, indices[..., 0])


# --- points of voxels ---------------------------------------------------------------------------------------------


REDUCE: dict[str, Callable[[Tensor], Tensor]] = {
    "max": lambda rows: rows.amax(dim=0),
    "sum": lambda rows: rows.sum(dim=0),
    "mean": lambda rows: rows.mean(dim=0),
}


def points_of_voxels(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(7)
    coors = torch.randint(-1, 3, (60, 3), generator=random).int()
    return torch.randn(60, 4, generator=random, dtype=dtype), coors


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("reduction", REDUCE)
def test_dynamic_scatter(mx_driving: ModuleType, reduction: str, dtype: torch.dtype) -> None:
    feats, coors = points_of_voxels(dtype)
    voxels = sorted({tuple(coor) for coor in coors.tolist() if min(coor) >= 0})

    def expected(rows: Tensor) -> Tensor:
        return torch.stack([REDUCE[reduction](rows[(coors == torch.tensor(voxel)).all(dim=1)]) for voxel in voxels])

    ours = output_and_gradients(lambda rows: mx_driving.dynamic_scatter(rows, coors, reduction)[0], [feats])
    assert_agree(ours, output_and_gradients(expected, [feats]))
    found = mx_driving.dynamic_scatter(feats, coors, reduction)[1]
    assert found.tolist() == [list(voxel) for voxel in voxels]
    assert found.dtype == torch.int32


def test_dynamic_scatter_of_what_does_not_fit(mx_driving: ModuleType) -> None:
    feats, coors = points_of_voxels(torch.float32)
    with pytest.raises(LimitError, match=r"2048 x 2048 x 256 voxels \(x, y, z\), found \(3, 3, 257\)"):
        mx_driving.dynamic_scatter(feats, torch.cat([coors[1:], torch.tensor([[0, 0, 256]]).int()]))
    with pytest.raises(LimitError, match="at most 2048 features, found 2052"):
        mx_driving.dynamic_scatter(feats.repeat(1, 513), coors)
    with pytest.raises(LimitError, match="points with coordinates from 0 on, found none"):
        mx_driving.dynamic_scatter(feats, torch.full_like(coors, -1))
    with pytest.raises(ValueError, match="a reduce_type of max, sum, mean, found 'min'"):
        mx_driving.dynamic_scatter(feats, coors, "min")
    with pytest.raises(ValueError, match=r"features of shape \(n, c\), not empty.*found \(0, 4\)"):
        mx_driving.dynamic_scatter(feats[:0], coors[:0])
    assert not mx_driving.calls


# --- names that mx_driving gives up -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("npu_boxes_overlap_bev", "boxes_overlap_bev"),
        ("npu_multi_scale_deformable_attn_function", "multi_scale_deformable_attn"),
        ("npu_points_in_box", "points_in_box"),
        ("npu_points_in_box_all", "points_in_boxes_all"),
        ("npu_dynamic_scatter", "dynamic_scatter"),
    ],
)
def test_deprecated_names_warn_and_do_the_same(mx_driving: ModuleType, old: str, new: str) -> None:
    boxes = random_boxes(4)
    arguments = {
        "boxes_overlap_bev": (boxes, boxes),
        "dynamic_scatter": points_of_voxels(torch.float32),
        "multi_scale_deformable_attn": (
            torch.ones(1, 4, 1, 8),
            torch.tensor([[2, 2]]),
            torch.tensor([0]),
            torch.full((1, 1, 1, 1, 1, 2), 0.5),
            torch.ones(1, 1, 1, 1, 1),
        ),
    }.get(new, (boxes.unsqueeze(0), boxes[:, :3].unsqueeze(0)))
    with pytest.warns(DeprecationWarning, match=f"{old} is deprecated, use mx_driving.{new}") as caught:
        found = getattr(mx_driving, old)(*arguments)
    assert caught[0].filename == __file__
    expected = getattr(mx_driving, new)(*arguments)
    pairs = zip(found, expected) if isinstance(found, tuple) else [(found, expected)]
    assert all(torch.equal(ours, theirs) for ours, theirs in pairs)
    assert mx_driving.calls == {new: 2}
