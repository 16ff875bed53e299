"""Operators and backbones of plugins/mmcv_npu on mmcv 2.1 and mmdet 3.3, with the kernels' stand-ins on the CPU.

On an emulated NPU, and on mmcv 1.x and mmdet 2.x, they are tested in tests/openmmlab.

Deformable operators agree when the largest difference is at most ``TOLERANCE`` times the largest expected value: the
kernels sum in another order, and the largest such ratio found here (torch 2.13.0) is 1.2e-6. The residual blocks and
the pooling run the same operations in the same order, and must be equal.
"""

from __future__ import annotations

import copy
import pickle
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("mmcv._ext", reason="needs mmcv with its compiled operators")
pytest.importorskip("mmdet")

from mmcv.ops import (  # noqa: E402
    DeformConv2d,
    DeformConv2dPack,
    ModulatedDeformConv2d,
    ModulatedDeformConv2dPack,
    deform_conv,
    modulated_deform_conv,
    multi_scale_deform_attn,
)
from mmcv.ops import deform_conv2d as taken_by_value  # noqa: E402
from mmcv.ops import modulated_deform_conv2d as modulated_taken_by_value  # noqa: E402
from mmdet.models.backbones import ResNet, ResNeXt  # noqa: E402
from mmdet.models.backbones.resnet import BasicBlock, Bottleneck  # noqa: E402
from torch import Tensor, nn  # noqa: E402

import npu_emulator  # noqa: E402
import patchcore as pc  # noqa: E402
from mmcv_npu.deform_conv import DEFORM_CONV, MODULATED_DEFORM_CONV  # noqa: E402
from mmcv_npu.multi_scale_deformable_attention import MULTI_SCALE_DEFORMABLE_ATTENTION  # noqa: E402
from mmcv_npu.plugin import PATCHES  # noqa: E402
from mmcv_npu.resnet import RESNET_ADD_RELU, RESNET_FP16, RESNET_MAXPOOL  # noqa: E402

