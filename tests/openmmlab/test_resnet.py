"""mmdet's ResNet on the emulated NPU: plugins, other backbones, where the pooling kernel may stand in."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import mmdet
import pytest
import torch
from mmdet.models.backbones import HRNet, ResNet, resnet
from torch import Tensor, nn

import patchcore as pc
from mmcv_npu.resnet import RESNET_ADD_RELU, RESNET_FP16, RESNET_MAXPOOL

CONTEXT = {"type": "ContextBlock", "ratio": 0.25}
PLUGINS = [{"cfg": {**CONTEXT, "postfix": f"_{n}"}, "position": f"after_conv{n}"} for n in (1, 2, 3)]


def random_parameters(module: nn.Module) -> nn.Module:
    """Give every parameter a value that shows when it is left out; return the module."""
    generator = torch.Generator().manual_seed(0)
    for parameter in module.parameters():
        draw = torch.randn(parameter.shape, generator=generator)
        parameter.data.copy_(0.1 * draw if parameter.dim() > 1 else 0.2 + 0.1 * draw.abs())
    return module


def outcome(module: nn.Module, x: Tensor, device: Any) -> list[Tensor]:
    """Return results and gradients of a copy of the module on a device, and the gradient of ``x`` if it needs one."""
    module = copy.deepcopy(module).to(device)
    x = x.detach().to(device).requires_grad_(x.requires_grad)
    outs = module(x)
    outs = (outs,) if isinstance(outs, Tensor) else outs
    sum(out.square().sum() for out in outs).backward()
    leaves = [leaf for leaf in (x, *module.parameters()) if leaf.requires_grad]
    return [tensor.detach().cpu() for tensor in (*outs, *(leaf.grad for leaf in leaves))]


def assert_agree(actual: list[Tensor], expected: list[Tensor]) -> None:
    assert len(actual) == len(expected)
    for ours, theirs in zip(actual, expected):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5 * float(theirs.abs().max()))


def image(requires_grad: bool = False) -> Tensor:
    x = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    return x.requires_grad_(requires_grad)


def backbone(**arguments: Any) -> nn.Module:
    """Return a ResNet-18 without its last two stages."""
    stages = {"num_stages": 2, "strides": (1, 2), "dilations": (1, 1), "out_indices": (0, 1), "norm_eval": False}
    model = random_parameters(ResNet(depth=18, base_channels=16, stem_channels=16, **{**stages, **arguments}))
    model.train()  # mmdet's returns nothing
    return model


def test_replacements_are_written_for_this_mmdet(major: int) -> None:
    """They follow the originals statement by statement; another mmdet may need other ones."""
    assert mmdet.__version__ == {1: "2.28.2", 2: "3.3.0"}[major]


class TestAddRelu:
    @pytest.mark.filterwarnings("ignore:torch.utils.checkpoint:UserWarning")
    @pytest.mark.parametrize("with_cp", [False, True], ids=["", "with_cp"])
    def test_plugins(self, with_cp: bool, device: torch.device, calls: Counter[str]) -> None:
        block = random_parameters(resnet.Bottleneck(16, 4, plugins=copy.deepcopy(PLUGINS), with_cp=with_cp))
        x = torch.randn(3, 16, 9, 7, requires_grad=True)
        expected = outcome(block, x, "cpu")
        with pc.Patcher([RESNET_ADD_RELU], strict=True):
            assert_agree(outcome(block, x, device), expected)
        # a checkpointed block runs its forward pass once more during the backward pass
        assert calls == {"npu_add_relu": 2 if with_cp else 1, "npu_add_relu_backward": 1}

    def test_other_backbones_use_these_blocks(self, device: torch.device, calls: Counter[str]) -> None:
        stages = {
            f"stage{n}": {
                "num_modules": 1,
                "num_branches": n,
                "block": "BOTTLENECK" if n == 1 else "BASIC",
                "num_blocks": (1,) * n,
                "num_channels": (8,) * n,
            }
            for n in (1, 2, 3, 4)
        }
        model = random_parameters(HRNet(stages))
        model.eval()
        with torch.no_grad():
            expected = model(image())
            with pc.Patcher([RESNET_ADD_RELU], strict=True):
                actual = model.to(device)(image().to(device))
        assert_agree([one.cpu() for one in actual], list(expected))
        assert calls["npu_add_relu"] == 1 + 2 + 3 + 4


class TestMaxPool:
    @pytest.mark.parametrize(("frozen_stages", "kernel_runs"), [(0, 1), (1, 1), (-1, 0)])
    def test_only_where_no_gradient_passes(
        self, frozen_stages: int, kernel_runs: int, device: torch.device, calls: Counter[str]
    ) -> None:
        model = backbone(frozen_stages=frozen_stages)
        expected = outcome(model, image(), "cpu")
        with pc.Patcher([RESNET_MAXPOOL], strict=True):
            assert_agree(outcome(model, image(), device), expected)
        assert calls["npu_max_pool2d"] == kernel_runs

    def test_gradient_of_the_image_below_a_frozen_stem(self, device: torch.device, calls: Counter[str]) -> None:
        model = backbone(frozen_stages=0)
        expected = outcome(model, image(requires_grad=True), "cpu")
        with pc.Patcher([RESNET_MAXPOOL], strict=True):
            assert_agree(outcome(model, image(requires_grad=True), device), expected)
        assert not calls


class TestFp16:
    def test_computes_in_float16_and_returns_float32(self, device: torch.device, calls: Counter[str]) -> None:
        model = backbone(norm_eval=True).to(device)
        expected = [out.detach() for out in model(image().to(device))]
        dtypes: list[torch.dtype] = []
        model.layer2.register_forward_hook(lambda module, arguments, output: dtypes.append(output.dtype))
        with pc.Patcher([RESNET_FP16, RESNET_ADD_RELU], enable=RESNET_FP16, strict=True):
            outs = model(image().to(device))
        assert (dtypes, {out.dtype for out in outs}) == ([torch.float16], {torch.float32})
        for out, wanted in zip(outs, expected):
            assert 0 < (out - wanted).abs().max() <= 5e-3 * wanted.abs().max()
        assert calls["npu_add_relu"] == 4
