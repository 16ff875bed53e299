"""The layers of deformable convolution on the emulated NPU: mixed precision, and the limits of the kernels."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from mmcv.ops import (
    DeformConv2d,
    DeformConv2dPack,
    ModulatedDeformConv2d,
    ModulatedDeformConv2dPack,
    deform_conv,
    modulated_deform_conv,
)
from torch import Tensor, nn

import patchcore as pc
from mmcv_npu.deform_conv import DEFORM_CONV, MODULATED_DEFORM_CONV

#: What mmcv's own NPU path calls, by major version: in the forward pass, and in the backward pass. torch_npu 2.1
#: dropped these.
GONE = {1: "torch.npu_deformable_conv2d is deprecated", 2: "torch.npu_deformable_conv2dbk is deprecated"}


def pack(kind: type[nn.Module], device: torch.device) -> nn.Module:
    """Return a layer whose offsets, which it predicts itself, move the samples."""
    generator = torch.Generator().manual_seed(0)
    layer = kind(64, 64, 3, padding=1)
    for tensor in (layer.conv_offset.weight, layer.conv_offset.bias, layer.weight):
        tensor.data.copy_(0.1 * torch.randn(tensor.shape, generator=generator))
    return layer.to(device)


def train(layer: nn.Module, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the result under autocast to float16, and the gradients of the parameters."""
    with torch.autocast(x.device.type, dtype=torch.float16):
        out = layer(x)
    out.float().square().mean().backward()
    return out, {name: parameter.grad for name, parameter in layer.named_parameters()}


class TestMixedPrecision:
    @pytest.mark.parametrize(
        ("kind", "patch", "kernel"),
        [
            pytest.param(DeformConv2dPack, DEFORM_CONV, "deform_conv2d", id="DCN"),
            pytest.param(ModulatedDeformConv2dPack, MODULATED_DEFORM_CONV, "modulated_deform_conv2d", id="DCNv2"),
        ],
    )
    def test_layer_trains(
        self, kind: type[nn.Module], patch: pc.Patch, kernel: str, device: torch.device, major: int, calls: Counter[str]
    ) -> None:
        x = torch.randn(2, 64, 6, 6).to(device)
        with pytest.raises(RuntimeError, match=GONE[major]):
            train(pack(kind, device), x)
        with pc.Patcher([patch], strict=True):
            layer = pack(kind, device)
            out, gradients = train(layer, x)
            expected = pack(kind, device)(x)
        assert out.dtype == torch.float16
        assert calls[kernel] == 2
        assert calls[f"{kernel}_backward"] == 1
        for name, parameter in layer.named_parameters():
            assert gradients[name].dtype == torch.float32, name
            assert gradients[name].isfinite().all(), name
            assert parameter.dim() == 1 or gradients[name].abs().max() > 0, name
        assert (out - expected).abs().max() <= 1e-2 * expected.abs().max()  # 11 bits

    def test_autocast_does_not_reach_into_the_kernel(self, device: torch.device) -> None:
        """The result is the one of float32, rounded once to the offset's dtype."""
        tensors = [torch.randn(shape) for shape in ((2, 64, 5, 5), (2, 18, 5, 5), (2, 9, 5, 5), (64, 64, 3, 3))]
        tensors[1] = tensors[1].half()
        x, offset, mask, weight = tensors
        expected = {
            "deform_conv2d": deform_conv.deform_conv2d(x, offset.float(), weight, 1, 1),
            "modulated_deform_conv2d": modulated_deform_conv.modulated_deform_conv2d(
                x, offset.float(), mask, weight, None, 1, 1
            ),
        }
        x, offset, mask, weight = (tensor.to(device) for tensor in tensors)
        with (
            pc.Patcher([DEFORM_CONV, MODULATED_DEFORM_CONV], strict=True),
            torch.autocast(device.type, dtype=torch.float16),
        ):
            actual = {
                "deform_conv2d": deform_conv.deform_conv2d(x, offset, weight, 1, 1),
                "modulated_deform_conv2d": modulated_deform_conv.modulated_deform_conv2d(
                    x, offset, mask, weight, None, 1, 1
                ),
            }
        for name, wanted in expected.items():
            assert actual[name].dtype == torch.float16
            # half a unit in the last place of float16, and what is lost in float32 sums
            allowed = 2**-11 * wanted.abs() + 1e-5 * wanted.abs().max()
            assert ((actual[name].cpu().float() - wanted).abs() <= allowed).all(), name

    def test_gradients_have_the_dtypes_of_the_tensors(self, device: torch.device) -> None:
        dtypes = (torch.float32, torch.float16, torch.bfloat16)
        shapes = (2, 64, 5, 5), (2, 18, 5, 5), (8, 64, 3, 3)
        tensors = [torch.randn(shape).to(device, dtype).requires_grad_() for shape, dtype in zip(shapes, dtypes)]
        with pc.Patcher([DEFORM_CONV], strict=True):
            out = deform_conv.deform_conv2d(*tensors, 1, 1)
            out.float().sum().backward()
        assert out.dtype == torch.float16  # as in mmcv, which computes in the dtype of the offset
        assert [tensor.grad.dtype for tensor in tensors] == list(dtypes)