TOLERANCE = 1e-5
HALF = 5e-3  # where float16 with its 11 bits is part of it; the largest ratio found is 1.6e-3


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """On tensors this small, a second thread costs more than it gives."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def calls() -> Iterator[Counter[str]]:
    """How often each kernel ran in this test."""
    with npu_emulator.install(device=False):
        npu_emulator.mx_driving.calls.clear()
        yield npu_emulator.mx_driving.calls
    npu_emulator.mx_driving.calls.clear()


def outcome(function: Callable[..., Any], *leaves: Tensor, parameters: Sequence[Tensor] = ()) -> list[Tensor]:
    """Return the results of ``function(*leaves)``, then the gradients of the leaves and of the parameters."""
    leaves = tuple(leaf.detach().clone().requires_grad_() for leaf in leaves)
    results = function(*leaves)
    results = (results,) if isinstance(results, Tensor) else results
    generator = torch.Generator().manual_seed(0)
    random = [torch.randn(result.shape, generator=generator).type_as(result) for result in results]
    for tensor in parameters:
        tensor.grad = None
    torch.autograd.backward(results, random)
    gradients = [tensor.grad for tensor in (*leaves, *parameters)]
    return [*(result.detach() for result in results), *gradients]


def of_module(module: nn.Module, *leaves: Tensor) -> list[Tensor]:
    """Return what ``outcome`` does, and the buffers of the module after the call; the module itself stays as it is."""
    module = copy.deepcopy(module)
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    return [*outcome(module, *leaves, parameters=parameters), *module.buffers()]


def assert_agree(actual: Sequence[Tensor], expected: Sequence[Tensor], tolerance: float = TOLERANCE) -> None:
    assert len(actual) == len(expected)
    for number, (ours, theirs) in enumerate(zip(actual, expected)):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        largest = theirs.abs().max().item()
        assert largest > 0, f"result {number} is zero everywhere: nothing is compared"
        difference = (ours - theirs).abs().max().item()
        assert difference <= tolerance * largest, f"result {number}: {difference:.2e} of {largest:.2e}"


def assert_equal(actual: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    assert len(actual) == len(expected)
    for number, (ours, theirs) in enumerate(zip(actual, expected)):
        assert torch.equal(ours, theirs), f"result {number}"


def random_parameters(module: nn.Module, seed: int = 0) -> nn.Module:
    """Give every parameter and running statistic a value that shows when it is left out; return the module."""
    generator = torch.Generator().manual_seed(seed)
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.is_floating_point():
            tensor.data.copy_(0.2 + 0.1 * torch.randn(tensor.shape, generator=generator).abs())
    for parameter in module.parameters():
        if parameter.dim() > 1:
            parameter.data.copy_(0.1 * torch.randn(parameter.shape, generator=generator))
    return module


# --- deformable convolution -------------------------------------------------------------------------------------------


class Convolution:
    """The arguments of one deformable convolution, with random shapes that the kernel takes."""

    def __init__(self, seed: int, channels: int = 64, out_channels: int = 64, **geometry: Any) -> None:
        self.random = torch.Generator().manual_seed(seed)
        kernel = geometry.get("kernel", 3)
        self.stride = (self.draw(1, 3), self.draw(1, 3))
        self.padding = (self.draw(1, 3), self.draw(1, 3))
        self.dilation = (self.draw(1, 3), self.draw(1, 3))
        self.groups = geometry.get("groups", 1 << self.draw(0, 3))
        self.deform_groups = geometry.get("deform_groups", 1)
        size = self.draw(6, 10), self.draw(6, 10)
        batch, dtype = self.draw(1, 3), geometry.get("dtype", torch.float32)
        probe = nn.functional.conv2d(
            torch.empty(1, 1, *size), torch.empty(1, 1, kernel, kernel), None, self.stride, self.padding, self.dilation
        )
        taps = kernel * kernel * self.deform_groups
        shape = (batch, 2 * taps, *probe.shape[2:])
        # between whole pixels: there the derivative jumps
        whole = torch.randint(-3, 3, shape, generator=self.random)
        self.x = self.normal(batch, channels, *size).to(dtype)
        self.offset = (whole + 0.1 + 0.8 * torch.rand(shape, generator=self.random)).to(dtype)
        self.mask = torch.rand(batch, taps, *probe.shape[2:], generator=self.random).to(dtype)
        self.weight = self.normal(out_channels, channels // self.groups, kernel, kernel).to(dtype)
        self.bias = self.normal(out_channels).to(dtype)

    def in_float32(self) -> Convolution:
        """Return the same numbers as float32."""
        other = copy.copy(self)
        for name in ("x", "offset", "mask", "weight", "bias"):
            setattr(other, name, getattr(self, name).float())
        return other

    def draw(self, low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=self.random))

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.random)

    @property
    def geometry(self) -> tuple[Any, ...]:
        return self.stride, self.padding, self.dilation, self.groups, self.deform_groups

    def layer(self, kind: type, **arguments: Any) -> nn.Module:
        """Return a layer of mmcv with this geometry, and offsets of its own that move the samples."""
        out_channels, channels = self.weight.shape[0], self.x.shape[1]
        geometry = {"stride": self.stride, "padding": self.padding, "dilation": self.dilation}
        groups = {"groups": self.groups, "deform_groups": self.deform_groups}
        layer = kind(channels, out_channels, self.weight.shape[2], **geometry, **groups, **arguments)
        layer.weight.data.copy_(self.weight)
        if hasattr(layer, "conv_offset"):
            layer.conv_offset.weight.data.copy_(0.1 * self.normal(*layer.conv_offset.weight.shape))
            layer.conv_offset.bias.data.copy_(self.normal(*layer.conv_offset.bias.shape))
        return layer

    def plain(self, function: Callable[..., Tensor], *rest: Any) -> list[Tensor]:
        return outcome(lambda *tensors: function(*tensors, *self.geometry, *rest), self.x, self.offset, self.weight)

    def modulated(self, function: Callable[..., Tensor], *, bias: bool = True) -> list[Tensor]:
        tensors = [self.x, self.offset, self.mask, self.weight, *([self.bias] if bias else [])]
        rest = self.geometry if bias else (None, *self.geometry)
        return outcome(lambda *leaves: function(*leaves, *rest), *tensors)


SEEDS = range(5)
# How the operators are reached: looked up each time, so that a name bound at the top of this module is seen as it is.
PLAIN_ROUTES: dict[str, Callable[[], Callable[..., Tensor]]] = {
    "Function.apply": lambda: deform_conv.DeformConv2dFunction.apply,
    "mmcv.ops.deform_conv": lambda: deform_conv.deform_conv2d,
    "mmcv.ops": lambda: sys.modules["mmcv.ops"].deform_conv2d,  # type: ignore[attr-defined]
    "mmcv.ops.saconv": lambda: sys.modules["mmcv.ops.saconv"].deform_conv2d,  # type: ignore[attr-defined]
    "taken by value": lambda: taken_by_value,
}
MODULATED_ROUTES: dict[str, Callable[[], Callable[..., Tensor]]] = {
    "Function.apply": lambda: modulated_deform_conv.ModulatedDeformConv2dFunction.apply,
    "mmcv.ops.modulated_deform_conv": lambda: modulated_deform_conv.modulated_deform_conv2d,
    "mmcv.ops": lambda: sys.modules["mmcv.ops"].modulated_deform_conv2d,  # type: ignore[attr-defined]
    "taken by value": lambda: modulated_taken_by_value,
}


class TestDeformConv:
    @pytest.mark.parametrize("seed", SEEDS)
    @pytest.mark.parametrize("route", PLAIN_ROUTES)
    def test_function(self, calls: Counter[str], route: str, seed: int) -> None:
        case = Convolution(seed)
        expected = case.plain(PLAIN_ROUTES[route]())
        assert not calls
        with pc.Patcher([DEFORM_CONV], strict=True):
            assert_agree(case.plain(PLAIN_ROUTES[route]()), expected)
        assert calls == {"deform_conv2d": 1, "deform_conv2d_backward": 1}
        assert_equal(case.plain(PLAIN_ROUTES[route]()), expected)
        assert calls["deform_conv2d"] == 1

    @pytest.mark.parametrize("seed", SEEDS)
    def test_layers(self, calls: Counter[str], seed: int) -> None:
        case = Convolution(seed, channels=128, out_channels=32, groups=1)
        layer, pack = case.layer(DeformConv2d), case.layer(DeformConv2dPack)
        expected = of_module(layer, case.x, case.offset), of_module(pack, case.x)
        with pc.Patcher([DEFORM_CONV], strict=True):
            assert_agree(of_module(layer, case.x, case.offset), expected[0])
            assert_agree(of_module(pack, case.x), expected[1])
        assert calls == {"deform_conv2d": 2, "deform_conv2d_backward": 2}

    @pytest.mark.parametrize(
        "misfit",
        [{"channels": 48}, {"deform_groups": 2}, {"dtype": torch.float64}],
        ids=["48", "deform_groups", "float64"],
    )
    @pytest.mark.parametrize("route", PLAIN_ROUTES)
    def test_what_the_kernel_does_not_take_stays_with_mmcv(
        self, calls: Counter[str], route: str, misfit: dict[str, Any]
    ) -> None:
        case = Convolution(0, **misfit)
        expected = case.plain(PLAIN_ROUTES[route]())
        with pc.Patcher([DEFORM_CONV], strict=True):
            assert_equal(case.plain(PLAIN_ROUTES[route]()), expected)
        assert not calls

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_half_precision_is_computed_in_float32(self, calls: Counter[str], dtype: torch.dtype) -> None:
        case = Convolution(0, dtype=dtype)
        expected = [tensor.to(dtype) for tensor in case.in_float32().plain(taken_by_value)]
        with pc.Patcher([DEFORM_CONV], strict=True):
            assert_agree(case.plain(taken_by_value), expected, tolerance=2e-2)  # bfloat16 has 8 bits
        assert calls == {"deform_conv2d": 1, "deform_conv2d_backward": 1}

    def test_result_has_the_dtype_of_the_offset(self, calls: Counter[str]) -> None:
        case = Convolution(0)
        expected = case.plain(taken_by_value)
        case.x, case.weight = case.x.double(), case.weight.half()
        with pc.Patcher([DEFORM_CONV], strict=True):
            output, *gradients = case.plain(taken_by_value)
        assert output.dtype == torch.float32
        assert [gradient.dtype for gradient in gradients] == [torch.float64, torch.float32, torch.float16]
        assert_agree([output, *(gradient.float() for gradient in gradients)], expected, tolerance=HALF)
        assert calls["deform_conv2d"] == 1

    def test_tensors_on_the_cpu_are_not_for_the_real_kernels(
        self, calls: Counter[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Those of this module are, because the stand-ins compute on every device and there is no NPU here."""
        case = Convolution(0)
        expected = case.plain(taken_by_value)
        monkeypatch.setattr(npu_emulator.mx_driving, "__emulated__", False)
        with pc.Patcher([DEFORM_CONV], strict=True):
            assert_equal(case.plain(taken_by_value), expected)
        assert not calls

    def test_an_exception_of_the_kernel_reaches_the_caller(self) -> None:
        case = Convolution(0)
        with pc.Patcher([DEFORM_CONV], strict=True), pytest.raises(ValueError, match=r"mx_driving\.deform_conv2d"):
            taken_by_value(case.x, case.offset[:, :-1], case.weight, *case.geometry)


