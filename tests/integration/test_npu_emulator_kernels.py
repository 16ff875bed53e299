"""The stand-in kernels against independent sources: mmcv's compiled CPU operators, torch.nn.functional, gradcheck.

Two results agree when their largest difference is at most ``TOLERANCE`` times the largest expected value. The largest
such ratio found over all comparisons here (torch 2.13.0, mmcv 2.1.0) is 6e-7 in float32 and 2e-15 in float64: each
tolerance is an order of magnitude above it. Pooling, addition and ReLU must be equal. gradcheck runs with its defaults
(step 1e-6, absolute tolerance 1e-5, relative 1e-3), in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple, Union

import pytest

torch = pytest.importorskip("torch")
mmcv_ops = pytest.importorskip("mmcv.ops")

from kernel_results import assert_agree, output_and_gradients  # noqa: E402
from mmcv.ops import multi_scale_deform_attn as mmcv_msda  # noqa: E402
from torch import Tensor  # noqa: E402
from torch.nn import functional  # noqa: E402

import npu_emulator  # noqa: E402
from npu_emulator.limits import LimitError, lifted  # noqa: E402

DTYPES = [torch.float32, torch.float64]
PairOrInt = Union[int, tuple[int, int]]


# --- deformable convolution ---------------------------------------------------------------------------------------


class Case(NamedTuple):
    """One deformable convolution; pairs are (vertical, horizontal)."""

    batch: int = 2
    channels: int = 8
    out_channels: int = 12
    size: tuple[int, int] = (9, 11)
    kernel: tuple[int, int] = (3, 3)
    stride: PairOrInt = 1
    padding: PairOrInt = 1
    dilation: PairOrInt = 1
    groups: int = 1
    deformable_groups: int = 1

    @property
    def geometry(self) -> tuple[PairOrInt, PairOrInt, PairOrInt, int, int]:
        return self.stride, self.padding, self.dilation, self.groups, self.deformable_groups

    def output_size(self) -> tuple[int, ...]:
        """Output size by torch's own convolution, so that it does not depend on the code under test."""
        image, weight = torch.empty(1, 1, *self.size, device="meta"), torch.empty(1, 1, *self.kernel, device="meta")
        return tuple(functional.conv2d(image, weight, None, self.stride, self.padding, self.dilation).shape[2:])

    def tensors(self, dtype: torch.dtype, seed: int) -> SimpleNamespace:
        """Random inputs; offsets reach beyond the image and stay 0.02 away from whole pixels.

        The derivative jumps at whole pixels, and mmcv's modulated CPU operator rounds float64 positions to float32
        there (``floorf``). Whole pixels have a test of their own.
        """
        random = torch.Generator().manual_seed(seed)
        taps = self.kernel[0] * self.kernel[1] * self.deformable_groups
        offset_shape = (self.batch, 2 * taps, *self.output_size())
        whole = torch.randint(-4, 4, offset_shape, generator=random)
        fraction = 0.02 + 0.96 * torch.rand(offset_shape, generator=random, dtype=dtype)
        weight_shape = (self.out_channels, self.channels // self.groups, *self.kernel)
        return SimpleNamespace(
            x=torch.randn(self.batch, self.channels, *self.size, generator=random, dtype=dtype),
            offset=whole + fraction,
            mask=torch.rand(self.batch, taps, *self.output_size(), generator=random, dtype=dtype),
            weight=torch.randn(weight_shape, generator=random, dtype=dtype),
            bias=torch.randn(self.out_channels, generator=random, dtype=dtype),
        )


CASES = {
    "plain": Case(),
    "no padding": Case(padding=0),
    "one image of the size of the kernel": Case(batch=1, size=(3, 3)),
    "wide padding": Case(padding=(3, 2)),
    "stride": Case(stride=2),
    "pairs": Case(stride=(1, 2), padding=(2, 1), dilation=(1, 2)),
    "dilation": Case(dilation=2, padding=2),
    "1 x 1 kernel": Case(kernel=(1, 1), padding=0),
    "2 x 3 kernel": Case(kernel=(2, 3)),
    "groups": Case(groups=4),
    "deformable groups": Case(deformable_groups=2),
    "groups and deformable groups": Case(groups=2, deformable_groups=4, stride=2),
    "one channel per group": Case(groups=4, channels=4, deformable_groups=4),
    "what the device takes": Case(channels=64, out_channels=64, size=(7, 6)),
    "what the device takes, in groups": Case(channels=128, out_channels=64, size=(5, 6), groups=2, stride=2),
}
cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)


