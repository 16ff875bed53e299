"""Calls outside of a kernel's limits: what computes them on the NPU, and what the report says of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from mmcv.ops import deform_conv, modulated_deform_conv, nms_rotated
from mmcv.ops.multi_scale_deform_attn import MultiScaleDeformableAttnFunction, multi_scale_deformable_attn_pytorch
from torch import Tensor

import patchcore as pc
from mmcv_npu import other_paths
from mmcv_npu.checks.multi_scale_deformable_attention import copied_function
from mmcv_npu.deform_conv import DEFORM_CONV, MODULATED_DEFORM_CONV
from mmcv_npu.multi_scale_deformable_attention import MULTI_SCALE_DEFORMABLE_ATTENTION
from mmcv_npu.nms_rotated import NMS_ROTATED

CONVOLUTIONS = [DEFORM_CONV, MODULATED_DEFORM_CONV]


@pytest.fixture(autouse=True)
def nothing_noted() -> Iterator[None]:
    other_paths.forget()
    yield
    other_paths.forget()


def with_gradients(function: Any, tensors: list[Tensor], device: torch.device) -> tuple[Tensor, list[Tensor]]:
    """Return the result and the gradients, on the CPU."""
    leaves = [tensor.detach().clone().to(device).requires_grad_() for tensor in tensors]
    out = function(*leaves)
    (out.float() * torch.linspace(-1, 1, out.numel()).view(out.shape).to(out.device)).sum().backward()
    return out.detach().cpu(), [leaf.grad.cpu() for leaf in leaves]


def assert_as_on_cpu(function: Any, tensors: list[Tensor], device: torch.device) -> None:
    expected, gradients = with_gradients(function, tensors, torch.device("cpu"))
    actual, found = with_gradients(function, tensors, device)
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)
    for one, other in zip(found, gradients):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-3)


def draw(*shapes: tuple[int, ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator) for shape in shapes]


CONVOLUTION_MISFITS = {
    "48 channels": (48, 12, (3, 3), (1, 1, 1, 1, 1)),
    "groups of offsets": (64, 64, (3, 3), (2, 1, 1, 1, 2)),
    "groups, pairs of numbers": (32, 8, (3, 3), ((2, 1), (1, 2), (2, 1), 4, 4)),
    "1 x 1": (24, 4, (1, 1), (1, 0, 1, 1, 1)),
}


class TestDeformableConvolution:
    @pytest.mark.parametrize("modulated", [False, True], ids=["DCN", "DCNv2"])
    @pytest.mark.parametrize("name", CONVOLUTION_MISFITS)
    def test_other_shapes_train_as_on_the_cpu(
        self, name: str, modulated: bool, device: torch.device, calls: Counter[str]
    ) -> None:
        channels, out_channels, kernel, geometry = CONVOLUTION_MISFITS[name]
        stride, padding, dilation = (value if isinstance(value, tuple) else (value, value) for value in geometry[:3])
        size = [
            (9 + axis + 2 * padding[axis] - dilation[axis] * (kernel[axis] - 1) - 1) // stride[axis] + 1
            for axis in (0, 1)
        ]
        taps = kernel[0] * kernel[1] * geometry[4]
        x, offset, mask, weight, bias = draw(
            (2, channels, 9, 10),
            (2, 2 * taps, *size),
            (2, taps, *size),
            (out_channels, channels // geometry[3], *kernel),
            (out_channels,),
        )
        with pc.Patcher(CONVOLUTIONS, strict=True):
            if modulated:
                assert_as_on_cpu(
                    lambda x, offset, mask, weight, bias: modulated_deform_conv.modulated_deform_conv2d(
                        x, offset, mask, weight, bias, *geometry
                    ),
                    [x, offset, mask, weight, bias],
                    device,
                )
            else:
                assert_as_on_cpu(
                    lambda x, offset, weight: deform_conv.deform_conv2d(x, offset, weight, *geometry),
                    [x, offset, weight],
                    device,
                )
        assert not calls

    @pytest.mark.parametrize("channels", [64, 48], ids=["kernel", "operator"])
    def test_offsets_larger_than_the_result_are_read_as_mmcv_reads_them(
        self, channels: int, device: torch.device, calls: Counter[str]
    ) -> None:
        tensors = draw((2, channels, 5, 6), (2, 18, 9, 12), (2, 9, 9, 12), (64, channels, 3, 3))
        with pc.Patcher(CONVOLUTIONS, strict=True):
            assert_as_on_cpu(
                lambda *given: modulated_deform_conv.modulated_deform_conv2d(*given, None, 1, 1), tensors, device
            )
        assert bool(calls) is (channels == 64)

    @pytest.mark.parametrize("modulated", [False, True], ids=["DCN", "DCNv2"])
    def test_no_images_give_none_and_gradients_of_zero(self, modulated: bool, device: torch.device) -> None:
        x, offset, mask, weight = (
            tensor.to(device).requires_grad_()
            for tensor in draw((0, 48, 9, 9), (0, 18, 9, 9), (0, 9, 9, 9), (4, 48, 3, 3))
        )
        with pc.Patcher(CONVOLUTIONS, strict=True):
            if modulated:
                out = modulated_deform_conv.modulated_deform_conv2d(x, offset, mask, weight, None, 1, 1)
            else:
                out = deform_conv.deform_conv2d(x, offset, weight, 1, 1)
            out.sum().backward()
        assert out.shape == (0, 4, 9, 9)
        assert weight.grad.abs().max() == 0
        assert offset.grad.shape == offset.shape

    def test_half_precision_is_computed_in_float32(self, device: torch.device) -> None:
        x, offset, weight = draw((2, 48, 6, 6), (2, 18, 6, 6), (8, 48, 3, 3))
        expected = deform_conv.deform_conv2d(x, offset.half().float(), weight, 1, 1)
        with pc.Patcher(CONVOLUTIONS, strict=True), torch.autocast(device.type, dtype=torch.float16):
            actual = deform_conv.deform_conv2d(x.to(device), offset.half().to(device), weight.to(device), 1, 1)
        assert actual.dtype == torch.float16
        torch.testing.assert_close(actual.cpu().float(), expected, rtol=2**-10, atol=1e-3)

    @pytest.mark.parametrize("channels", [48, 64])
    def test_float64_is_refused_by_name(self, channels: int, device: torch.device) -> None:
        x, offset, weight = (
            t.double().to(device) for t in draw((2, channels, 6, 6), (2, 18, 6, 6), (8, channels, 3, 3))
        )
        with pc.Patcher(CONVOLUTIONS, strict=True), pytest.raises(TypeError, match=r"mmcv.deform_conv.*float64"):
            deform_conv.deform_conv2d(x, offset, weight, 1, 1)


def attention(heads: int, channels: int, dtype: torch.dtype = torch.float32) -> tuple[list[Tensor], list[Tensor]]:
    """Return value, locations, weights; and the shapes and starts of two levels."""
    value, locations, weights = draw((2, 4 * 5 + 2 * 3, heads, channels), (2, 3, heads, 2, 4, 2), (2, 3, heads, 2, 4))
    tensors = [value.to(dtype), locations.sigmoid().to(dtype), weights.softmax(-1).to(dtype)]
    return tensors, [torch.tensor([[4, 5], [2, 3]]), torch.tensor([0, 20])]


ATTENTION_MISFITS = {
    "12 heads": (12, 8, torch.float32),
    "6 channels": (4, 6, torch.float32),
    "float64": (4, 8, torch.float64),
}


class TestAttention:
    @pytest.mark.parametrize("function", [MultiScaleDeformableAttnFunction, None], ids=["mmcv", "copy"])
    @pytest.mark.parametrize("name", ATTENTION_MISFITS)
    def test_other_shapes_and_float64_train_as_on_the_cpu(
        self, name: str, function: Any, device: torch.device, calls: Counter[str]
    ) -> None:
        tensors, places = attention(*ATTENTION_MISFITS[name])

        def reference(value: Tensor, locations: Tensor, weights: Tensor) -> Tensor:
            return multi_scale_deformable_attn_pytorch(value, places[0], locations, weights)

        def patched(value: Tensor, locations: Tensor, weights: Tensor) -> Tensor:
            used = function or copied_function()
            return used.apply(value, *(place.to(device) for place in places), locations, weights, 64)

        expected, gradients = with_gradients(reference, tensors, torch.device("cpu"))
        with pc.Patcher([MULTI_SCALE_DEFORMABLE_ATTENTION], strict=True):
            actual, found = with_gradients(patched, tensors, device)
        assert actual.dtype == tensors[0].dtype
        tolerance = 1e-12 if actual.dtype == torch.float64 else 1e-5
        torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)
        for one, other in zip(found, gradients):
            torch.testing.assert_close(one, other, rtol=10 * tolerance, atol=10 * tolerance)
        assert not calls


class TestReport:
    def test_says_once_for_each_shape_what_computed_it_and_why(self, device: torch.device) -> None:
        x, offset, weight = (t.to(device) for t in draw((2, 48, 6, 6), (2, 18, 6, 6), (8, 48, 3, 3)))
        tensors, places = attention(12, 8)
        with pc.Patcher.discover() as patcher:
            for _ in range(3):
                deform_conv.deform_conv2d(x, offset, weight, 1, 1)
            deform_conv.deform_conv2d(x[:1], offset[:1], weight, 1, 1)
            value, locations, weights = (tensor.to(device) for tensor in tensors)
            MultiScaleDeformableAttnFunction.apply(value, *(p.to(device) for p in places), locations, weights, 64)
            lines = section(patcher)
        assert lines == (
            "mmcv.deform_conv: input 2 x 48 x 6 x 6, weight 8 x 48 x 3 x 3, groups 1, deform_groups 1: "
            "torch_npu.npu_deformable_conv2d, 3x; the kernel takes channels in multiples of 64",
            "mmcv.deform_conv: input 1 x 48 x 6 x 6, weight 8 x 48 x 3 x 3, groups 1, deform_groups 1: "
            "torch_npu.npu_deformable_conv2d, 1x; the kernel takes channels in multiples of 64",
            "mmcv.multi_scale_deformable_attention: value 2 x 26 x 12 x 8, weights 2 x 3 x 12 x 2 x 4: "
            "mmcv's multi_scale_deformable_attn_pytorch, 1x; the kernel takes up to 8 heads",
        )

    def test_says_nothing_of_calls_that_the_kernels_take(self, device: torch.device) -> None:
        x, offset, weight = (t.to(device) for t in draw((2, 64, 6, 6), (2, 18, 6, 6), (8, 64, 3, 3)))
        with pc.Patcher.discover() as patcher:
            deform_conv.deform_conv2d(x, offset, weight, 1, 1)
            assert section(patcher) == ()


def section(patcher: pc.Patcher) -> tuple[str, ...]:
    """Return the lines that the report has on calls that the kernels did not take."""
    return tuple(
        line
        for each in patcher.plugins.sections()
        if each.title == "not on the kernels of mx_driving"
        for line in each.lines
    )


class TestRotatedBoxes:
    @pytest.mark.parametrize("clockwise", [True, False])
    def test_the_callers_boxes_stay_and_those_returned_are_in_radians(
        self, clockwise: bool, device: torch.device
    ) -> None:
        boxes = torch.tensor([[10, 10, 8, 4, 0.5], [10.5, 10, 8, 4, 0.6], [30, 30, 8, 4, -math.pi / 3]])
        scores = torch.tensor([0.9, 0.8, 0.7])
        expected, kept = nms_rotated(boxes, scores, 0.5, clockwise=clockwise)
        on_npu = boxes.to(device)
        with pc.Patcher([NMS_ROTATED], strict=True):
            found, indices = nms_rotated(on_npu, scores.to(device), 0.5, clockwise=clockwise)
        assert on_npu.cpu().equal(boxes)
        assert indices.cpu().equal(kept)
        torch.testing.assert_close(found.cpu(), expected)

    def test_without_the_patch_they_change(self, device: torch.device) -> None:
        """The reason for the patch."""
        boxes = torch.tensor([[10, 10, 8, 4, 0.5]]).to(device)
        nms_rotated(boxes, torch.tensor([0.9], device=device), 0.5)
        assert boxes[0, 4].item() == pytest.approx(0.5 * 180 / math.pi, rel=1e-5)

    def test_no_boxes(self, device: torch.device) -> None:
        with pc.Patcher([NMS_ROTATED], strict=True):
            _, kept = nms_rotated(torch.zeros(0, 5, device=device), torch.zeros(0, device=device), 0.5)
        assert kept is None