class TestModulatedDeformConv:
    @pytest.mark.parametrize("seed", SEEDS)
    @pytest.mark.parametrize("bias", [True, False])
    @pytest.mark.parametrize("route", MODULATED_ROUTES)
    def test_function(self, calls: Counter[str], route: str, bias: bool, seed: int) -> None:
        case = Convolution(seed)
        expected = case.modulated(MODULATED_ROUTES[route](), bias=bias)
        assert not calls
        with pc.Patcher([MODULATED_DEFORM_CONV], strict=True):
            assert_agree(case.modulated(MODULATED_ROUTES[route](), bias=bias), expected)
        assert calls == {"modulated_deform_conv2d": 1, "modulated_deform_conv2d_backward": 1}
        assert_equal(case.modulated(MODULATED_ROUTES[route](), bias=bias), expected)
        assert calls["modulated_deform_conv2d"] == 1

    @pytest.mark.parametrize("bias", [True, False])
    @pytest.mark.parametrize("seed", SEEDS)
    def test_layers(self, calls: Counter[str], seed: int, bias: bool) -> None:
        case = Convolution(seed, channels=128, groups=2)
        layers = case.layer(ModulatedDeformConv2d, bias=bias), case.layer(ModulatedDeformConv2dPack, bias=bias)
        for layer in layers:
            if bias:
                layer.bias.data.copy_(case.bias)
        inputs = (case.x, case.offset, case.mask), (case.x,)
        expected = [of_module(layer, *leaves) for layer, leaves in zip(layers, inputs)]
        with pc.Patcher([MODULATED_DEFORM_CONV], strict=True):
            for layer, leaves, theirs in zip(layers, inputs, expected):
                assert_agree(of_module(layer, *leaves), theirs)
        assert calls == {"modulated_deform_conv2d": 2, "modulated_deform_conv2d_backward": 2}

    @pytest.mark.parametrize(
        "misfit",
        [{"channels": 48}, {"out_channels": 48}, {"deform_groups": 2}, {"kernel": 1}, {"dtype": torch.float64}],
        ids=["48 in", "48 out", "deform_groups", "1x1", "float64"],
    )
    @pytest.mark.parametrize("bias", [True, False])
    def test_what_the_kernel_does_not_take_stays_with_mmcv(
        self, calls: Counter[str], bias: bool, misfit: dict[str, Any]
    ) -> None:
        case = Convolution(0, **misfit)
        expected = case.modulated(modulated_taken_by_value, bias=bias)
        with pc.Patcher([MODULATED_DEFORM_CONV], strict=True):
            assert_equal(case.modulated(modulated_taken_by_value, bias=bias), expected)
        assert not calls

    def test_under_autocast(self, calls: Counter[str]) -> None:
        case = Convolution(0)
        expected = case.modulated(modulated_taken_by_value)
        case.offset = case.offset.bfloat16()  # what autocast makes of the layer that predicts it
        with pc.Patcher([MODULATED_DEFORM_CONV], strict=True), torch.autocast("cpu", dtype=torch.bfloat16):
            output, *gradients = case.modulated(modulated_taken_by_value)
        dtypes = [torch.bfloat16, torch.float32, torch.bfloat16, *3 * [torch.float32]]
        assert [tensor.dtype for tensor in (output, *gradients)] == dtypes
        assert_agree([output.float()], [expected[0]], tolerance=2e-2)  # bfloat16 has 8 bits; 1.0e-2 found
        assert calls == {"modulated_deform_conv2d": 1, "modulated_deform_conv2d_backward": 1}


