"""The operators of ``mmcv._ext`` on the emulated NPU: those of a real build compute, all others refuse.

mmcv's results on the CPU are the reference where mmcv has a kernel for it; else an operator is compared with its
definition, or its backward pass with the differences of its forward pass.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any, Callable

import mmcv
import pytest
import running
import torch
from mmcv import _ext, ops
from torch import Tensor

import patchcore as pc
from npu_emulator import NotEmulated
from npu_emulator.mmcv_operators.builds import BUILDS, Build, build_of, first_build_with
from npu_emulator.mmcv_operators.dispatching import emulate

BUILD = build_of(mmcv.__version__)
NEWEST = build_of("2.2.0")

BOXES = torch.tensor([[0.0, 0.0, 10.0, 10.0], [1.0, 1.0, 10.0, 10.0], [20.0, 20.0, 30.0, 30.0], [0.0, 5.0, 9.0, 14.0]])
SCORES = torch.tensor([0.7, 0.9, 0.8, 0.3])
#: Image, x1, y1, x2, y2; the second reaches beyond the feature map.
ROIS = torch.tensor([[0.0, 0.5, 1.0, 5.0, 6.5], [1.0, 2.0, -1.0, 11.0, 7.0], [1.0, 0.0, 0.0, 7.0, 7.0]])


def features(channels: int = 3, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(2, channels, 8, 9, generator=torch.Generator().manual_seed(0)).to(dtype)


def on(device: Any, arguments: Any) -> list[Any]:
    """Return the arguments on a device, the tensors that gradients are asked for as leaves."""
    return [
        argument.detach().to(device).requires_grad_(argument.requires_grad)
        if isinstance(argument, Tensor)
        else argument
        for argument in arguments
    ]


def assert_as_on_cpu(function: Callable[..., Any], *arguments: Any, device: torch.device, tolerance: float) -> None:
    """Compare results and gradients on the NPU with those of the CPU."""
    found: dict[str, list[Tensor]] = {}
    for where in ("cpu", device):
        given = on(where, arguments)
        results = function(*given)
        results = [one for one in (results if isinstance(results, tuple) else (results,)) if isinstance(one, Tensor)]
        assert all(result.device == torch.device(where) for result in results)
        wanted = [one for one in given if isinstance(one, Tensor) and one.requires_grad]
        if wanted:
            weights = torch.linspace(0.5, 2, results[0].numel()).view_as(results[0]).to(results[0])
            results += torch.autograd.grad((results[0] * weights).sum(), wanted)
        found[str(where)] = [result.detach().cpu() for result in results]
    for actual, expected in zip(found[str(device)], found["cpu"]):
        assert actual.dtype == expected.dtype
        torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


class TestOperatorsOfTheBuild:
    """In the releases that are tested: mmcv-full 1.7.2 and mmcv 2.1.0."""

    CASES = {
        "nms": (ops.nms, BOXES, SCORES, 0.5),
        "batched_nms": (
            lambda boxes, scores, labels: ops.batched_nms(boxes, scores, labels, {"type": "nms", "iou_threshold": 0.5}),
            BOXES,
            SCORES,
            torch.tensor([0, 1, 0, 0]),
        ),
        "bbox_overlaps": (ops.bbox_overlaps, BOXES, BOXES[:2]),
        "bbox_overlaps aligned": (lambda a, b: ops.bbox_overlaps(a, b, "iof", True, 1), BOXES, BOXES.flip(0)),
        "roi_align": (lambda x, rois: ops.roi_align(x, rois, (2, 3)), features().requires_grad_(), ROIS),
        "roi_align max": (
            lambda x, rois: ops.roi_align(x, rois, (2, 3), 0.5, 2, "max", False),
            features().requires_grad_(),
            ROIS,
        ),
        "psa_mask": (lambda x: ops.PSAMask("collect", (3, 3))(x), torch.randn(1, 9, 4, 4).requires_grad_()),
        "box_iou_rotated": (
            ops.box_iou_rotated,
            torch.tensor([[3.0, 3.0, 4.0, 2.0, 0.3], [5.0, 5.0, 3.0, 3.0, 1.0]]),
            torch.tensor([[3.5, 3.0, 4.0, 2.0, 0.1], [5.0, 4.0, 2.0, 3.0, -1.0]]),
        ),
        "voxelization": (
            lambda points: ops.Voxelization([0.5, 0.5, 1.0], [0, 0, -1, 2, 2, 1], 3, 20)(points),
            torch.rand(40, 4, generator=torch.Generator().manual_seed(1)) * 2 - 0.5,
        ),
    }

    @pytest.mark.parametrize("case", CASES, ids=str)
    def test_computes_what_the_cpu_does(self, case: str, device: torch.device) -> None:
        function, *arguments = self.CASES[case]
        assert_as_on_cpu(function, *arguments, device=device, tolerance=1e-6)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
    def test_roi_align_in_16_bits_has_the_values_of_32(self, dtype: torch.dtype, device: torch.device) -> None:
        x = features(dtype=dtype).to(device).requires_grad_()
        result = ops.roi_align(x, ROIS.to(device, dtype), (2, 2))
        (gradient,) = torch.autograd.grad(result.sum(), x)
        assert result.dtype == gradient.dtype == dtype
        expected = ops.roi_align(x.detach().cpu().float(), ROIS.to(dtype).float(), (2, 2))
        torch.testing.assert_close(result.cpu(), expected.to(dtype))

    def test_strides_count_as_on_an_npu(self, device: torch.device) -> None:
        """mmcv's CPU kernels take every tensor for a contiguous one."""
        x = features().transpose(2, 3)
        result = ops.roi_align(x.to(device), ROIS.to(device), (2, 2))
        torch.testing.assert_close(result.cpu(), ops.roi_align(x.contiguous(), ROIS, (2, 2)))

    def test_active_rotated_filter(self, device: torch.device) -> None:
        indices = torch.randint(1, 10, (2, 3, 3, 4), dtype=torch.int32)
        weight = torch.randn(2, 3, 2, 3, 3).requires_grad_()
        assert_as_on_cpu(ops.active_rotated_filter, weight, indices, device=device, tolerance=1e-6)

    def test_nms_rotated_compares_angles_in_degrees_as_mmcv_passes_them(self, device: torch.device) -> None:
        boxes = torch.tensor([[6.0, 3, 8, 7, 0.5], [3.0, 6, 9, 11, 0.6], [3.0, 7, 10, 12, 0.3], [1.0, 4, 13, 7, 0.6]])
        scores = torch.tensor([0.7, 0.8, 0.5, 0.9])
        _, expected = ops.nms_rotated(boxes, scores, 0.5)
        _, kept = ops.nms_rotated(boxes.to(device), scores.to(device), 0.5)
        assert kept.tolist() == expected.tolist() == [3, 1, 0]

    @pytest.mark.parametrize("reduction", ["none", "mean"])
    @pytest.mark.parametrize("weighted", [False, True])
    def test_sigmoid_focal_loss_is_its_definition(self, reduction: str, weighted: bool, device: torch.device) -> None:
        from mmcv_npu.checks.sigmoid_focal_loss import definition

        logit = torch.randn(6, 3, generator=torch.Generator().manual_seed(2)).requires_grad_()
        target = torch.tensor([0, 1, 2, 2, 1, 0] if weighted else [0, 3, 2, 3, 1, 0])
        weight = torch.tensor([1.0, 0.5, 2.0]) if weighted else None
        expected = definition(logit, target, 2.0, 0.25, weight, reduction)
        (wanted,) = torch.autograd.grad(expected.sum(), logit)
        given = logit.detach().to(device).requires_grad_()
        on_device = None if weight is None else weight.to(device)
        actual = ops.sigmoid_focal_loss(given, target.to(device), 2.0, 0.25, on_device, reduction)
        (gradient,) = torch.autograd.grad(actual.sum(), given)
        torch.testing.assert_close((actual.cpu(), gradient.cpu()), (expected, wanted))

    def test_softmax_focal_loss_is_its_definition(self, device: torch.device) -> None:
        logit = torch.randn(5, 4, generator=torch.Generator().manual_seed(3)).requires_grad_()
        target = torch.tensor([0, 3, 2, 1, 1])
        p = logit.softmax(1).gather(1, target.unsqueeze(1)).squeeze(1)
        expected = (-0.25 * (1 - p) ** 2 * p.log()).mean()
        (wanted,) = torch.autograd.grad(expected, logit)
        given = logit.detach().to(device).requires_grad_()
        actual = ops.softmax_focal_loss(given, target.to(device), 2.0, 0.25)
        (gradient,) = torch.autograd.grad(actual, given)
        torch.testing.assert_close((actual.cpu(), gradient.cpu()), (expected, wanted))

    def test_roi_pool_is_the_largest_value_of_each_bin(self, device: torch.device) -> None:
        x = features().to(device).requires_grad_()
        roi = torch.tensor([[1.0, 2, 0, 7, 5]])  # 6 x 6 pixels, both ends belong to it
        result = ops.roi_pool(x, roi.to(device), (3, 2))
        expected = torch.nn.functional.adaptive_max_pool2d(x.cpu()[1:, :, 0:6, 2:8], (3, 2))
        torch.testing.assert_close(result.cpu(), expected)
        (gradient,) = torch.autograd.grad(result.sum(), x)
        assert gradient.sum().item() == result.numel()
        torch.testing.assert_close((x.detach() * gradient)[1].sum(dim=(1, 2)), result.detach()[0].sum(dim=(1, 2)))

    def test_roi_pool_of_a_bin_without_pixels_is_zero(self, device: torch.device) -> None:
        x = features().to(device).requires_grad_()
        result = ops.roi_pool(x, torch.tensor([[0.0, 20, 20, 25, 25]], device=device), (2, 2))
        assert not result.any()
        assert not torch.autograd.grad(result.sum(), x)[0].any()

    @pytest.mark.parametrize("ratio", [0, 2])
    def test_deform_roi_pool_without_offset_is_roi_align(self, ratio: int, device: torch.device) -> None:
        pool = ops.DeformRoIPool((2, 3), 0.5, ratio)
        align = ops.RoIAlign((2, 3), 0.5, ratio)
        found = []
        for function, where in ((pool, device), (align, "cpu")):
            x = features().to(where).requires_grad_()
            result = function(x, ROIS.to(where))
            found.append([one.detach().cpu() for one in (result, *torch.autograd.grad(result.square().sum(), x))])
        torch.testing.assert_close(*found)

    def test_deform_roi_pool_has_the_gradients_of_its_values(self, device: torch.device) -> None:
        x = features(1, torch.float64).to(device).requires_grad_()
        offset = (torch.rand(2, 2, 2, 2, dtype=torch.float64) * 0.1).to(device).requires_grad_()
        rois = torch.tensor([[0.0, 1.3, 1.2, 6.1, 6.4], [1.0, 2.1, 1.7, 5.2, 5.9]], dtype=torch.float64).to(device)
        assert torch.autograd.gradcheck(
            lambda x, offset: ops.deform_roi_pool(x, rois, offset, (2, 2), 1.0, 2, 1.0), (x, offset), atol=1e-4
        )

    def test_fused_bias_leakyrelu(self, device: torch.device) -> None:
        x, bias = (torch.randn(*shape).to(device).requires_grad_() for shape in ((2, 3, 4, 4), (3,)))
        result = ops.fused_bias_leakyrelu(x, bias, 0.2, 1.5)
        expected = 1.5 * torch.nn.functional.leaky_relu(x + bias.view(1, -1, 1, 1), 0.2)
        torch.testing.assert_close(result, expected)
        actual, wanted = (torch.autograd.grad(one.square().sum(), (x, bias)) for one in (result, expected))
        torch.testing.assert_close(actual, wanted)

    def test_gather_points(self, device: torch.device) -> None:
        x, index = torch.randn(2, 3, 5).to(device), torch.tensor([[0, 4, 4], [2, 1, 0]], dtype=torch.int32).to(device)
        expected = torch.stack([one[:, chosen.long()] for one, chosen in zip(x.cpu(), index.cpu())])
        assert torch.equal(ops.gather_points(x, index).cpu(), expected)

    @pytest.mark.openmmlab(2)
    def test_gradient_of_gather_points_counts_how_often_a_point_is_taken(self, device: torch.device) -> None:
        x = torch.randn(1, 2, 5).to(device).requires_grad_()
        index = torch.tensor([[0, 4, 4]], dtype=torch.int32).to(device)
        (gradient,) = torch.autograd.grad(ops.gather_points(x, index).sum(), x)
        assert gradient.tolist() == [[[1, 0, 0, 0, 2]] * 2]

    @pytest.mark.openmmlab(2)
    def test_group_points(self, device: torch.device) -> None:
        x, index = torch.randn(1, 3, 5).to(device), torch.tensor([[[0, 4], [1, 1]]], dtype=torch.int32).to(device)
        assert torch.equal(ops.grouping_operation(x, index).cpu(), x.cpu()[:, :, index[0].long().cpu()])

    def test_points_in_polygons(self, device: torch.device) -> None:
        points = torch.tensor([[300.0, 300], [400, 400], [100, 100], [0, 0]]).to(device)
        squares = torch.tensor([[200.0, 200, 400, 400, 500, 200, 400, 100], [400, 400, 500, 500, 600, 300, 500, 200]])
        expected = [[0, 0], [0, 1], [0, 0], [0, 0]]
        found = ops.points_in_polygons(points, squares.to(device))
        crossed = [[1.0, 0.0]]
        assert ops.points_in_polygons(torch.tensor([[400.0, 250]]).to(device), squares.to(device)).tolist() == crossed
        assert found[2:].tolist() == expected[2:]
        with pytest.raises(RuntimeError, match="MAX_POLYGONS_BATCH"):
            ops.points_in_polygons(points, squares[:1].repeat(2801, 1).to(device))


