"""Convolutions against torch's and mmcv's, RoI alignment against mmcv's and documented examples."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from comparing import to_npu
from npu_operators import assert_on, doubles, gradients, on_device
from torch import Tensor
from torch.nn import functional

from npu_emulator.errors import NotEmulated
from npu_emulator.torch_npu.ops import convolution

mmcv_ops = pytest.importorskip("mmcv.ops")

CLOSE: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-11}


class TestPlain:
    @pytest.mark.parametrize("name", ["npu_conv2d", "npu_convolution"])
    def test_in_two_dimensions(self, device: str, name: str) -> None:
        arguments = doubles(2, 4, 7, 8), doubles(6, 2, 3, 2, seed=1), doubles(6, seed=2), [2, 1], [1, 0], [1, 2], 2
        assert_on(device, on_device(device, name, *arguments), functional.conv2d(*arguments), **CLOSE)

    @pytest.mark.parametrize("name", ["npu_conv3d", "npu_convolution"])
    def test_in_three_dimensions(self, device: str, name: str) -> None:
        arguments = doubles(2, 2, 5, 6, 4), doubles(4, 2, 3, 2, 1, seed=1), None, [2, 1, 1], [1, 0, 0], [1, 2, 1], 1
        assert_on(device, on_device(device, name, *arguments), functional.conv3d(*arguments), **CLOSE)

    @pytest.mark.parametrize("name", ["npu_conv_transpose2d", "npu_convolution_transpose"])
    def test_transposed(self, device: str, name: str) -> None:
        tensors = doubles(2, 4, 5, 6), doubles(4, 3, 3, 2, seed=1), doubles(6, seed=2)
        padding, output_padding, stride, dilation = [1, 0], [1, 0], [2, 1], [1, 2]
        found = on_device(device, name, *tensors, padding, output_padding, stride, dilation, 2)
        expected = functional.conv_transpose2d(*tensors, stride, padding, output_padding, 2, dilation)
        assert_on(device, found, expected, **CLOSE)

    def test_gradients_are_those_of_torch(self, device: str) -> None:
        tensors = [doubles(*shape, requires_grad=True) for shape in [(1, 2, 5, 5), (3, 2, 3, 3), (3,)]]
        expected = gradients(functional.conv2d(*tensors, padding=1), *tensors)
        theirs = to_npu(tensors, device)
        output = torch.ops.npu.npu_convolution(*theirs, [1, 1], [1, 1], [1, 1], 1)
        for found, wanted in zip(gradients(output, *theirs), expected):
            assert_on(device, found, wanted, **CLOSE)


#: stride, padding, dilation, groups, deformable groups
GEOMETRIES = {
    "plain": ((1, 1), (1, 1), (1, 1), 1, 1),
    "strided": ((2, 1), (1, 1), (1, 1), 1, 1),
    "dilated": ((1, 1), (2, 3), (2, 3), 1, 1),
    "grouped": ((1, 1), (1, 1), (1, 1), 2, 1),
    "deformable groups": ((1, 1), (1, 1), (1, 1), 1, 2),
}


class Deformable:
    """A deformable convolution as mmcv calls it, and as the operator is called.

    mmcv orders the displacements tap by tap, (vertical, horizontal); the operator takes all horizontal ones first. Both
    orders are those of ``ModulatedDeformConv2dFunction._npu_forward`` of mmcv 2.1.0.
    """

    def __init__(self, geometry: str, kernel: tuple[int, int] = (3, 3)) -> None:
        self.stride, self.padding, self.dilation, self.groups, deformable_groups = GEOMETRIES[geometry]
        self.deformable_groups = deformable_groups
        image, batch, channels = (6, 7), 2, 4
        size = [
            (image[i] + 2 * self.padding[i] - self.dilation[i] * (kernel[i] - 1) - 1) // self.stride[i] + 1
            for i in (0, 1)
        ]
        taps = deformable_groups * kernel[0] * kernel[1]
        self.input = doubles(batch, channels, *image, requires_grad=True)
        self.weight = doubles(6, channels // self.groups, *kernel, seed=1, requires_grad=True)
        self.displacement = (doubles(batch, 2 * taps, *size, seed=2) * 2).requires_grad_()
        self.mask = doubles(batch, taps, *size, seed=3).sigmoid().requires_grad_()
        self.bias = doubles(6, seed=4, requires_grad=True)

    @property
    def leaves(self) -> tuple[Tensor, ...]:
        return self.input, self.weight, self.displacement, self.mask, self.bias

    def by_mmcv(self) -> Tensor:
        return mmcv_ops.modulated_deform_conv2d(
            self.input, self.displacement, self.mask, self.weight, self.bias, self.stride, self.padding, self.dilation,
            self.groups, self.deformable_groups,
        )  # fmt: skip

    def options(self) -> dict[str, Any]:
        (top, left), kernel = self.padding, self.weight.shape[2:]
        return {
            "kernel_size": [kernel[1], kernel[0]],
            "stride": [1, 1, *self.stride],
            "padding": [top, top, left, left],
            "dilation": [1, 1, *self.dilation],
            "groups": self.groups,
            "deformable_groups": self.deformable_groups,
            "modulated": True,
        }


def offsets(displacement: Tensor, mask: Tensor) -> Tensor:
    return torch.cat((displacement[:, 1::2], displacement[:, ::2], mask), dim=1)


class TestDeformable:
    @pytest.mark.parametrize("geometry", GEOMETRIES)
    @pytest.mark.parametrize("kernel", [(3, 3), (3, 2)])
    def test_is_that_of_mmcv(self, device: str, geometry: str, kernel: tuple[int, int]) -> None:
        call = Deformable(geometry, kernel)
        expected = call.by_mmcv()
        wanted_gradients = gradients(expected, *call.leaves)
        theirs = to_npu(call.leaves, device)
        image, weight, displacement, mask, bias = theirs
        output, sampled = torch.ops.npu.npu_deformable_conv2d(
            image, weight, offsets(displacement, mask), bias, **call.options()
        )
        assert_on(device, output, expected, **CLOSE)
        height, width = expected.shape[2:]
        assert sampled.shape == (2, 4, height * kernel[0], width * kernel[1])
        for found, wanted in zip(gradients(output, *theirs), wanted_gradients):
            assert_on(device, found, wanted, **CLOSE)

    def test_gradients_without_displacement_are_those_of_mmcv(self, device: str) -> None:
        # Where networks begin: taps at exactly -1, a whole pixel outside, see nothing and pull nowhere.
        call = Deformable("plain")
        call.displacement = torch.zeros_like(call.displacement, requires_grad=True)
        (expected,) = gradients(call.by_mmcv(), call.displacement)
        image, weight, displacement, mask, bias = to_npu(call.leaves, device)
        tensors = image, weight, offsets(displacement, mask), bias
        output, _ = torch.ops.npu.npu_deformable_conv2d(*tensors, **call.options())
        assert_on(device, gradients(output, displacement)[0], expected, **CLOSE)

    def test_sides_may_be_padded_differently(self, device: str) -> None:
        image, weight, offset = doubles(1, 2, 5, 6), doubles(3, 2, 3, 3, seed=1), doubles(1, 27, 6, 8, seed=2)
        padded = functional.pad(image, (3, 1, 2, 1))
        geometry = {"kernel_size": [3, 3], "stride": [1, 1, 1, 1]}
        found = on_device(
            device, "npu_deformable_conv2d", image, weight, offset, None, padding=[2, 1, 3, 1], **geometry
        )
        expected = convolution.npu_deformable_conv2d(padded, weight, offset, None, padding=[0, 0, 0, 0], **geometry)
        assert_on(device, found[0], expected[0], **CLOSE)

    @pytest.mark.parametrize("geometry", GEOMETRIES)
    def test_backward_operator_is_that_of_mmcv(self, device: str, geometry: str) -> None:
        call = Deformable(geometry)
        expected = call.by_mmcv()
        grad_output = doubles(*expected.shape, seed=7)
        wanted = torch.autograd.grad(expected, call.leaves, grad_output)
        image, weight, displacement, mask, bias = (leaf.detach() for leaf in call.leaves)
        offset = offsets(displacement, mask)
        _, sampled = on_device(device, "npu_deformable_conv2d", image, weight, offset, bias, **call.options())
        arguments = (image, grad_output, sampled.cpu(), weight, offset)
        found = on_device(device, "npu_deformable_conv2dbk", *arguments, **call.options())
        for one, other in zip(found, (wanted[0], wanted[1], offsets(wanted[2], wanted[3]), wanted[4])):
            assert_on(device, one, other, **CLOSE)

    def test_taps_without_weights_are_not_emulated(self, device: str) -> None:
        call = Deformable("plain")
        tensors = call.input, call.weight, offsets(call.displacement, call.mask), None
        with pytest.raises(NotEmulated, match="modulated=False is not supported by the device either"):
            on_device(device, "npu_deformable_conv2d", *tensors, **{**call.options(), "modulated": False})

    def test_an_offset_without_weights_is_an_error(self, device: str) -> None:
        call = Deformable("plain")
        with pytest.raises(ValueError, match=r"expected offset of shape \(2, 27, 6, 7\), found \(2, 18, 6, 7\)"):
            on_device(
                device, "npu_deformable_conv2d", call.input, call.weight, call.displacement, None, **call.options()
            )


class TestRoiAlign:
    FEATURES = torch.arange(1.0, 37).view(1, 1, 6, 6)
    ROIS = torch.tensor([[0, -2.0, -2, 22, 22]])

    @pytest.mark.parametrize("samples", [0, 2])
    @pytest.mark.parametrize(("mode", "aligned"), [(0, False), (3, True)])
    def test_is_that_of_mmcv(self, device: str, mode: int, aligned: bool, samples: int) -> None:
        features = doubles(2, 3, 8, 9, requires_grad=True)
        # Inside, reaching beyond the image on two sides, and narrower than a pixel.
        rois = torch.tensor([[0, 1.3, 2.1, 12.4, 9.7], [1, -7, -5, 30, 40], [1, 4.1, 4.2, 4.3, 9.5]]).double()
        expected = mmcv_ops.roi_align(features, rois, (3, 2), 0.5, samples, "avg", aligned)
        found = on_device(device, "npu_roi_align", features, rois, 0.5, 3, 2, samples, mode)
        assert_on(device, found, expected, **CLOSE)

        grad_output = doubles(*expected.shape, seed=1)
        (wanted,) = torch.autograd.grad(expected, features, grad_output)
        arguments = grad_output, rois, list(features.shape), 2, 3, 0.5, samples, mode
        assert_on(device, on_device(device, "npu_roi_alignbk", *arguments), wanted, **CLOSE)

    def test_no_regions_have_no_features(self, device: str) -> None:
        found = on_device(device, "npu_roi_align", self.FEATURES, torch.zeros(0, 5), 0.25, 3, 3, 2, 0)
        assert found.shape == (0, 1, 3, 3)
        gradient = on_device(device, "npu_roi_alignbk", found.cpu(), torch.zeros(0, 5), [1, 1, 6, 6], 3, 3, 0.25, 2)
        assert_on(device, gradient, torch.zeros(1, 1, 6, 6))

    def test_other_modes_are_not_emulated(self, device: str) -> None:
        with pytest.raises(NotEmulated, match="roi_end_mode=1 is not emulated; 0 and 3 are"):
            on_device(device, "npu_roi_align", self.FEATURES, self.ROIS, 0.25, 3, 3, 2, 1)