# --- multi-scale deformable attention ---------------------------------------------------------------------------------


class Attention:
    """The arguments of one attention, with random shapes."""

    def __init__(self, seed: int, heads: int = 4, channels: int = 16, points: int = 4) -> None:
        random = torch.Generator().manual_seed(seed)
        levels, batch, queries = (int(torch.randint(1, 4, (), generator=random)) for _ in range(3))
        self.shapes = torch.randint(2, 7, (levels, 2), generator=random)
        areas = self.shapes.prod(1)
        self.starts = torch.cat((areas.new_zeros(1), areas.cumsum(0)[:-1]))
        self.value = torch.randn(batch, int(areas.sum()), heads, channels, generator=random)
        self.locations = 1.2 * torch.rand(batch, queries, heads, levels, points, 2, generator=random) - 0.1
        weights = torch.randn(batch, queries, heads, levels * points, generator=random).softmax(-1)
        self.weights = weights.view(batch, queries, heads, levels, points)

    def reference(self) -> list[Tensor]:
        attend = multi_scale_deform_attn.multi_scale_deformable_attn_pytorch
        return outcome(
            lambda value, locations, weights: attend(value, self.shapes, locations, weights),
            self.value,
            self.locations,
            self.weights,
        )

    def through_the_function(self) -> list[Tensor]:
        return outcome(self.apply, self.value, self.locations, self.weights)

    def apply(self, value: Tensor, locations: Tensor, weights: Tensor) -> Tensor:
        function = multi_scale_deform_attn.MultiScaleDeformableAttnFunction
        return function.apply(value, self.shapes, self.starts, locations, weights, 64)