class TestRefusals:
    def test_every_other_operator_says_what_to_do(self, device: torch.device) -> None:
        names = [name for name in dir(_ext) if not name.startswith(("_", "get_compil"))]
        assert set(names) >= BUILD.operators
        for name in set(names) - BUILD.operators:
            with pytest.raises(NotEmulated, match=rf"mmcv\._ext\.{name}: mmcv .* has no kernel for NPUs"):
                getattr(_ext, name)(torch.zeros(1, device=device))

    def test_names_the_patch_and_the_release_that_has_it(self, device: torch.device) -> None:
        with pytest.raises(NotEmulated, match=r"mmcv\.modulated_deform_conv of mmcv-npu-patches"):
            _ext.modulated_deform_conv_forward(torch.zeros(1, device=device))
        with pytest.raises(NotEmulated, match=r"run --enable mmcv\.voxelization\."):
            _ext.dynamic_voxelize_forward(torch.zeros(1, device=device))
        of_mmdet3d = {"__name__": "mmdet3d.models.voxelize", "operator": _ext.dynamic_voxelize_forward}
        exec("def call(x): operator(x)", of_mmdet3d)
        with pytest.raises(
            NotEmulated, match=r"of mmdet3d-npu-patches: patchcore run --enable mmdet3d\.voxelization\."
        ):
            of_mmdet3d["call"](torch.zeros(1, device=device))
        with pytest.raises(NotEmulated, match=r"or call mx_driving\.npu_dynamic_scatter in its caller"):
            _ext.dynamic_point_to_voxel_forward(torch.zeros(1, device=device))
        with pytest.raises(NotEmulated, match="No patch replaces it"):
            _ext.knn_forward(torch.zeros(1, device=device))
        if BUILD.version.startswith("2"):
            with pytest.raises(NotEmulated, match=r"mmcv has one since 2\.2\.0"):
                _ext.three_interpolate_forward(torch.zeros(1, device=device))

    def test_operators_in_lists_are_seen(self, device: torch.device) -> None:
        refusing = emulate("any_forward", lambda tensors: None, BUILD)
        with pytest.raises(NotEmulated):
            refusing([torch.zeros(1, device=device)])

    def test_cpu_tensors_are_mmcvs_own_business(self) -> None:
        assert ops.nms(BOXES, SCORES, 0.5)[1].tolist() == [1, 2, 3]
        with pytest.raises(RuntimeError, match="implementation for device cpu not found"):
            _ext.roi_pool_forward(features(), ROIS, *[torch.zeros(3, 3, 2, 2)] * 2, 2, 2, 1.0)

    def test_tensors_of_two_devices_are_refused_as_by_mmcv(self, device: torch.device) -> None:
        with pytest.raises(RuntimeError, match="nms: at param 1, inconsistent device: cpu vs npu:0"):
            _ext.nms(BOXES.to(device), SCORES, 0.5, 0)

    def test_nms_takes_boxes_in_32_bits_only(self, device: torch.device) -> None:
        with pytest.raises(RuntimeError, match="boxes tensor passed in nms_npu should be float"):
            _ext.nms(BOXES.to(device).half(), SCORES.to(device), 0.5, 0)