@cases
@dtypes
def test_deform_conv2d_agrees_with_mmcv(mx_driving: ModuleType, case: Case, dtype: torch.dtype) -> None:
    inputs = case.tensors(dtype, seed=7)
    tensors = (inputs.x, inputs.offset, inputs.weight)
    expected = output_and_gradients(mmcv_ops.deform_conv2d, tensors, *case.geometry)
    with lifted():
        assert_agree(output_and_gradients(mx_driving.deform_conv2d, tensors, *case.geometry), expected)


@cases
@dtypes
@pytest.mark.parametrize("with_bias", [False, True], ids=["", "bias"])
def test_modulated_deform_conv2d_agrees_with_mmcv(
    mx_driving: ModuleType, case: Case, dtype: torch.dtype, with_bias: bool
) -> None:
    inputs = case.tensors(dtype, seed=8)
    tensors = (inputs.x, inputs.offset, inputs.mask, inputs.weight)
    if with_bias:
        tensors, rest = (*tensors, inputs.bias), case.geometry
    else:
        rest = (None, *case.geometry)
    expected = output_and_gradients(mmcv_ops.modulated_deform_conv2d, tensors, *rest)
    with lifted():
        assert_agree(output_and_gradients(mx_driving.modulated_deform_conv2d, tensors, *rest), expected)


@dtypes
@pytest.mark.parametrize("shift", [0, -1, 2])
def test_deform_convolutions_agree_with_mmcv_at_whole_pixels(
    mx_driving: ModuleType, dtype: torch.dtype, shift: int
) -> None:
    """Zero offsets are where every deformable layer starts, with border taps at exactly -1 and at the far edge."""
    case = Case(size=(5, 6))
    inputs = case.tensors(dtype, seed=9)
    offset = torch.full_like(inputs.offset, shift)
    plain = (inputs.x, offset, inputs.weight)
    modulated = (inputs.x, offset, inputs.mask, inputs.weight, inputs.bias)
    with lifted():
        ours = output_and_gradients(mx_driving.deform_conv2d, plain, *case.geometry)
        assert_agree(ours, output_and_gradients(mmcv_ops.deform_conv2d, plain, *case.geometry))
        assert_agree(
            output_and_gradients(mx_driving.modulated_deform_conv2d, modulated, *case.geometry),
            output_and_gradients(mmcv_ops.modulated_deform_conv2d, modulated, *case.geometry),
        )
    if shift == 0:
        assert_agree(ours[:1], [functional.conv2d(inputs.x, inputs.weight, padding=1)])


def test_displacements_that_are_no_numbers_sample_nothing(mx_driving: ModuleType) -> None:
    inputs = Case().tensors(torch.float32, seed=10)
    for value in (float("nan"), float("inf"), -float("inf"), 1e30):
        offset = torch.full_like(inputs.offset, value)
        with lifted():
            output = mx_driving.deform_conv2d(inputs.x, offset, inputs.weight, 1, 1)
        assert torch.equal(output, torch.zeros_like(output))


def test_modulated_deform_conv2d_casts_the_weight(mx_driving: ModuleType) -> None:
    inputs = Case().tensors(torch.float32, seed=25)
    with lifted():
        expected = mx_driving.modulated_deform_conv2d(inputs.x, inputs.offset, inputs.mask, inputs.weight, None, 1, 1)
        weight = inputs.weight.double()
        output = mx_driving.modulated_deform_conv2d(inputs.x, inputs.offset, inputs.mask, weight, None, 1, 1)
    assert torch.equal(output, expected)


