"""The sparse convolutions against torch's dense ones on the whole grid, and against gradcheck."""

from __future__ import annotations

import importlib
import sys
from collections import OrderedDict
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import pytest

torch = pytest.importorskip("torch")

from kernel_results import assert_agree, output_and_gradients  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from npu_emulator.limits import LimitError, lifted  # noqa: E402

BATCH = 2
SHAPE = [6, 5, 7]


class Case(NamedTuple):
    """One convolution; what has three values is along the three axes."""

    kernel_size: Any = 3
    stride: Any = 1
    padding: Any = 0
    dilation: Any = 1
    beyond_limits: bool = False

    def keywords(self) -> dict[str, Any]:
        return {name: value for name, value in self._asdict().items() if name != "beyond_limits"}

    def dense(self) -> dict[str, Any]:
        return {name: value for name, value in self.keywords().items() if name != "kernel_size"}


CASES = {
    "plain": Case(),
    "padding": Case(padding=1),
    "stride": Case(stride=2, padding=1),
    "all different": Case(kernel_size=(3, 1, 2), stride=(1, 2, 3), padding=(0, 1, 1)),
    "as in SECOND": Case(kernel_size=(3, 1, 1), stride=(2, 1, 1)),
    "1 x 1 x 1": Case(kernel_size=1),
    "stride without padding": Case(kernel_size=2, stride=2),
    "large kernel": Case(kernel_size=5, padding=2, beyond_limits=True),
    "dilation": Case(dilation=2, padding=1, beyond_limits=True),
}
cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


def places(count: int = 40, seed: int = 1) -> Tensor:
    """Different places of the grid in random order, int32."""
    random = torch.Generator().manual_seed(seed)
    numbers = torch.randperm(BATCH * SHAPE[0] * SHAPE[1] * SHAPE[2], generator=random)[:count]
    return torch.stack(torch.unravel_index(numbers, (BATCH, *SHAPE)), dim=1).int()