def newest(name: str) -> Callable[..., Any]:
    """Return an operator as a build of mmcv 2.2.0 has it."""
    return emulate(name, getattr(_ext, name), NEWEST)


class TestOperatorsOfLaterBuilds:
    def test_ms_deform_attn(self, device: torch.device) -> None:
        value = torch.randn(1, 14, 4, 32).to(device).requires_grad_()
        shapes = torch.tensor([[2, 3], [2, 4]]).to(device)
        starts = torch.tensor([0, 6]).to(device)
        places = torch.rand(1, 5, 4, 2, 4, 2).to(device).requires_grad_()
        weights = torch.rand(1, 5, 4, 2, 4).to(device).requires_grad_()
        tensors = (value, shapes, starts, places, weights)
        expected = ops.multi_scale_deform_attn.multi_scale_deformable_attn_pytorch(value, shapes, places, weights)
        gradient = torch.randn_like(expected)
        wanted = torch.autograd.grad(expected, (value, places, weights), gradient)
        actual = newest("ms_deform_attn_forward")(*tensors, im2col_step=64)
        grads = [torch.zeros_like(one) for one in (value, places, weights)]
        newest("ms_deform_attn_backward")(*tensors, gradient, *grads, im2col_step=64)
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(tuple(grads), wanted, rtol=1e-4, atol=1e-4)
        with pytest.raises(RuntimeError, match=r"num_heads should be in the range of \[4, 8\]"):
            newest("ms_deform_attn_forward")(value[:, :, :2], shapes, starts, places, weights, im2col_step=64)

    def test_ball_query(self, device: torch.device) -> None:
        points = torch.tensor([[[0.0, 0, 0], [1, 0, 0], [2, 0, 0], [9, 0, 0]]]).to(device)
        centres = torch.tensor([[[0.5, 0, 0], [9, 0, 0], [50, 0, 0]]]).to(device)
        found = torch.full((1, 3, 3), 7, dtype=torch.int32, device=device)
        newest("ball_query_forward")(centres, points, found, b=1, n=4, m=3, min_radius=0.0, max_radius=1.0, nsample=3)
        assert found.tolist() == [[[0, 1, 0], [3, 3, 3], [7, 7, 7]]]

    def test_stacked_ball_query_and_groups(self, device: torch.device) -> None:
        points = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 0, 0], [5, 0, 0]]).to(device)
        centres = torch.tensor([[0.9, 0, 0], [5, 0, 0], [50, 0, 0]]).to(device)
        counts, of_centres = (torch.tensor(n, dtype=torch.int32, device=device) for n in ([2, 2], [1, 2]))
        found = torch.zeros(3, 2, dtype=torch.int32, device=device)
        newest("stack_ball_query_forward")(centres, of_centres, points, counts, found, max_radius=2.0, nsample=2)
        assert found.tolist() == [[0, 1], [1, 1], [-1, 0]]
        grouped = torch.zeros(2, 3, 2, device=device)
        newest("stack_group_points_forward")(
            points,
            counts,
            found[:2],
            torch.tensor([1, 1], dtype=torch.int32).to(device),
            grouped,
            b=2,
            c=3,
            m=2,
            nsample=2,
        )
        assert grouped[:, 0].tolist() == [[0, 1], [5, 5]]

    def test_three_interpolate(self, device: torch.device) -> None:
        points, weight = torch.randn(1, 2, 4).to(device).requires_grad_(), torch.rand(1, 3, 3).to(device)
        index = torch.tensor([[[0, 1, 2], [3, 3, 0], [1, 2, 3]]], dtype=torch.int32).to(device)
        expected = torch.stack([(points[..., index[0, :, k].long()] * weight[:, None, :, k]) for k in range(3)]).sum(0)
        result, gradient = torch.zeros_like(expected), torch.zeros_like(points)
        newest("three_interpolate_forward")(points.detach(), index, weight, result, b=1, c=2, m=4, n=3)
        torch.testing.assert_close(result, expected.detach())
        newest("three_interpolate_backward")(torch.ones_like(result), index, weight, gradient, b=1, c=2, n=3, m=4)
        torch.testing.assert_close(gradient, torch.autograd.grad(expected.sum(), points)[0])

    def test_chamfer_distance(self, device: torch.device) -> None:
        a, b = (torch.randn(2, count, 2).to(device).requires_grad_() for count in (4, 5))
        expected = torch.cdist(a, b).square()
        nearest = (expected.min(2).values, expected.min(1).values)
        distances = [torch.zeros_like(one) for one in nearest]
        indices = [torch.zeros(2, count, dtype=torch.int32, device=device) for count in (4, 5)]
        newest("chamfer_distance_forward")(a.detach(), b.detach(), *distances, *indices)
        torch.testing.assert_close(distances, [one.detach() for one in nearest], rtol=1e-4, atol=1e-5)
        grads = [torch.zeros_like(one) for one in (a, b)]
        ones = [torch.ones_like(one) for one in distances]
        newest("chamfer_distance_backward")(a.detach(), b.detach(), *indices, *ones, *grads)
        wanted = torch.autograd.grad(nearest[0].sum() + nearest[1].sum(), (a, b))
        torch.testing.assert_close(tuple(grads), wanted, rtol=1e-3, atol=1e-4)

    def test_roi_align_rotated_and_rotated_feature_align(self, device: torch.device) -> None:
        rois = torch.tensor([[0.0, 4, 4, 5, 3, 0.4], [1.0, 3, 3, 4, 4, -0.7]])
        given = (features(), rois, torch.zeros(2, 3, 2, 2))
        sizes = {"pooled_height": 2, "pooled_width": 2, "spatial_scale": 1.0, "sampling_ratio": 2}
        found = []
        for where, operator in (("cpu", _ext.roi_align_rotated_forward), (device, newest("roi_align_rotated_forward"))):
            *others, output = on(where, given)
            operator(*others, output, **sizes, aligned=True, clockwise=True)
            found.append(output.cpu())
        assert found[0].any()
        torch.testing.assert_close(*found)