# what mmcv's operator says on a CPU, for which it has no kernel: the call has reached it
NO_CPU_KERNEL = "implementation for device cpu not found"


class TestMultiScaleDeformableAttention:
    @pytest.mark.parametrize("seed", range(8))
    def test_function(self, calls: Counter[str], seed: int) -> None:
        case = Attention(seed)
        with pc.Patcher([MULTI_SCALE_DEFORMABLE_ATTENTION], strict=True):
            assert_agree(case.through_the_function(), case.reference())
        assert calls == {"multi_scale_deformable_attn": 1, "multi_scale_deformable_attn_backward": 1}
        with pytest.raises(RuntimeError, match=NO_CPU_KERNEL):
            case.through_the_function()

    def test_layer_takes_the_function_where_its_tensors_count_as_cuda(
        self, calls: Counter[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """On a device, torch_npu's transfer_to_npu makes them: mmcv 2.1's layer knows CUDA and MLU tensors only."""
        case = Attention(3)
        layer = random_parameters(
            multi_scale_deform_attn.MultiScaleDeformableAttention(64, 4, len(case.shapes), 4, dropout=0.0)
        )
        query = torch.randn(5, len(case.value), 64, generator=torch.Generator().manual_seed(1))
        keys = case.value.flatten(2).transpose(0, 1)
        points = torch.rand(len(case.value), 5, len(case.shapes), 2, generator=torch.Generator().manual_seed(2))
        rest = {"reference_points": points, "spatial_shapes": case.shapes, "level_start_index": case.starts}

        def run() -> list[Tensor]:
            return outcome(lambda q, v: layer(q, value=v, **rest), query, keys, parameters=list(layer.parameters()))

        expected = run()
        with pc.Patcher([MULTI_SCALE_DEFORMABLE_ATTENTION], strict=True), monkeypatch.context() as context:
            assert_equal(run(), expected)
            assert not calls
            context.setattr(multi_scale_deform_attn, "IS_CUDA_AVAILABLE", True)
            context.setattr(torch.Tensor, "is_cuda", True)
            assert_agree(run(), expected)
        assert calls == {"multi_scale_deformable_attn": 1, "multi_scale_deformable_attn_backward": 1}

    @pytest.mark.parametrize("misfit", [{"heads": 16}, {"channels": 12}, {"channels": 264}, {"points": 65}], ids=str)
    def test_what_the_kernel_does_not_take_is_computed_by_mmcvs_plain_function(
        self, calls: Counter[str], misfit: dict[str, int]
    ) -> None:
        case = Attention(0, **misfit)
        with pc.Patcher([MULTI_SCALE_DEFORMABLE_ATTENTION], strict=True):
            assert_agree(case.through_the_function(), case.reference())
        assert not calls

    def test_second_derivative_is_refused_as_before(self) -> None:
        case = Attention(0)
        value = case.value.clone().requires_grad_()
        with pc.Patcher([MULTI_SCALE_DEFORMABLE_ATTENTION], strict=True):
            output = case.apply(value, case.locations, case.weights)
            (gradient,) = torch.autograd.grad(output.square().sum(), value, create_graph=True)
            with pytest.raises(RuntimeError, match="once_differentiable"):
                gradient.sum().backward()

    def test_reverted_between_forward_and_backward(self) -> None:
        case = Attention(0)
        with pc.Patcher([MULTI_SCALE_DEFORMABLE_ATTENTION], strict=True):
            output = case.apply(case.value.clone().requires_grad_(), case.locations, case.weights)
        with pytest.raises(RuntimeError, match=NO_CPU_KERNEL):  # not for an attribute that mmcv's backward pass misses
            output.sum().backward()


# --- mmdet's ResNet ---------------------------------------------------------------------------------------------------

CONTEXT = {"type": "ContextBlock", "ratio": 0.25}
BLOCK_PLUGINS = [
    {"cfg": {**CONTEXT, "postfix": "_one"}, "position": "after_conv1"},
    {"cfg": {**CONTEXT, "postfix": "_two"}, "position": "after_conv2"},
    {"cfg": {**CONTEXT, "postfix": "_three"}, "position": "after_conv3"},
]


def downsample(channels: int, out_channels: int, stride: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(channels, out_channels, 1, stride, bias=False), nn.BatchNorm2d(out_channels))


BLOCKS: dict[str, Callable[[], nn.Module]] = {
    "BasicBlock": lambda: BasicBlock(16, 16),
    "BasicBlock with_cp": lambda: BasicBlock(16, 16, with_cp=True),
    "BasicBlock downsample": lambda: BasicBlock(16, 24, stride=2, downsample=downsample(16, 24, 2)),
    "BasicBlock GN": lambda: BasicBlock(16, 16, norm_cfg={"type": "GN", "num_groups": 4}),
    "Bottleneck": lambda: Bottleneck(16, 4),
    "Bottleneck with_cp": lambda: Bottleneck(16, 4, with_cp=True),
    "Bottleneck downsample": lambda: Bottleneck(16, 8, stride=2, downsample=downsample(16, 32, 2)),
    "Bottleneck caffe": lambda: Bottleneck(16, 8, stride=2, style="caffe", downsample=downsample(16, 32, 2)),
    "Bottleneck plugins": lambda: Bottleneck(16, 4, plugins=copy.deepcopy(BLOCK_PLUGINS)),
    "Bottleneck plugins with_cp": lambda: Bottleneck(16, 4, plugins=copy.deepcopy(BLOCK_PLUGINS), with_cp=True),
}


@pytest.mark.filterwarnings("ignore:torch.utils.checkpoint:UserWarning")
class TestResNetAddRelu:
    @pytest.mark.parametrize("mode", ["train", "eval"])
    @pytest.mark.parametrize("name", BLOCKS)
    def test_block(self, calls: Counter[str], name: str, mode: str) -> None:
        block = random_parameters(BLOCKS[name]()).train(mode == "train")
        x = torch.randn(3, 16, 9, 7, generator=torch.Generator().manual_seed(0))
        expected = of_module(block, x)
        assert not calls
        with pc.Patcher([RESNET_ADD_RELU], strict=True):
            assert_equal(of_module(block, x), expected)
        # a checkpointed block runs its forward pass once more during the backward pass
        assert calls == {"npu_add_relu": 2 if "with_cp" in name else 1, "npu_add_relu_backward": 1}

    def test_checkpoint_is_the_kind_that_mmdet_gets(self) -> None:
        block, x = random_parameters(BLOCKS["BasicBlock with_cp"]()), torch.randn(1, 16, 5, 5, requires_grad=True)
        for patches in ([], [RESNET_ADD_RELU]):
            with pc.Patcher(patches, strict=True), pytest.raises(RuntimeError, match="use_reentrant=True"):
                torch.autograd.grad(block(x).sum(), x)

    @pytest.mark.parametrize("name", ["BasicBlock", "Bottleneck"])
    def test_large_enough_to_be_added_in_place(self, calls: Counter[str], name: str) -> None:
        block = random_parameters(BLOCKS[name]())
        x = torch.randn(1, 16, 400, 320, generator=torch.Generator().manual_seed(0))
        expected = of_module(block, x)
        with pc.Patcher([RESNET_ADD_RELU], strict=True):
            assert_equal(of_module(block, x), expected)
        assert calls["npu_add_relu"] == 1

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
    def test_what_the_kernel_does_not_take_stays_with_torch(self, calls: Counter[str], dtype: torch.dtype) -> None:
        block = random_parameters(BLOCKS["BasicBlock"]()).to(dtype)
        x = torch.randn(3, 16, 9, 7, generator=torch.Generator().manual_seed(0)).to(dtype)
        expected = of_module(block, x)
        with pc.Patcher([RESNET_ADD_RELU], strict=True):
            assert_equal(of_module(block, x), expected)
        assert not calls

    def test_identity_of_another_dtype(self, calls: Counter[str]) -> None:
        block = random_parameters(BLOCKS["BasicBlock"]())
        x = torch.randn(3, 16, 9, 7, generator=torch.Generator().manual_seed(0))
        block.norm2.register_forward_hook(lambda module, arguments, output: output.half())
        expected = of_module(block, x)
        with pc.Patcher([RESNET_ADD_RELU], strict=True):
            # the original adds in float32 and rounds once, the kernel gets the identity rounded already
            assert_agree(of_module(block, x), expected, tolerance=HALF)
        assert expected[0].dtype == torch.float16
        assert calls["npu_add_relu"] == 1

    def test_subclasses_that_keep_the_forward_pass(self, calls: Counter[str]) -> None:
        one_stage = {"num_stages": 1, "strides": (1,), "dilations": (1,), "out_indices": (0,)}
        backbone = random_parameters(ResNeXt(depth=50, groups=2, base_width=4, **one_stage))
        x = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))
        expected = of_module(backbone, x)
        with pc.Patcher([RESNET_ADD_RELU], strict=True):
            assert_equal(of_module(backbone, x), expected)
        assert calls["npu_add_relu"] == 3

    @pytest.mark.parametrize("name", ["BasicBlock", "Bottleneck", "Bottleneck plugins"])
    def test_compiles_to_one_graph_as_before(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        import mx_driving

        # a kernel that can be traced; the stand-in counts its calls, which cannot
        monkeypatch.setattr(mx_driving, "npu_add_relu", lambda x, y: torch.relu(x + y))
        block = random_parameters(BLOCKS[name]()).eval()
        x = torch.randn(2, 16, 6, 6, generator=torch.Generator().manual_seed(0))
        torch.compiler.reset()
        expected = torch.compile(block, backend="eager", fullgraph=True)(x)
        with pc.Patcher([RESNET_ADD_RELU], strict=True):
            torch.compiler.reset()
            assert_agree([torch.compile(block, backend="eager", fullgraph=True)(x)], [expected])


def backbone(**arguments: Any) -> nn.Module:
    """Return a ResNet-18 without its last two stages."""
    two_stages = {"num_stages": 2, "strides": (1, 2), "dilations": (1, 1), "out_indices": (0, 1)}
    model = ResNet(depth=18, **{**two_stages, "norm_eval": False, **arguments})
    random_parameters(model).train()
    return model


def image(size: tuple[int, int] = (64, 48)) -> Tensor:
    return torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(0))


