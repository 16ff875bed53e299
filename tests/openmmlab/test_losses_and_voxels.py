"""Focal loss, attention and voxelization on the emulated NPU: what the kernels do not take, and what is an error."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from mmcv.ops import Voxelization, focal_loss, multi_scale_deform_attn, voxelize
from torch import Tensor

import patchcore as pc
from mmcv_npu.checks.multi_scale_deformable_attention import copied_function
from mmcv_npu.checks.sigmoid_focal_loss import definition
from mmcv_npu.multi_scale_deformable_attention import MULTI_SCALE_DEFORMABLE_ATTENTION
from mmcv_npu.sigmoid_focal_loss import SIGMOID_FOCAL_LOSS
from mmcv_npu.voxelization import VOXELIZATION
from npu_emulator import NotEmulated


class TestSigmoidFocalLoss:
    def test_layer(self, device: torch.device, calls: Counter[str]) -> None:
        logit, target, weight = torch.randn(6, 3), torch.tensor([0, 1, 2, 2, 1, 0]), torch.tensor([1.0, 0.5, 2.0])
        layer = focal_loss.SigmoidFocalLoss(2.0, 0.25, weight, "sum").to(device)
        layer(logit.to(device), target.to(device))
        assert not calls
        with pc.Patcher([SIGMOID_FOCAL_LOSS], enable=SIGMOID_FOCAL_LOSS, strict=True):
            actual = layer(logit.to(device), target.to(device))
        torch.testing.assert_close(actual.cpu(), definition(logit, target, 2.0, 0.25, weight, "sum"))
        assert calls == {"sigmoid_focal_loss": 1}

    def test_definition_is_cross_entropy_where_nothing_is_in_focus(self) -> None:
        logit, target = torch.randn(5, 4), torch.tensor([0, 3, 4, 1, 2])
        wanted = torch.nn.functional.one_hot(target, 5)[:, :4].float()
        expected = torch.nn.functional.binary_cross_entropy_with_logits(logit, wanted, reduction="none")
        torch.testing.assert_close(2 * definition(logit, target, 0.0, 0.5, None, "none"), expected)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"target": torch.zeros(4, dtype=torch.int32)},
            {"target": torch.zeros(3, dtype=torch.int64)},
            {"weight": torch.ones(4)},
            {"reduction": "median"},
        ],
        ids=["dtype of target", "length of target", "length of weight", "reduction"],
    )
    def test_what_mmcv_refuses_it_keeps_refusing(
        self, wrong: dict[str, Any], device: torch.device, calls: Counter[str]
    ) -> None:
        arguments = {"target": torch.zeros(4, dtype=torch.int64), "weight": None, "reduction": "mean", **wrong}
        target, weight, reduction = (one.to(device) if isinstance(one, Tensor) else one for one in arguments.values())
        with (
            pc.Patcher([SIGMOID_FOCAL_LOSS], enable=SIGMOID_FOCAL_LOSS, strict=True),
            pytest.raises(AssertionError),
        ):
            focal_loss.sigmoid_focal_loss(torch.randn(4, 3, device=device), target, 2.0, 0.25, weight, reduction)
        assert not calls

    @pytest.mark.parametrize("logit", [torch.zeros(0, 3), torch.zeros(4, 3).double()], ids=["empty", "float64"])
    def test_misfits_reach_mmcvs_operator(self, logit: Tensor, device: torch.device, calls: Counter[str]) -> None:
        target = torch.zeros(len(logit), dtype=torch.int64)
        with pc.Patcher([SIGMOID_FOCAL_LOSS], enable=SIGMOID_FOCAL_LOSS, strict=True):
            loss = focal_loss.sigmoid_focal_loss(logit.to(device), target.to(device), 2.0, 0.25, None, "none")
        torch.testing.assert_close(loss.cpu(), definition(logit, target, 2.0, 0.25, None, "none"))
        assert not calls


class TestMultiScaleDeformableAttention:
    @pytest.mark.parametrize(
        "misfit", [{"heads": 16}, {"channels": 12}, {"channels": 264}, {"points": 65}, {"queries": 0}], ids=str
    )
    def test_misfits_are_computed_without_the_kernel(
        self, misfit: dict[str, Any], device: torch.device, calls: Counter[str]
    ) -> None:
        value, *rest = (tensor.to(device) for tensor in attention(**misfit))
        value.requires_grad_()
        with pc.Patcher([MULTI_SCALE_DEFORMABLE_ATTENTION], strict=True):
            out = multi_scale_deform_attn.MultiScaleDeformableAttnFunction.apply(value, *rest, 64)
            (gradient,) = torch.autograd.grad(out.sum(), value)
        assert not calls
        assert out.shape == (1, rest[3].shape[1], value.shape[2] * value.shape[3])
        if out.numel():
            shapes, _, places, weights = (tensor.cpu() for tensor in rest)
            given = value.detach().cpu().requires_grad_()
            expected = multi_scale_deform_attn.multi_scale_deformable_attn_pytorch(given, shapes, places, weights)
            torch.testing.assert_close(out.cpu(), expected)
            torch.testing.assert_close(gradient.cpu(), torch.autograd.grad(expected.sum(), given)[0])
        assert gradient.any() == bool(out.numel())

    def test_a_copy_of_the_function_in_a_model_runs_on_the_kernel(
        self, device: torch.device, calls: Counter[str]
    ) -> None:
        """It loads the operators by itself, before the patch is applied."""
        copied = copied_function()
        value, *rest = (tensor.to(device) for tensor in attention(channels=16))
        value.requires_grad_()
        with pytest.raises(NotEmulated, match=r"the patch mmcv\.multi_scale_deformable_attention of mmcv-npu-patches"):
            copied.apply(value, *rest, 64)
        with pc.Patcher([MULTI_SCALE_DEFORMABLE_ATTENTION], strict=True):
            out = copied.apply(value, *rest, 64)
            out.sum().backward()
        assert calls == {"multi_scale_deformable_attn": 1, "multi_scale_deformable_attn_backward": 1}
        assert value.grad is not None
        assert value.grad.any()

    def test_a_second_derivative_is_refused_as_by_mmcv(self, device: torch.device) -> None:
        value, *rest = (tensor.to(device) for tensor in attention())
        value.requires_grad_()
        with pc.Patcher([MULTI_SCALE_DEFORMABLE_ATTENTION], strict=True):
            out = multi_scale_deform_attn.MultiScaleDeformableAttnFunction.apply(value, *rest, 64)
            (gradient,) = torch.autograd.grad(out.square().sum(), value, create_graph=True)
            with pytest.raises(RuntimeError, match="once_differentiable"):
                gradient.sum().backward()

    def test_reverted_between_forward_and_backward(self, device: torch.device) -> None:
        value, *rest = (tensor.to(device) for tensor in attention())
        with pc.Patcher([MULTI_SCALE_DEFORMABLE_ATTENTION], strict=True):
            out = multi_scale_deform_attn.MultiScaleDeformableAttnFunction.apply(value.requires_grad_(), *rest, 64)
        with pytest.raises(NotEmulated):  # not for an attribute that mmcv's backward pass misses
            out.sum().backward()

    def test_applied_between_forward_and_backward(
        self, device: torch.device, calls: Counter[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The backward pass of the Function is mmcv's, as its forward pass was; the operator in it is patched."""
        value, *rest = (tensor.to(device) for tensor in attention())
        out = torch.zeros(1, 3, 16, device=device)
        with monkeypatch.context() as patching:
            patching.setattr(multi_scale_deform_attn.ext_module, "ms_deform_attn_forward", lambda *_, **__: out.clone())
            result = multi_scale_deform_attn.MultiScaleDeformableAttnFunction.apply(value.requires_grad_(), *rest, 64)
        with pc.Patcher([MULTI_SCALE_DEFORMABLE_ATTENTION], strict=True):
            result.sum().backward()
        assert calls == {"multi_scale_deformable_attn_backward": 1}