def test_a_build_has_the_operators_of_the_newest_release_that_is_not_newer() -> None:
    assert build_of("2.1.1") == Build("2.1.1", build_of("2.1.0").operators)
    assert build_of("1.9.0").operators == build_of("1.7.2").operators
    assert not build_of("1.6.2").operators
    assert not build_of("2.0.0rc4").version.startswith("2.1")
    assert first_build_with("nms", 1) == "1.7.1"
    assert first_build_with("knn_forward", 2) is None


def test_builds_name_operators_of_mmcv() -> None:
    major = mmcv.__version__.partition(".")[0]
    for build in BUILDS:
        if build.version.startswith(major):
            assert build.operators <= set(dir(_ext)), build.version


def test_a_patch_on_top_gets_npu_tensors_and_what_it_leaves_is_emulated(device: torch.device) -> None:
    seen = []

    def first(original: Any, boxes: Tensor, *args: Any, **kwargs: Any) -> Any:
        seen.append(boxes.device)
        return original(boxes, *args, **kwargs)

    before = _ext.nms
    with pc.Patcher([pc.Patch("test.nms", pc.Wrap("mmcv._ext:nms", first))], strict=True):
        assert ops.nms(BOXES.to(device), SCORES.to(device), 0.5)[1].tolist() == [1, 2, 3]
    assert seen == [device]
    assert _ext.nms is before