def trained(model: nn.Module, x: Tensor) -> list[Tensor]:
    """Return the feature maps for an image that needs no gradient, then the parameters' gradients and the buffers."""
    model = copy.deepcopy(model)
    outs = model(x)
    assert isinstance(outs, tuple)
    sum(out.square().sum() for out in outs).backward()
    gradients = [parameter.grad for parameter in model.parameters() if parameter.requires_grad]
    return [*(out.detach() for out in outs), *gradients, *model.buffers()]


class TestResNetMaxPool:
    def test_no_gradient_wanted(self, calls: Counter[str]) -> None:
        model = backbone(norm_eval=True)
        with torch.no_grad():
            expected = model(image())
            with pc.Patcher([RESNET_MAXPOOL], strict=True):
                assert_equal(model(image()), expected)
        assert calls == {"npu_max_pool2d": 1}

    @pytest.mark.parametrize(
        "pooling",
        [
            nn.Identity(),
            nn.AvgPool2d(3, 2, 1),
            nn.MaxPool2d(2, 2),
            nn.MaxPool2d(3, 2, 1, ceil_mode=True),
            nn.MaxPool2d(3, 2, 1, dilation=2),
        ],
        ids=str,
    )
    def test_another_pooling_is_kept(self, calls: Counter[str], pooling: nn.Module) -> None:
        model = backbone(frozen_stages=0)
        model.maxpool = pooling
        expected = trained(model, image((61, 51)))
        with pc.Patcher([RESNET_MAXPOOL], strict=True):
            assert_equal(trained(model, image((61, 51))), expected)
        assert not calls

    @pytest.mark.parametrize(
        ("stem_channels", "dtype", "kernel_runs"),
        [(24, torch.float32, 1), (36, torch.float32, 0), (16, torch.float64, 0), (16, torch.bfloat16, 0)],
    )
    def test_what_the_kernel_does_not_take_stays_with_torch(
        self, calls: Counter[str], stem_channels: int, dtype: torch.dtype, kernel_runs: int
    ) -> None:
        model = backbone(frozen_stages=0, stem_channels=stem_channels).to(dtype)
        expected = trained(model, image().to(dtype))
        with pc.Patcher([RESNET_MAXPOOL], strict=True):
            assert_equal(trained(model, image().to(dtype)), expected)
        assert calls["npu_max_pool2d"] == kernel_runs


