"""mmdet's ResNet on the emulated NPU: plugins, other backbones, where the pooling kernel may stand in."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from typing import Any

import mmdet
import pytest
import torch
from mmdet.models.backbones import HRNet, ResNet, resnet
from torch import Tensor, nn

import patchcore as pc
from mmcv_npu.plugin import PATCHES
from mmcv_npu.resnet import RESNET_ADD_RELU, RESNET_FP16, RESNET_MAXPOOL

CONTEXT = {"type": "ContextBlock", "ratio": 0.25}
PLUGINS = [{"cfg": {**CONTEXT, "postfix": f"_{n}"}, "position": f"after_conv{n}"} for n in (1, 2, 3)]


def downsample(channels: int, out_channels: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(channels, out_channels, 1, 2, bias=False), nn.BatchNorm2d(out_channels))


BLOCKS: dict[str, Callable[[], nn.Module]] = {
    "BasicBlock with_cp": lambda: resnet.BasicBlock(16, 16, with_cp=True),
    "BasicBlock downsample": lambda: resnet.BasicBlock(16, 24, stride=2, downsample=downsample(16, 24)),
    "BasicBlock GN": lambda: resnet.BasicBlock(16, 16, norm_cfg={"type": "GN", "num_groups": 4}),
    "Bottleneck": lambda: resnet.Bottleneck(16, 4),
    "Bottleneck caffe": lambda: resnet.Bottleneck(16, 8, stride=2, style="caffe", downsample=downsample(16, 32)),
    "Bottleneck plugins": lambda: resnet.Bottleneck(16, 4, plugins=copy.deepcopy(PLUGINS)),
    "Bottleneck plugins with_cp": lambda: resnet.Bottleneck(16, 4, plugins=copy.deepcopy(PLUGINS), with_cp=True),
}


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
    @pytest.mark.parametrize("name", BLOCKS)
    def test_blocks_in_training(self, name: str, device: torch.device, calls: Counter[str]) -> None:
        block = random_parameters(BLOCKS[name]())
        x = torch.randn(3, 16, 9, 7, requires_grad=True)
        expected = outcome(block, x, "cpu")
        with pc.Patcher([RESNET_ADD_RELU], strict=True):
            assert_agree(outcome(block, x, device), expected)
        # a checkpointed block runs its forward pass once more during the backward pass
        assert calls == {"npu_add_relu": 2 if "with_cp" in name else 1, "npu_add_relu_backward": 1}

    def test_the_checkpoint_is_the_kind_that_mmdet_gets(self, device: torch.device) -> None:
        block = BLOCKS["BasicBlock with_cp"]().to(device)
        x = torch.randn(1, 16, 5, 5, device=device, requires_grad=True)
        for patches in ([], [RESNET_ADD_RELU]):
            with pc.Patcher(patches, strict=True), pytest.raises(RuntimeError, match="use_reentrant=True"):
                torch.autograd.grad(block(x).sum(), x)

    @pytest.mark.parametrize("name", ["BasicBlock GN", "Bottleneck"])
    def test_large_enough_to_be_added_in_place(self, name: str, device: torch.device, calls: Counter[str]) -> None:
        block = random_parameters(BLOCKS[name]())
        x = torch.randn(1, 16, 400, 320, requires_grad=True)
        expected = outcome(block, x, "cpu")
        with pc.Patcher([RESNET_ADD_RELU], strict=True):
            assert_agree(outcome(block, x, device), expected)
        assert calls["npu_add_relu"] == 1

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
    def test_what_the_kernel_does_not_take_stays_with_torch(
        self, dtype: torch.dtype, device: torch.device, calls: Counter[str]
    ) -> None:
        block = random_parameters(BLOCKS["Bottleneck"]()).to(device, dtype)
        x = torch.randn(3, 16, 9, 7).to(device, dtype)
        expected = outcome(block, x, device)
        with pc.Patcher([RESNET_ADD_RELU], strict=True):
            assert all(map(torch.equal, outcome(block, x, device), expected))
        assert not calls

    def test_an_identity_of_another_dtype(self, device: torch.device, calls: Counter[str]) -> None:
        block = random_parameters(BLOCKS["Bottleneck"]()).to(device)
        x = torch.randn(3, 16, 9, 7, device=device)
        block.norm3.register_forward_hook(lambda module, arguments, output: output.half())
        expected = block(x).detach()
        with pc.Patcher([RESNET_ADD_RELU], strict=True):
            actual = block(x).detach()
        # the original adds in float32 and rounds once, the kernel gets the identity rounded already
        torch.testing.assert_close(actual, expected, rtol=5e-3, atol=5e-3)
        assert calls["npu_add_relu"] == 1

    def test_compiles_to_one_graph_as_before(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import mx_driving

        # a kernel that can be traced; the stand-in counts its calls, which cannot
        monkeypatch.setattr(mx_driving, "npu_add_relu", lambda x, y: torch.relu(x + y))
        block, x = random_parameters(BLOCKS["Bottleneck plugins"]()).eval(), torch.randn(2, 16, 6, 6)
        with pc.Patcher([RESNET_ADD_RELU], strict=True):
            torch.compiler.reset()
            compiled = torch.compile(block, backend="eager", fullgraph=True)(x)
        torch.testing.assert_close(compiled, block(x))

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

    def test_another_dtype_stays_with_torch(self, device: torch.device, calls: Counter[str]) -> None:
        model = backbone(frozen_stages=0).double()
        expected = outcome(model, image().double(), "cpu")
        with pc.Patcher([RESNET_MAXPOOL], strict=True):
            assert_agree(outcome(model, image().double(), device), expected)
        assert not calls

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

    def test_enabling_it_skips_the_pooling_kernel(self) -> None:
        plan = pc.Patcher(PATCHES, enable="resnet_fp16").plan()
        assert plan["mmdet.resnet_fp16"].verdict == "apply"
        skipped = plan["mmdet.resnet_maxpool"]
        assert (skipped.verdict, "conflicts with mmdet.resnet_fp16" in skipped.reason) == ("skipped", True)