@running.ABOUT_THE_IMITATION
@pytest.mark.parametrize("first", ["mmcv", "emulator"])
def test_operators_are_put_in_place_and_taken_out_again_exactly(first: str) -> None:
    program = """
import sys, torch, npu_emulator, npu_emulator.installation
def snapshot():
    return {name: value for name, value in vars(mmcv._ext).items() if not name.startswith("_")}
if sys.argv[1] == "mmcv":
    import mmcv._ext
    before = snapshot()
    installation = npu_emulator.install()
else:
    installation = npu_emulator.install()
    assert "mmcv" not in sys.modules
    import mmcv._ext
    before = None
assert type(mmcv._ext.nms).__name__ == "function", mmcv._ext.nms
installation.uninstall()
after = snapshot()
if npu_emulator.installation.device_is_active():  # mmcv 1.x imports torch_npu: the device stays, and its operators
    assert type(mmcv._ext.nms).__name__ == "function"
    sys.exit()
assert all(type(value).__name__ == "builtin_function_or_method" for value in after.values())
assert before is None or all(before[name] is value for name, value in after.items())
assert not any("npu_emulator" in repr(finder) for finder in sys.meta_path), sys.meta_path
"""
    # torch has no device npu then, and the installation can be undone
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    subprocess.run([sys.executable, "-c", program, first], check=True, env=environment, timeout=600)