class TestResNetFp16:
    def test_float32_feature_maps_close_to_those_of_float32(self) -> None:
        model = backbone(norm_eval=True)
        expected = [out.detach() for out in model(image())]
        dtypes = []
        model.layer2.register_forward_hook(lambda module, arguments, output: dtypes.append(output.dtype))
        with pc.Patcher([RESNET_FP16], enable=RESNET_FP16, strict=True):
            outs = model(image())
        assert dtypes == [torch.float16]
        assert all(out.dtype == torch.float32 for out in outs)
        assert_agree([out.detach() for out in outs], expected, tolerance=HALF)
        assert not torch.equal(outs[-1], expected[-1])

    def test_trains(self) -> None:
        model = backbone()
        expected = trained(model, image())
        with pc.Patcher([RESNET_FP16], enable=RESNET_FP16, strict=True):
            actual = trained(model, image())
        assert_agree(actual[:2], expected[:2], tolerance=HALF)
        assert [tensor.dtype for tensor in actual] == [tensor.dtype for tensor in expected]
        assert all(tensor.isfinite().all() for tensor in actual)

    def test_enabling_it_skips_the_pooling_kernel(self) -> None:
        plan = pc.Patcher(PATCHES, enable="resnet_fp16").plan()
        assert plan["mmdet.resnet_fp16"].verdict == "apply"
        skipped = plan["mmdet.resnet_maxpool"]
        assert (skipped.verdict, "conflicts with mmdet.resnet_fp16" in skipped.reason) == ("skipped", True)