# --- multi-scale deformable attention -----------------------------------------------------------------------------


class AttentionInputs(NamedTuple):
    value: Tensor
    locations: Tensor
    weights: Tensor
    spatial_shapes: Tensor
    level_start_index: Tensor

    @property
    def differentiable(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.value, self.locations, self.weights


def attention_inputs(
    dtype: torch.dtype,
    shapes: Sequence[tuple[int, int]] = ((5, 7), (3, 4)),
    batch: int = 2,
    queries: int = 6,
    heads: int = 2,
    channels: int = 8,
    points: int = 3,
) -> AttentionInputs:
    """Random inputs; locations reach up to 2 pixels outside and stay 0.02 pixels away from pixel centres."""
    random = torch.Generator().manual_seed(12)
    spatial_shapes = torch.tensor(shapes)
    sizes = spatial_shapes.prod(dim=1)
    levels = len(shapes)
    location_shape = (batch, queries, heads, levels, points, 2)
    fraction = 0.02 + 0.96 * torch.rand(location_shape, generator=random, dtype=dtype)
    width_height = spatial_shapes.flip(1).view(1, 1, 1, levels, 1, 2)
    whole = (torch.rand(location_shape, generator=random) * (width_height + 3)).floor() - 2
    weights = torch.rand(batch, queries, heads, levels * points, generator=random, dtype=dtype).softmax(dim=-1)
    return AttentionInputs(
        value=torch.randn(batch, int(sizes.sum()), heads, channels, generator=random, dtype=dtype),
        locations=(whole + fraction + 0.5) / width_height,
        weights=weights.view(batch, queries, heads, levels, points),
        spatial_shapes=spatial_shapes,
        level_start_index=torch.cat([sizes.new_zeros(1), sizes.cumsum(0)[:-1]]),
    )


def mmcv_attention(value: Tensor, locations: Tensor, weights: Tensor, inputs: AttentionInputs) -> Tensor:
    """Attend by mmcv's PyTorch path, the one it takes on CPU: its operator has no CPU kernel (mmcv 2.1.0)."""
    return mmcv_msda.multi_scale_deformable_attn_pytorch(value, inputs.spatial_shapes, locations, weights)


@dtypes
@pytest.mark.parametrize("index_dtype", [torch.int64, torch.int32], ids=str)
@pytest.mark.parametrize(
    "sizes",
    [
        {},
        {"shapes": [(6, 5)], "heads": 1, "points": 1},
        {"shapes": [(1, 1), (2, 9), (8, 3), (4, 4)], "heads": 8, "channels": 32, "points": 4},
        {"batch": 1, "queries": 1},
    ],
    ids=["two levels", "one of each", "four levels", "one query"],
)
def test_multi_scale_deformable_attn_agrees_with_mmcv(
    mx_driving: ModuleType, dtype: torch.dtype, index_dtype: torch.dtype, sizes: dict[str, Any]
) -> None:
    inputs = attention_inputs(dtype, **sizes)

    def ours(value: Tensor, locations: Tensor, weights: Tensor) -> Tensor:
        return mx_driving.multi_scale_deformable_attn(
            value,
            inputs.spatial_shapes.to(index_dtype),
            inputs.level_start_index.to(index_dtype),
            locations,
            weights,
        )

    assert_agree(
        output_and_gradients(ours, inputs.differentiable),
        output_and_gradients(mmcv_attention, inputs.differentiable, inputs),
    )


def test_multi_scale_deformable_attn_refuses_empty_tensors(mx_driving: ModuleType) -> None:
    inputs = attention_inputs(torch.float32)
    with pytest.raises(ValueError, match=r"no empty tensor, found value of shape \(2, 0, 2, 8\)"):
        mx_driving.multi_scale_deformable_attn(
            inputs.value[:, :0], inputs.spatial_shapes, inputs.level_start_index, inputs.locations, inputs.weights
        )


# --- addition and pooling -----------------------------------------------------------------------------------------


@dtypes
@pytest.mark.parametrize("shape", [(), (7,), (2, 5, 6, 3)], ids=str)
def test_npu_add_relu_is_relu_of_the_sum(mx_driving: ModuleType, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    random = torch.Generator().manual_seed(13)
    x = torch.randn(shape, generator=random, dtype=dtype).abs()  # the scalar must be positive to be compared
    y = torch.randn(shape, generator=random, dtype=dtype) if shape else torch.zeros(shape, dtype=dtype)
    ours = output_and_gradients(mx_driving.npu_add_relu, (x, y))
    for actual, expected in zip(ours, output_and_gradients(lambda a, b: functional.relu(a + b), (x, y))):
        assert torch.equal(actual, expected)


def test_npu_add_relu_overwrites_a_large_x_as_the_device_does(mx_driving: ModuleType) -> None:
    random = torch.Generator().manual_seed(14)
    x, y = (torch.randn(2_000_000, generator=random, requires_grad=True) for _ in range(2))
    before = x.detach().clone()
    output = mx_driving.npu_add_relu(x, y)
    assert torch.equal(output, functional.relu(before + y))
    assert torch.equal(x, output)
    output.sum().backward()
    assert torch.equal(x.grad, (output > 0).float())
    assert torch.equal(y.grad, x.grad)

    small = before[:-1].clone()
    mx_driving.npu_add_relu(small, y.detach()[:-1])
    assert torch.equal(small, before[:-1])


def test_npu_add_relu_overwriting_a_value_still_needed_is_an_error(mx_driving: ModuleType) -> None:
    leaf = torch.ones(2_000_000, requires_grad=True)
    x = leaf.exp()  # saves its result for backward
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        mx_driving.npu_add_relu(x, torch.ones(2_000_000)).sum().backward()


def test_npu_add_relu_does_not_broadcast(mx_driving: ModuleType) -> None:
    with pytest.raises(ValueError, match=r"expected y of the shape and dtype of x, \(2, 3\).*found \(3,\)"):
        mx_driving.npu_add_relu(torch.ones(2, 3), torch.ones(3))


@dtypes
@pytest.mark.parametrize("shape", [(2, 64, 16, 16), (1, 3, 15, 8), (2, 8, 7, 7), (1, 1, 1, 1)], ids=str)
def test_npu_max_pool2d_is_max_pool2d(mx_driving: ModuleType, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(15), dtype=dtype)
    assert torch.equal(mx_driving.npu_max_pool2d(x, 3, 2, 1), functional.max_pool2d(x, 3, 2, 1))


def test_npu_max_pool2d_has_no_backward(mx_driving: ModuleType) -> None:
    pooled = mx_driving.npu_max_pool2d(torch.ones(1, 8, 4, 4, requires_grad=True), 3, 2, 1)
    with pytest.raises(NotImplementedError, match="backward"):
        pooled.sum().backward()


# --- numerical differentiation ------------------------------------------------------------------------------------


# --- how patches use them -----------------------------------------------------------------------------------------


def test_calls_count_forward_and_backward_apart(mx_driving: ModuleType) -> None:
    x = torch.ones(2, 2, requires_grad=True)
    output = mx_driving.npu_add_relu(x, x)
    mx_driving.npu_add_relu(output, output)
    assert mx_driving.calls == {"npu_add_relu": 2}
    output.sum().backward()
    assert mx_driving.calls == {"npu_add_relu": 2, "npu_add_relu_backward": 1}
    assert mx_driving.calls is npu_emulator.mx_driving.calls
    mx_driving.calls.clear()
    assert not npu_emulator.mx_driving.calls


@pytest.mark.parametrize("kernel", ["modulated_deform_conv2d", "multi_scale_deformable_attn"])
def test_autocast_computes_in_float32(mx_driving: ModuleType, kernel: str) -> None:
    if kernel == "modulated_deform_conv2d":
        inputs = Case().tensors(torch.float32, seed=21)
        tensors = (inputs.x, inputs.offset, inputs.mask, inputs.weight)
        arguments: Callable[..., tuple[Any, ...]] = lambda *t: (*t, None, 1, 1)  # noqa: E731
    else:
        attention = attention_inputs(torch.float32)
        tensors = attention.differentiable
        arguments = lambda value, locations, weights: (  # noqa: E731
            value,
            attention.spatial_shapes,
            attention.level_start_index,
            locations,
            weights,
        )
    half = [tensor.bfloat16() for tensor in tensors]
    with lifted():
        expected = getattr(mx_driving, kernel)(*arguments(*(tensor.float() for tensor in half)))
        leaves = [tensor.requires_grad_() for tensor in half]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            output = getattr(mx_driving, kernel)(*arguments(*leaves))
    assert output.dtype == torch.float32
    assert torch.equal(output, expected)
    output.sum().backward()
    assert all(leaf.grad is not None and leaf.grad.dtype == torch.bfloat16 for leaf in leaves)


# --- refusals -----------------------------------------------------------------------------------------------------


def convolution_call(mx_driving: ModuleType, kernel: str, case: Case, with_bias: bool = False) -> Tensor:
    inputs = case.tensors(torch.float32, seed=22)
    if kernel == "deform_conv2d":
        return mx_driving.deform_conv2d(inputs.x, inputs.offset, inputs.weight, *case.geometry)
    bias = inputs.bias if with_bias else None
    return mx_driving.modulated_deform_conv2d(inputs.x, inputs.offset, inputs.mask, inputs.weight, bias, *case.geometry)


def attention_call(mx_driving: ModuleType, **sizes: Any) -> Tensor:
    inputs = attention_inputs(torch.float32, **sizes)
    return mx_driving.multi_scale_deformable_attn(
        inputs.value, inputs.spatial_shapes, inputs.level_start_index, inputs.locations, inputs.weights
    )


DEVICE = Case(channels=64, out_channels=64, size=(4, 4))
BEYOND_LIMITS: dict[str, tuple[Callable[[ModuleType], Tensor], str]] = {
    "channels": (
        lambda mx: convolution_call(mx, "deform_conv2d", DEVICE._replace(channels=32)),
        "deform_conv2d: the device takes a multiple of 64 input channels, found 32",
    ),
    "deformable groups": (
        lambda mx: convolution_call(mx, "deform_conv2d", DEVICE._replace(deformable_groups=2)),
        "deform_conv2d: the device takes deformable_groups=1, found 2",
    ),
    "modulated, kernel": (
        lambda mx: convolution_call(mx, "modulated_deform_conv2d", DEVICE._replace(kernel=(1, 1))),
        r"modulated_deform_conv2d: the device takes a 3 x 3 kernel, found \(1, 1\)",
    ),
    "modulated, input channels": (
        lambda mx: convolution_call(mx, "modulated_deform_conv2d", DEVICE._replace(channels=32)),
        r"multiples of 64 input and output channels, found \(32, 64\)",
    ),
    "modulated, output channels": (
        lambda mx: convolution_call(mx, "modulated_deform_conv2d", DEVICE._replace(out_channels=96)),
        r"multiples of 64 input and output channels, found \(64, 96\)",
    ),
    "modulated, deformable groups": (
        lambda mx: convolution_call(mx, "modulated_deform_conv2d", DEVICE._replace(deformable_groups=4)),
        "modulated_deform_conv2d: the device takes deformable_groups=1, found 4",
    ),
    "modulated, bias": (
        lambda mx: convolution_call(mx, "modulated_deform_conv2d", DEVICE, with_bias=True),
        r"modulated_deform_conv2d: the device takes bias=None \(.*\), found a bias",
    ),
    "attention, channels": (lambda mx: attention_call(mx, channels=12), "a multiple of 8 up to 256 channels, found 12"),
    "attention, many channels": (lambda mx: attention_call(mx, channels=264), "256 channels, found 264"),
    "attention, heads": (lambda mx: attention_call(mx, heads=9), "at most 8 heads, found 9"),
    "attention, points": (lambda mx: attention_call(mx, points=33), r"at most 64 levels \* points, found 2 \* 33"),
    "pooling, window": (
        lambda mx: mx.npu_max_pool2d(torch.ones(1, 8, 4, 4), 2, 2, 0),
        r"kernel_size, stride, padding = \(3, 2, 1\), found \(2, 2, 0\)",
    ),
    "pooling, channels": (lambda mx: mx.npu_max_pool2d(torch.ones(1, 68, 4, 4), 3, 2, 1), "found 68"),
    "pooling, many channels": (lambda mx: mx.npu_max_pool2d(torch.ones(1, 1032, 4, 4), 3, 2, 1), "found 1032"),
}


@pytest.mark.parametrize(("call", "message"), BEYOND_LIMITS.values(), ids=BEYOND_LIMITS.keys())
def test_calls_that_the_device_does_not_take(
    mx_driving: ModuleType, call: Callable[[ModuleType], Tensor], message: str
) -> None:
    with pytest.raises(LimitError, match=message) as caught:
        call(mx_driving)
    assert "npu_emulator.limits.lifted()" in str(caught.value)
    assert not mx_driving.calls
    with lifted():
        assert call(mx_driving).numel() > 0


def test_calls_that_the_device_takes(mx_driving: ModuleType) -> None:
    convolution_call(mx_driving, "deform_conv2d", DEVICE._replace(kernel=(1, 1), out_channels=5))
    convolution_call(mx_driving, "modulated_deform_conv2d", DEVICE)
    attention_call(mx_driving, heads=8, channels=256, points=32)
    mx_driving.npu_max_pool2d(torch.ones(1, 1024, 4, 4), 3, 2, 1)
    assert sum(mx_driving.calls.values()) == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": torch.ones(8, 9, 11)}, r"expected x with 4 dimensions, found \(8, 9, 11\)"),
        ({"offset": torch.ones(2, 17, 9, 11)}, r"expected offset of shape \(2, 18, 9, 11\), found \(2, 17, 9, 11\)"),
        ({"offset": torch.ones(2, 18, 9, 10)}, r"expected offset of shape \(2, 18, 9, 11\), found \(2, 18, 9, 10\)"),
        ({"offset": torch.ones(1, 18, 9, 11)}, r"expected offset of shape \(2, 18, 9, 11\), found \(1, 18, 9, 11\)"),
        ({"mask": torch.ones(2, 18, 9, 11)}, r"expected mask of shape \(2, 9, 9, 11\), found \(2, 18, 9, 11\)"),
        ({"weight": torch.ones(12, 4, 3, 3)}, r"\(c_out, 8 / 1 groups, kh, kw\).*found \(12, 4, 3, 3\)"),
        ({"offset": torch.ones(2, 18, 9, 11).double()}, r"offset of x's dtype torch.float32, found torch.float64"),
    ],
    ids=["dimensions", "offset channels", "offset size", "offset batch", "mask channels", "weight", "dtype"],
)
def test_tensors_that_do_not_fit_together(mx_driving: ModuleType, changes: dict[str, Tensor], message: str) -> None:
    inputs = Case().tensors(torch.float32, seed=23)
    vars(inputs).update(changes)
    with lifted(), pytest.raises(ValueError, match=message):
        mx_driving.modulated_deform_conv2d(inputs.x, inputs.offset, inputs.mask, inputs.weight, None, 1, 1)


def test_groups_that_do_not_divide_the_channels(mx_driving: ModuleType) -> None:
    inputs = Case().tensors(torch.float32, seed=24)
    with lifted(), pytest.raises(ValueError, match=r"8 channels to be a multiple of deformable_groups, found.*=3"):
        mx_driving.deform_conv2d(inputs.x, inputs.offset, inputs.weight, 1, 1, 1, 1, 3)