def attention(
    heads: int = 2, channels: int = 8, points: int = 2, queries: int = 3, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, ...]:
    """Return value, shapes, starts, locations and weights of an attention over a map of 2 x 2 pixels."""
    return (
        torch.randn(1, 4, heads, channels, dtype=dtype),
        torch.tensor([[2, 2]]),
        torch.tensor([0]),
        torch.rand(1, queries, heads, 1, points, 2, dtype=dtype),
        torch.rand(1, queries, heads, 1, points, dtype=dtype),
    )


RANGE = (0.0, 0.0, 0.0, 2.0, 2.0, 1.0)


class TestVoxelization:
    @pytest.mark.parametrize("maximum", [(2, 4), (-1, -1), (-1, 4), (2, -1)], ids=str)
    def test_layer(self, maximum: tuple[int, int], device: torch.device, calls: Counter[str]) -> None:
        layer = Voxelization([0.5, 0.5, 1.0], list(RANGE), *maximum)
        points = 2.5 * torch.rand(40, 4) - 0.25
        expected = layer(points)
        with pc.Patcher([VOXELIZATION], enable=VOXELIZATION, strict=True):
            actual = layer(points.to(device))
        expected, actual = ((one,) if isinstance(one, Tensor) else one for one in (expected, actual))
        assert [one.dtype for one in actual] == [one.dtype for one in expected]
        assert all(one.cpu().equal(other) for one, other in zip(actual, expected))
        assert calls == {"dynamic_voxelization" if -1 in maximum else "hard_voxelize": 1}

    @pytest.mark.parametrize("maximum", [(2, 4), (-1, -1)], ids=["hard", "dynamic"])
    def test_no_points_have_no_voxels(self, maximum: tuple[int, int], device: torch.device) -> None:
        arguments = ((0.5, 0.5, 1.0), RANGE, *maximum)
        expected = voxelize.voxelization(torch.zeros(0, 4), *arguments)
        with pc.Patcher([VOXELIZATION], enable=VOXELIZATION, strict=True):
            actual = voxelize.voxelization(torch.zeros(0, 4, device=device), *arguments)
        expected, actual = ((one,) if isinstance(one, Tensor) else one for one in (expected, actual))
        assert [(one.shape, one.dtype) for one in actual] == [(one.shape, one.dtype) for one in expected]

    @pytest.mark.parametrize("size", [(0.5, 0.0, 1.0), (0.5, -0.5, 1.0), (float("nan"), 0.5, 1.0)], ids=str)
    @pytest.mark.parametrize("maximum", [(2, 4), (-1, -1)], ids=["hard", "dynamic"])
    def test_a_voxel_without_size_is_an_error(
        self, maximum: tuple[int, int], size: tuple[float, ...], device: torch.device
    ) -> None:
        with (
            pc.Patcher([VOXELIZATION], enable=VOXELIZATION, strict=True),
            pytest.raises(
                ValueError, match=r"expected voxels of a positive size along x, y and z, found voxel_size=\["
            ),
        ):
            voxelize.voxelization(torch.zeros(3, 4, device=device), size, RANGE, *maximum)

    @pytest.mark.parametrize(
        "misfit",
        [
            {"max_points": 1001},
            {"voxel_size": (0.5, 0.5, 0.001)},
            {"voxel_size": (0.8, 0.5, 1.0)},
            {"points": torch.zeros(3, 4).half()},
        ],
        ids=["points of a voxel", "voxels", "half a voxel", "float16"],
    )
    def test_misfits_reach_mmcvs_operator(
        self, misfit: dict[str, Any], device: torch.device, calls: Counter[str]
    ) -> None:
        case = {"points": torch.zeros(3, 4), "voxel_size": (0.5, 0.5, 1.0), "max_points": 2, **misfit}
        points, voxel_size, max_points = case.values()
        expected = voxelize.voxelization(points.float(), voxel_size, RANGE, max_points, 4)
        with pc.Patcher([VOXELIZATION], enable=VOXELIZATION, strict=True):
            actual = voxelize.voxelization(points.to(device), voxel_size, RANGE, max_points, 4)
        assert actual[0].dtype == points.dtype
        assert all(one.cpu().to(other).equal(other) for one, other in zip(actual, expected))
        assert not calls

    def test_sizes_may_be_tensors(self, device: torch.device) -> None:
        points = torch.rand(5, 3)
        size, limits = torch.tensor((0.5, 0.5, 1.0)), torch.tensor(RANGE)
        expected = voxelize.voxelization(points, size.tolist(), RANGE, -1, -1)
        with pc.Patcher([VOXELIZATION], enable=VOXELIZATION, strict=True):
            actual = voxelize.voxelization(points.to(device), size, limits, -1, -1)
        assert actual.cpu().equal(expected)