@pytest.mark.parametrize("first", ["patch", "emulator"])
def test_a_patch_is_laid_over_the_operators_whichever_comes_first(first: str) -> None:
    program = """
import sys, patchcore
def install():
    INSTALL
def wrapper(original, *args, **kwargs):
    seen.append(original.__module__)
    return original(*args, **kwargs)
seen = []
patcher = patchcore.Patcher([patchcore.Patch("test.nms", patchcore.Wrap("mmcv._ext:nms", wrapper))], strict=True)
steps = [patcher.apply, install]
for step in steps if sys.argv[1] == "patch" else steps[::-1]:
    step()
import torch, torch_npu, mmcv._ext
boxes = torch.tensor([[0.0, 0, 4, 4], [0, 0, 4, 5]], device="npu")
assert mmcv._ext.nms(boxes, boxes[:, 3].clone(), 0.5, 0).tolist() == [1]
assert seen == ["mmcv._ext"], seen
patcher.revert()
assert mmcv._ext.nms(boxes, boxes[:, 3].clone(), 0.5, 0).tolist() == [1]
assert len(seen) == 1
assert mmcv._ext.__spec__.loader is mmcv._ext.__loader__, mmcv._ext.__spec__
assert type(mmcv._ext.__loader__).__name__ == "ExtensionFileLoader"
""".replace("INSTALL", running.INSTALL_KERNELS)
    subprocess.run([sys.executable, "-c", program, first], check=True, timeout=600)