def features_at(indices: Tensor, channels: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(len(indices), channels, dtype=dtype, generator=torch.Generator().manual_seed(2))


def on_grid(features: Tensor, indices: Tensor, shape: list[int]) -> Tensor:
    """Features on the whole grid, shape (batch, c, x, y, z); written without the code under test."""
    grid = features.new_zeros(BATCH, *shape, features.shape[1])
    return grid.index_put(tuple(indices.long().unbind(1)), features).permute(0, 4, 1, 2, 3)


def at_places(grid: Tensor, indices: Tensor) -> Tensor:
    return grid.permute(0, 2, 3, 4, 1)[tuple(indices.long().unbind(1))]


def dense_weight(weight: Tensor) -> Tensor:
    """(kx, ky, kz, c_in, c_out), as sparse convolutions have it, to torch's (c_out, c_in, kx, ky, kz)."""
    return weight.permute(4, 3, 0, 1, 2)


def run(layer: nn.Module, mx_driving: ModuleType, indices: Tensor) -> Callable[..., Tensor]:
    """A function of features and parameters of a layer, which gives the features of its output."""

    def function(features: Tensor, *parameters: Tensor) -> Tensor:
        tensor = mx_driving.SparseConvTensor(features, indices, SHAPE, BATCH)
        named = dict(zip(("weight", "bias"), parameters))
        with lifted():
            return torch.func.functional_call(layer, named, (tensor,)).features

    return function


# --- convolution --------------------------------------------------------------------------------------------------


@cases
@dtypes
def test_sparse_conv3d_agrees_with_conv3d(mx_driving: ModuleType, case: Case, dtype: torch.dtype) -> None:
    indices = places()
    layer = mx_driving.SparseConv3d(4, 6, **case.keywords()).to(dtype)
    tensors = (features_at(indices, 4, dtype), layer.weight.detach(), layer.bias.detach())
    with lifted():
        output = layer(mx_driving.SparseConvTensor(tensors[0], indices, SHAPE, BATCH))

    def dense(features: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        grid = functional.conv3d(on_grid(features, indices, SHAPE), dense_weight(weight), **case.dense())
        assert list(grid.shape[2:]) == output.spatial_shape
        return at_places(grid, output.indices) + bias

    ours = output_and_gradients(run(layer, mx_driving, indices), tensors)
    assert_agree(ours, output_and_gradients(dense, tensors))


@cases
def test_sparse_conv3d_has_outputs_wherever_an_input_reaches(mx_driving: ModuleType, case: Case) -> None:
    indices = places(count=11)
    layer = mx_driving.SparseConv3d(1, 1, bias=False, **case.keywords())
    nn.init.ones_(layer.weight)
    with lifted():
        output = layer(mx_driving.SparseConvTensor(torch.ones(11, 1), indices, SHAPE, BATCH))
    reached = functional.conv3d(on_grid(torch.ones(11, 1), indices, SHAPE), dense_weight(layer.weight), **case.dense())
    # nonzero is in ascending order, as what the device's sorting gives
    assert torch.equal(output.indices, reached[:, 0].nonzero().int())
    assert torch.equal(output.dense(), reached)


@pytest.mark.parametrize("kernel_size", [1, 3, (3, 1, 3), 5], ids=str)
@dtypes
def test_subm_conv3d_agrees_with_conv3d_at_the_inputs(
    mx_driving: ModuleType, kernel_size: Any, dtype: torch.dtype
) -> None:
    indices = places(count=90)
    layer = mx_driving.SubMConv3d(4, 6, kernel_size, padding=1).to(dtype)  # the padding is not looked at
    tensors = (features_at(indices, 4, dtype), layer.weight.detach(), layer.bias.detach())

    def dense(features: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        grid = functional.conv3d(on_grid(features, indices, SHAPE), dense_weight(weight), padding="same")
        return at_places(grid, indices) + bias

    ours = output_and_gradients(run(layer, mx_driving, indices), tensors)
    assert_agree(ours, output_and_gradients(dense, tensors))


@pytest.mark.parametrize("name", ["plain", "stride", "all different"])
@dtypes
def test_sparse_inverse_conv3d_agrees_with_conv_transpose3d(
    mx_driving: ModuleType, name: str, dtype: torch.dtype
) -> None:
    case, indices = CASES[name], places()
    down = mx_driving.SparseConv3d(8, 8, **case.keywords(), indice_key="down").to(dtype)
    up = mx_driving.SparseInverseConv3d(8, 16, case.kernel_size, indice_key="down").to(dtype)
    middle = down(mx_driving.SparseConvTensor(features_at(indices, 8, dtype), indices, SHAPE, BATCH))
    output = up(middle)
    assert torch.equal(output.indices, indices)
    assert output.spatial_shape == SHAPE

    def sparse(features: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        middle.features = features
        return torch.func.functional_call(up, {"weight": weight, "bias": bias}, (middle,)).features

    def dense(features: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        small = on_grid(features, middle.indices, middle.spatial_shape)
        rest = [
            size - ((small_size - 1) * stride - 2 * padding + kernel)
            for size, small_size, stride, padding, kernel in zip(
                SHAPE, middle.spatial_shape, down.stride, down.padding, down.kernel_size
            )
        ]
        # torch has the channels the other way round here: (c_in, c_out, kx, ky, kz)
        grid = functional.conv_transpose3d(
            small, weight.permute(3, 4, 0, 1, 2), None, down.stride, down.padding, output_padding=rest
        )
        return at_places(grid, indices) + bias

    tensors = (features_at(middle.indices, 8, dtype), up.weight.detach(), up.bias.detach())
    assert_agree(output_and_gradients(sparse, tensors), output_and_gradients(dense, tensors))


# --- sparse tensors and containers --------------------------------------------------------------------------------


def test_dense(mx_driving: ModuleType) -> None:
    indices = places()
    features = features_at(indices, 3, torch.float64)
    tensor = mx_driving.SparseConvTensor(features, indices, SHAPE, BATCH)
    assert torch.equal(tensor.dense(), on_grid(features, indices, SHAPE))
    assert torch.equal(tensor.dense(channels_first=False), on_grid(features, indices, SHAPE).permute(0, 2, 3, 4, 1))
    assert tensor.spatial_size == 210
    assert tensor.sparity == pytest.approx(40 / 420)
    assert_agree(
        output_and_gradients(lambda f: mx_driving.SparseConvTensor(f, indices, SHAPE, BATCH).dense(), [features]),
        output_and_gradients(lambda f: on_grid(f, indices, SHAPE), [features]),
    )


def test_sequential_of_sparse_and_other_modules(mx_driving: ModuleType) -> None:
    network = mx_driving.SparseSequential(
        mx_driving.SubMConv3d(4, 8, 3, indice_key="subm"),
        nn.BatchNorm1d(8),
        up=mx_driving.SubMConv3d(8, 8, 3, indice_key="subm"),
    ).eval()
    indices = places(count=60)
    tensor = mx_driving.SparseConvTensor(features_at(indices, 4, torch.float32), indices, SHAPE, BATCH)
    output = network(tensor)
    first = network[0](tensor)
    first.features = network[1](first.features)
    assert torch.equal(output.features, network[2](first).features)
    assert set(network.sparity_dict) == {"0", "up"}


def test_sequential_keeps_empty_tensors_from_modules_that_do_not_take_them(mx_driving: ModuleType) -> None:
    empty = mx_driving.SparseConvTensor(torch.zeros(0, 4), torch.zeros(0, 4, dtype=torch.int32), SHAPE, BATCH)
    network = mx_driving.SparseSequential(
        mx_driving.SubMConv3d(4, 8, 3), nn.BatchNorm1d(8), mx_driving.SparseConv3d(8, 8, 3)
    )
    output = network(empty)
    assert output.features.shape == (0, 8)
    assert output.dense().shape == (BATCH, 8, 4, 3, 5)


def test_sequential_by_name(mx_driving: ModuleType) -> None:
    network = mx_driving.SparseSequential(OrderedDict(first=nn.ReLU()), second=nn.Tanh())
    network.add(nn.Sigmoid())
    assert [name for name, _ in network.named_children()] == ["first", "second", "2"]
    assert isinstance(network[-1], nn.Sigmoid)
    assert len(network) == 3
    with pytest.raises(IndexError):
        network[3]
    with pytest.raises(ValueError, match="found '0' twice"):
        mx_driving.SparseSequential(nn.ReLU(), **{"0": nn.ReLU()})


@pytest.mark.parametrize(("mode", "fan_in"), [("mmcv", 3 * (3 * 8 * 5)), ("spconv", 3 * 3 * 3 * 8)])
def test_initialisation_fills_the_range_of_its_mode(mx_driving: ModuleType, mode: str, fan_in: int) -> None:
    torch.manual_seed(4)
    layer = mx_driving.SparseConv3d(8, 5, 3, mode=mode)
    bound = fan_in**-0.5
    assert 0.95 * bound < layer.weight.abs().max().item() <= bound
    assert layer.bias.abs().max().item() <= (3 * 3 * 3 * 8) ** -0.5


# --- limits and mistakes ------------------------------------------------------------------------------------------


BEYOND_LIMITS = {
    "kernel": (lambda mx: mx.SparseConv3d(8, 8, 5), r"SparseConv3d: the device takes a kernel_size of 1 or 2 or 3"),
    "submanifold kernel": (lambda mx: mx.SubMConv3d(8, 8, 2), r"a kernel_size of 1 or 3, found \(2, 2, 2\)"),
    "submanifold stride": (lambda mx: mx.SubMConv3d(8, 8, 3, stride=2), r"stride=1, found \(2, 2, 2\)"),
    "dilation": (lambda mx: mx.SparseConv3d(8, 8, 3, dilation=2), r"dilation=1, found \(2, 2, 2\)"),
}


@pytest.mark.parametrize(("make", "message"), BEYOND_LIMITS.values(), ids=BEYOND_LIMITS.keys())
def test_layers_that_the_device_does_not_take(
    mx_driving: ModuleType, make: Callable[[ModuleType], nn.Module], message: str
) -> None:
    layer = make(mx_driving)
    tensor = mx_driving.SparseConvTensor(torch.ones(40, 8), places(), SHAPE, BATCH)
    with pytest.raises(LimitError, match=message):
        layer(tensor)
    assert not mx_driving.calls


def test_indices_that_the_device_does_not_take(mx_driving: ModuleType) -> None:
    tensor = mx_driving.SparseConvTensor(torch.ones(40, 8), places().long(), SHAPE, BATCH)
    with pytest.raises(LimitError, match=r"indices of int32, found torch\.int64"):
        mx_driving.SubMConv3d(8, 8, 3)(tensor)


def test_inverse_channels_that_the_device_does_not_take(mx_driving: ModuleType) -> None:
    down, up = (
        mx_driving.SparseConv3d(8, 4, 3, indice_key="down"),
        mx_driving.SparseInverseConv3d(4, 8, 3, indice_key="down"),
    )
    middle = down(mx_driving.SparseConvTensor(torch.ones(40, 8), places(), SHAPE, BATCH))
    with pytest.raises(LimitError, match=r"multiples of 8 input and output channels, found \(4, 8\)"):
        up(middle)


def test_inverse_without_the_convolution_to_undo(mx_driving: ModuleType) -> None:
    tensor = mx_driving.SparseConvTensor(torch.ones(40, 8), places(), SHAPE, BATCH)
    tensor = mx_driving.SubMConv3d(8, 8, 3, indice_key="subm")(tensor)
    for key in ("down", "subm", None):
        message = f"expected a SparseConv3d with indice_key '{key}' earlier in the network, found the keys.*'subm'"
        with pytest.raises(ValueError, match=message):
            mx_driving.SparseInverseConv3d(8, 8, 3, indice_key=key)(tensor)


def test_keys_shared_by_layers_that_do_not_fit(mx_driving: ModuleType) -> None:
    tensor = mx_driving.SparseConvTensor(torch.ones(40, 8), places(), SHAPE, BATCH)
    strided = mx_driving.SparseConv3d(8, 8, 3, indice_key="key")(tensor)
    with pytest.raises(ValueError, match="that of a submanifold convolution, found another kind of layer"):
        mx_driving.SubMConv3d(8, 8, 3, indice_key="key")(strided)
    with pytest.raises(ValueError, match=r"expected kernel \(3, 3, 3\) and places: .*found kernel \(1, 1, 1\)"):
        mx_driving.SparseInverseConv3d(8, 8, 1, indice_key="key")(strided)
    with pytest.raises(ValueError, match="as in the layer that made indice_key 'key'"):
        mx_driving.SparseInverseConv3d(8, 8, 3, indice_key="key")(tensor)


def test_tensors_of_another_library(mx_driving: ModuleType) -> None:
    class SparseConvTensor:
        pass

    with pytest.raises(TypeError, match=r"expected a SparseConvTensor of mx_driving, found .*SparseConvTensor"):
        mx_driving.SubMConv3d(8, 8, 3)(SparseConvTensor())
    with pytest.raises(TypeError, match="The classes of mmcv and mx_driving do not mix"):
        mx_driving.SparseSequential(mx_driving.SubMConv3d(8, 8, 3))(SparseConvTensor())


def test_arguments_that_no_layer_takes(mx_driving: ModuleType) -> None:
    with pytest.raises(ValueError, match="SubMConv3d: expected groups=1, found 2"):
        mx_driving.SubMConv3d(8, 8, 3, groups=2)
    with pytest.raises(ValueError, match="expected stride 1 or dilation 1 on every axis"):
        mx_driving.SparseConv3d(8, 8, 3, stride=2, dilation=2)
    with pytest.raises(ValueError, match=r"expected features of shape \(n, 8\).*found \(40, 4\)"):
        mx_driving.SubMConv3d(8, 8, 3)(mx_driving.SparseConvTensor(torch.ones(40, 4), places(), SHAPE, BATCH))


def test_the_old_name_of_the_package_warns(mx_driving: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "npu_emulator.mx_driving.spconv", raising=False)
    with pytest.warns(DeprecationWarning, match=r"mx_driving\.spconv is deprecated"):
        spconv = importlib.import_module("npu_emulator.mx_driving.spconv")
    assert all(getattr(spconv, name) is getattr(mx_driving, name) for name in spconv.__all__)