def convolve(device: torch.device, out_channels: int = 64, kernel: int = 3) -> Tensor:
    """Return a convolution of 64 channels."""
    size = 5 + 2 - kernel + 1
    x, offset = torch.randn(2, 64, 5, 5), torch.randn(2, 2 * kernel * kernel, size, size)
    weight = torch.randn(out_channels, 64, kernel, kernel)
    return deform_conv.deform_conv2d(*(tensor.to(device) for tensor in (x, offset, weight)), 1, 1)


class TestLimits:
    """What lies outside of them is tested in test_other_paths."""

    @pytest.mark.parametrize("call", [{"out_channels": 48}, {"kernel": 1}], ids=["48 channels out", "1 x 1"])
    def test_the_kernel_without_a_mask_has_fewer(
        self, call: dict[str, int], device: torch.device, calls: Counter[str]
    ) -> None:
        with pc.Patcher([DEFORM_CONV], strict=True):
            convolve(device, **call)
        assert calls == {"deform_conv2d": 1}

    def test_mmcv_still_refuses_a_bias_and_wrong_ranks(self, device: torch.device, calls: Counter[str]) -> None:
        x, offset, weight = (
            torch.zeros(shape, device=device) for shape in ((1, 64, 5, 5), (1, 18, 5, 5), (8, 64, 3, 3))
        )
        with pc.Patcher([DEFORM_CONV, MODULATED_DEFORM_CONV], strict=True):
            with pytest.raises(AssertionError, match="Only support bias is False"):
                deform_conv.deform_conv2d(x, offset, weight, 1, 1, 1, 1, 1, True)
            with pytest.raises(ValueError, match="Expected 4D tensor"):
                deform_conv.deform_conv2d(x[0], offset, weight, 1, 1)
            with pytest.raises(ValueError, match="Expected 4D tensor"):
                modulated_deform_conv.modulated_deform_conv2d(x[0], offset, offset[:, :9], weight)
        assert not calls


class TestLayers:
    def test_input_smaller_than_the_kernel(self, device: torch.device, calls: Counter[str]) -> None:
        """``DeformConv2d`` pads both tensors and crops the result."""
        layer = DeformConv2d(64, 8, 3, padding=1)
        x, offset = torch.randn(2, 64, 2, 5), 0.1 + 0.8 * torch.rand(2, 18, 2, 5)
        expected = layer(x, offset)
        with pc.Patcher([DEFORM_CONV], strict=True):
            actual = layer.to(device)(x.to(device), offset.to(device))
        torch.testing.assert_close(actual.cpu(), expected, rtol=1e-5, atol=1e-5)
        assert calls["deform_conv2d"] == 1

    @pytest.mark.parametrize("bias", [True, False])
    def test_bias_of_the_modulated_layer(self, bias: bool, device: torch.device, calls: Counter[str]) -> None:
        layer = ModulatedDeformConv2d(64, 64, 3, padding=1, bias=bias)
        if bias:
            layer.bias.data.normal_()
        x, offset, mask = torch.randn(2, 64, 5, 5), torch.rand(2, 18, 5, 5), torch.rand(2, 9, 5, 5)
        expected = layer(x, offset, mask)
        with pc.Patcher([MODULATED_DEFORM_CONV], strict=True):
            actual = layer.to(device)(x.to(device), offset.to(device), mask.to(device))
        torch.testing.assert_close(actual.cpu(), expected, rtol=1e-5, atol=1e-5)
        assert calls["modulated_deform_conv2d"] == 1