# --- the patches together ---------------------------------------------------------------------------------------------

#: Those of this module; the others have modules of their own.
HERE = (
    DEFORM_CONV,
    MODULATED_DEFORM_CONV,
    MULTI_SCALE_DEFORMABLE_ATTENTION,
    RESNET_ADD_RELU,
    RESNET_MAXPOOL,
    RESNET_FP16,
)


def namespaces() -> dict[str, dict[str, Any]]:
    """Return a copy of the namespace of every module of mmcv.ops and mmdet's backbones, and of every class in them."""
    found: dict[str, dict[str, Any]] = {}
    for name, module in list(sys.modules.items()):
        if name.startswith(("mmcv.ops", "mmdet.models.backbones")):
            found[name] = dict(vars(module))
            classes = [value for value in vars(module).values() if isinstance(value, type)]
            found.update({f"{c.__module__}:{c.__qualname__}": dict(vars(c)) for c in classes if c.__module__ == name})
    return found


def differences(before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]) -> list[str]:
    assert before.keys() == after.keys()
    missing = object()
    return [
        f"{owner} {key}"
        for owner, space in before.items()
        for key in {**space, **after[owner]}
        if space.get(key, missing) is not after[owner].get(key, missing)
    ]


class TestPlugin:
    def test_skipped_with_the_reason_without_kernels(self, run_python: Callable[..., str]) -> None:
        code = """
            import patchcore as pc
            from mmcv_npu.plugin import PATCHES
            for record in pc.Patcher(PATCHES).apply().patches:
                print(record.name, record.status, record.reason)
        """
        lines = set(run_python(code).splitlines())
        reason = "skipped needs module mx_driving, which is neither installed nor emulated here"
        assert lines >= {f"{patch.name} {reason}" for patch in HERE if patch is not RESNET_FP16}

    def test_revert_restores_every_slot(self) -> None:
        before = namespaces()
        with pc.Patcher(HERE, strict=True) as patcher:
            changed = differences(before, namespaces())
            report = patcher.report()
        written = [slot for p in report.patches for c in p.changes for slot in (*c.slots, *c.rebound)]
        assert len(changed) >= 11  # nine slots, and what mmcv.ops and mmcv.ops.saconv took from two of them
        assert {slot.replace(":", ".") for slot in written} >= {
            place.replace(":", ".").replace(" ", ".") for place in changed
        }
        assert differences(before, namespaces()) == []
        with pc.Patcher(HERE, enable="resnet_fp16", strict=True):
            assert differences(before, namespaces())
        assert differences(before, namespaces()) == []

    def test_patched_model_can_be_copied_and_pickled(self, calls: Counter[str]) -> None:
        dcn = {"type": "DCN", "deform_groups": 1, "fallback_on_stride": False}
        model = random_parameters(
            ResNet(
                depth=50,
                num_stages=2,
                strides=(1, 2),
                dilations=(1, 1),
                out_indices=(1,),
                dcn=dcn,
                stage_with_dcn=(True, False),
                frozen_stages=0,
            )
        )
        expected = model(image())
        with pc.Patcher(HERE, strict=True):
            copied, text = copy.deepcopy(model), pickle.dumps(model)
            patched = model(image())
            assert_equal(copied(image()), patched)
            assert_equal(pickle.loads(text)(image()), patched)
        assert_agree(patched, expected)
        assert calls["deform_conv2d"] == 3 * 3
        assert_equal(pickle.loads(text)(image()), expected)

    def test_lists_without_the_libraries(self, run_python: Callable[..., str]) -> None:
        code = """
            import sys
            for name in ("torch", "mmcv", "mmdet", "mmengine", "numpy", "mx_driving"):
                sys.modules[name] = None
            import patchcore as pc
            patcher = pc.Patcher.discover(plugins=["mmcv"])
            for entry in patcher.plan():
                print(entry.patch.name, entry.verdict, entry.reason)
            assert not patcher.plugins.problems
            patcher.apply()
            patcher.revert()
        """
        lines = run_python(code).splitlines()
        assert len(lines) == len(PATCHES)
        assert all(" skipped " in line or " off " in line for line in lines)
