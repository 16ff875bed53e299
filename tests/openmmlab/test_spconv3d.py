"""``mmcv.spconv3d``: mmcv's sparse convolutions run on the kernels, and everything around them stays what it was."""

from __future__ import annotations

import copy
import pickle
import random
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from typing import Any

import dense_sparse
import mmcv.ops
import mmdet3d_libraries  # noqa: F401  (mmdet3d as such refuses mmcv 1)
import mx_driving
import pytest
import running
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mmcv.ops import SparseModule, SparseSequential, sparse_conv, sparse_modules, sparse_structure
from mmcv.ops import SubMConv3d as taken_by_value
from mmdet3d.models.middle_encoders import SparseEncoder, SparseUNet
from torch import Tensor, nn

import patchcore as pc
from mmcv_npu import sparse_convolution
from mmcv_npu.checks import spconv3d as cases
from mmcv_npu.spconv3d import SPCONV3D
from patchcore.builtin.verify.verify import AGREES, verify
from patchcore_torch.tensors.framework import Tensors

run, compare = Tensors().run, Tensors().compare

LAYERS = ["SubMConv3d", "SparseConv3d", "SparseInverseConv3d"]
SHAPE, BATCH = [7, 6, 8], 2
#: Share of the largest value expected; the largest differences found here are 1.5e-6 for a layer, 5e-6 for a network.
TOLERANCE = 1e-5
NETWORK_TOLERANCE = 5e-5

#: What the patch replaces, as it is without it.
CLASSES = {name: getattr(sparse_conv, name) for name in ["SparseConvolution", *LAYERS]}
TENSOR = sparse_structure.SparseConvTensor

of_every_layer = pytest.mark.parametrize("name", LAYERS)


class BlockFromBefore(SparseModule):
    """A model's own block, defined before the patch, as mmdet3d's ``SparseBasicBlock`` is."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = SparseSequential(*layers)

    def forward(self, x: Any) -> Any:
        return self.layers(x)


@pytest.fixture
def patched() -> Iterator[None]:
    with pc.Patcher([SPCONV3D], strict=True):
        yield


@pytest.fixture
def registry(major: int) -> Any:
    """The registry of convolutions."""
    if major == 1:
        from mmcv.cnn import CONV_LAYERS

        return CONV_LAYERS
    from mmengine.registry import MODELS

    return MODELS


def original(name: str) -> type:
    """The class of mmcv; a global name for it would be rebound like any other."""
    return CLASSES[name]


def sparse_tensor(channels: int = 8, *, count: int = 40, device: Any = "cpu", shape: Any = SHAPE) -> Any:
    """A sparse tensor of the class that mmcv has now; its features require gradients."""
    numbers = torch.randperm(BATCH * shape[0] * shape[1] * shape[2])[:count]
    indices = torch.stack(torch.unravel_index(numbers, (BATCH, *shape)), dim=1).int()
    features = torch.randn(count, channels)
    return mmcv.ops.SparseConvTensor(features.to(device).requires_grad_(), indices.to(device), list(shape), BATCH)


def record_calls_of_mmcv(monkeypatch: pytest.MonkeyPatch) -> list[nn.Module]:
    """Stand in for mmcv's own code, which has no CPU kernel; return the layers for which it is called, as they come."""
    seen: list[nn.Module] = []

    def forward(self: nn.Module, x: Any) -> Any:
        seen.append(self)
        return x

    monkeypatch.setattr(sparse_convolution, "_forward_of_mmcv", forward)
    return seen


def assert_close(actual: Tensor, expected: Tensor, tolerance: float = TOLERANCE) -> None:
    largest = expected.abs().max().item()
    assert largest > 0, "nothing is compared"
    assert (actual.detach().cpu() - expected.detach()).abs().max().item() <= tolerance * largest


class TestTargets:
    def test_every_name_of_a_layer_leads_to_the_kernels(self, patched: None, registry: Any) -> None:
        for name in LAYERS:
            layer = getattr(mmcv.ops, name)
            assert issubclass(layer, getattr(mx_driving, name))
            assert getattr(sparse_conv, name) is layer
            assert registry.get(name) is layer
        assert taken_by_value is mmcv.ops.SubMConv3d
        assert sparse_conv.SparseConvolution is sparse_convolution.SparseConvolution
        assert issubclass(sparse_conv.SparseConvolution, mx_driving.SparseConvolution)

    def test_the_sparse_tensor_is_that_of_the_kernels_wherever_it_is_named(self, patched: None) -> None:
        users = [mmcv.ops, sparse_structure, sparse_modules, sparse_conv, mmcv.ops.sparse_pool]
        assert {module.SparseConvTensor for module in users} == {mx_driving.SparseConvTensor}

    def test_reverting_brings_back_the_identical_objects(self, registry: Any) -> None:
        before = [vars(module).copy() for module in (mmcv.ops, sparse_conv, sparse_modules, sparse_structure)]
        entries = dict(registry._module_dict)
        with pc.Patcher([SPCONV3D], strict=True):
            assert registry._module_dict != entries
        after = [vars(module) for module in (mmcv.ops, sparse_conv, sparse_modules, sparse_structure)]
        for old, new in zip(before, after):
            assert old.keys() == new.keys()
            assert all(old[name] is new[name] for name in old)
        assert list(registry._module_dict) == list(entries)
        assert all(registry._module_dict[name] is entries[name] for name in entries)
        assert [getattr(mmcv.ops, name) for name in LAYERS] == [original(name) for name in LAYERS]
        assert taken_by_value is original("SubMConv3d")

    def test_it_applies_as_mmcv_is_imported(self) -> None:
        program = """
            import sys, types
            sys.modules.setdefault("torchvision", types.ModuleType("torchvision"))  # mmcv 1.x wants one
            import npu_emulator
            npu_emulator.install(device=False)
            import patchcore as pc
            patcher = pc.Patcher.discover(plugins=["mmcv", "npu_emulator"], enable=["mmcv.spconv3d"])
            assert patcher.apply()["mmcv.spconv3d"].status == "pending"
            assert not {"torch", "mmcv", "mx_driving"} & set(sys.modules)
            import mmcv.ops, mx_driving
            assert patcher.report()["mmcv.spconv3d"].status == "applied"
            assert mmcv.ops.SparseConvTensor is mx_driving.SparseConvTensor
            import torch
            from mmcv_npu import kernels
            assert kernels.takes(torch.zeros(1))  # there is no NPU, and emulated kernels compute on the CPU
            from mmcv.cnn import build_conv_layer
            layer = build_conv_layer(dict(type="SparseConv3d", indice_key="a"), 4, 8, 3)
            assert isinstance(layer, mx_driving.SparseConv3d)
            patcher.revert()
            assert type(build_conv_layer(dict(type="SparseConv3d"), 4, 8, 3)).__module__ == "mmcv.ops.sparse_conv"
            print("done")
        """
        command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)]
        environ = running.without_npu()
        ended = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=900, check=False)
        assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr


class TestAgreement:
    def test_the_checks_of_the_patch_agree(self, calls: Counter[str]) -> None:
        results = verify([SPCONV3D], device="npu", sizes=[pc.Size.SMALL])
        declared = [(check.name, dtype) for check in SPCONV3D.checks for dtype in check.dtypes]
        assert [(result.check, result.dtype) for result in results] == declared
        assert {result.status for result in results} == {AGREES}, results
        for name in LAYERS:
            assert calls[name] > 0
            assert calls[f"{name}_backward"] > 0

    @pytest.mark.parametrize("case", [cases.submanifold, cases.strided, cases.inverse], ids=lambda case: case.__name__)
    @given(seed=st.integers(0, 2**32))
    @settings(max_examples=25)
    def test_layers_agree_with_the_dense_convolution(self, case: Any, seed: int) -> None:
        expected = run(case(random.Random(seed)), reference=True)
        with pc.Patcher([SPCONV3D], strict=True):
            actual = run(case(random.Random(seed)), "npu")
        assert {name.partition(" ")[0] for name in expected} == {"result", "gradient"}
        assert compare(actual, expected, TOLERANCE).message == ""


class TestBehaviourOfMmcv:
    def test_the_fourth_argument_of_the_inverse_is_its_key(self, patched: None) -> None:
        layer = mmcv.ops.SparseInverseConv3d(8, 16, 3, "down", False)
        assert (layer.indice_key, layer.bias, list(layer.stride)) == ("down", None, [1, 1, 1])

    def test_the_inverse_refuses_a_stride_as_mmcv_does(self, patched: None) -> None:
        with pytest.raises(TypeError, match="stride"):
            mmcv.ops.SparseInverseConv3d(8, 16, 3, stride=2)

    @pytest.mark.parametrize("name", ["SubMConv3d", "SparseConv3d"])
    def test_one_tap_is_a_matrix_product_that_keeps_the_rows(
        self, name: str, device: torch.device, calls: Counter[str]
    ) -> None:
        def outcome(device: Any) -> tuple[Tensor, Tensor, Tensor]:
            torch.manual_seed(5)
            layer = getattr(mmcv.ops, name)(8, 4, 1, stride=2, indice_key="a").to(device)
            x = sparse_tensor(device=device)
            output = layer(x)
            assert output.indices is x.indices
            assert output.indice_dict is x.indice_dict
            assert output.spatial_shape == x.spatial_shape
            output.features.square().sum().backward()
            return output.features, layer.weight.grad, layer.bias.grad

        expected = outcome("cpu")
        with pc.Patcher([SPCONV3D], strict=True):
            actual = outcome(device)
        for ours, theirs in zip(actual, expected):
            assert_close(ours, theirs)
        assert not calls

    def test_a_key_is_found_by_every_tensor_of_the_network(self, patched: None, device: torch.device) -> None:
        x = sparse_tensor(device=device)
        skip = mmcv.ops.SubMConv3d(8, 8, 3, indice_key="same").to(device)(x)
        down = mmcv.ops.SparseConv3d(8, 8, 3, stride=2, indice_key="down").to(device)(x)
        assert skip.indice_dict is x.indice_dict is down.indice_dict
        up = mmcv.ops.SparseInverseConv3d(8, 8, 3, indice_key="down").to(device)(down)
        assert torch.equal(up.indices, x.indices)
        assert (skip.features + up.features).shape == x.features.shape

    @pytest.mark.parametrize(
        "changed", [{"dilation": 2}, {"transposed": True}], ids=lambda changed: next(iter(changed))
    )
    def test_what_the_kernels_would_leave_out_stays_with_mmcv(
        self, patched: None, changed: dict[str, Any], monkeypatch: pytest.MonkeyPatch, device: torch.device
    ) -> None:
        seen = record_calls_of_mmcv(monkeypatch)
        layer = sparse_conv.SparseConvolution(3, 8, 8, **changed).to(device)
        layer(sparse_tensor(device=device))
        assert seen == [layer]

    @of_every_layer
    def test_tensors_on_the_cpu_stay_with_mmcv(
        self, patched: None, name: str, monkeypatch: pytest.MonkeyPatch, calls: Counter[str]
    ) -> None:
        seen = record_calls_of_mmcv(monkeypatch)
        layer = getattr(mmcv.ops, name)(8, 8, 3)
        layer(sparse_tensor())
        assert seen == [layer]
        assert not calls

    def test_what_stays_with_mmcv_fails_as_it_does_without_the_patch(self) -> None:
        def error() -> tuple[type, str]:
            with pytest.raises(RuntimeError) as raised:
                mmcv.ops.SubMConv3d(8, 8, 3)(sparse_tensor())
            return raised.type, str(raised.value)

        expected = error()
        with pc.Patcher([SPCONV3D], strict=True):
            assert error() == expected

    def test_fusing_with_batch_norm_keeps_the_result(self, patched: None, device: torch.device) -> None:
        layers = SparseSequential(mmcv.ops.SubMConv3d(8, 8, 3, bias=True), nn.BatchNorm1d(8), nn.ReLU())
        nn.init.zeros_(layers[0].bias)
        layers[1].running_mean.normal_()
        layers[1].running_var.uniform_(0.5, 2.0)
        layers = layers.eval().to(device)
        fused = layers.fused()
        assert len(fused) == 2
        x = sparse_tensor(device=device)
        again = mmcv.ops.SparseConvTensor(x.features, x.indices, SHAPE, BATCH)
        # mmcv adds eps outside the root, torch inside: the networks differ by that much
        assert_close(fused(x).features, layers(again).features.cpu(), 1e-4)


class TestCheckpoints:
    @of_every_layer
    def test_the_same_seed_gives_the_same_parameters(self, name: str) -> None:
        torch.manual_seed(3)
        expected = original(name)(8, 16, 3).state_dict()
        with pc.Patcher([SPCONV3D], strict=True):
            torch.manual_seed(3)
            actual = getattr(mmcv.ops, name)(8, 16, 3).state_dict()
        assert list(actual) == list(expected)
        assert all(torch.equal(actual[key], expected[key]) for key in expected)

    @of_every_layer
    def test_they_load_both_ways(self, name: str, tmp_path: Any) -> None:
        def made() -> nn.Module:
            return SparseSequential(getattr(mmcv.ops, name)(8, 16, (3, 1, 2)), nn.BatchNorm1d(16))

        before = made()
        with pc.Patcher([SPCONV3D], strict=True):
            while_patched = made()
            torch.save(before.state_dict(), tmp_path / "before.pth")
            while_patched.load_state_dict(torch.load(tmp_path / "before.pth"), strict=True)
            assert torch.equal(while_patched[0].weight, before[0].weight)
            nn.init.ones_(while_patched[0].weight)
            torch.save(while_patched.state_dict(), tmp_path / "patched.pth")
        after = made()
        assert type(after[0]) is original(name)
        after.load_state_dict(torch.load(tmp_path / "patched.pth"), strict=True)
        assert torch.equal(after[0].weight, while_patched[0].weight)

    @of_every_layer
    def test_layers_can_be_copied_and_pickled(self, patched: None, name: str) -> None:
        layer = getattr(mmcv.ops, name)(8, 16, 3, indice_key="a")
        for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
            assert type(other) is type(layer)
            assert other.indice_key == "a"
            assert torch.equal(other.weight, layer.weight)


class TestModels:
    def test_a_block_from_before_works_while_patched(self, patched: None, device: torch.device) -> None:
        layers = SparseSequential(BlockFromBefore(mmcv.ops.SubMConv3d(8, 4, 3)), nn.ReLU(), sparse_modules.ToDense())
        assert layers.to(device)(sparse_tensor(device=device)).shape == (BATCH, 4, *SHAPE)

    def test_a_block_defined_while_patched_works_after_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pc.Patcher([SPCONV3D], strict=True):

            class Block(mmcv.ops.SparseModule):
                def __init__(self) -> None:
                    super().__init__()
                    self.layer = mmcv.ops.SubMConv3d(8, 4, 3)

                def forward(self, x: Any) -> Any:
                    return self.layer(x)

        monkeypatch.setattr(original("SparseConvolution"), "forward", dense_sparse.forward)
        x = sparse_tensor()
        assert type(x) is TENSOR
        assert SparseSequential(Block(), nn.ReLU())(x).dense().shape == (BATCH, 4, *SHAPE)

    def test_classes_without_a_counterpart_stay_and_take_the_tensor(self, patched: None, registry: Any) -> None:
        assert registry.get("SparseConv2d") is sparse_conv.SparseConv2d
        assert issubclass(sparse_conv.SparseConv2d, original("SparseConvolution"))
        for layer in (mmcv.ops.SparseConvTranspose3d(8, 8, 3), mmcv.ops.SparseMaxPool3d(2, 2)):
            with pytest.raises(Exception) as raised:  # of mmcv's compiled module, which has no kernel
                SparseSequential(layer)(sparse_tensor())
            assert not isinstance(raised.value, (AssertionError, AttributeError))

    @pytest.mark.parametrize("make", ["encoder of layers", "encoder of blocks", "u-net"])
    def test_networks_of_mmdet3d_train_as_densely(
        self, make: str, device: torch.device, calls: Counter[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shape = [21, 16, 16]
        model = network(make, shape)
        with monkeypatch.context() as patch:
            patch.setattr(original("SparseConvolution"), "forward", dense_sparse.forward)
            torch.manual_seed(1)
            expected = trained(copy.deepcopy(model), sparse_tensor(4, count=150, shape=shape))
        with pc.Patcher([SPCONV3D], strict=True):
            rebuilt = network(make, shape).to(device)
            rebuilt.load_state_dict(model.state_dict(), strict=True)
            torch.manual_seed(1)
            actual = trained(rebuilt, sparse_tensor(4, count=150, shape=shape, device=device))
        assert actual.keys() == expected.keys()
        for name, wanted in expected.items():
            assert_close(actual[name], wanted, NETWORK_TOLERANCE)
        layers = Counter(type(m).__name__ for m in rebuilt.modules() if isinstance(m, mx_driving.SparseConvolution))
        assert calls == layers + Counter({f"{name}_backward": count for name, count in layers.items()})


def network(make: str, shape: list[int]) -> nn.Module:
    """A small network of mmdet3d."""
    common = {"in_channels": 4, "sparse_shape": shape, "order": ("conv", "norm", "act"), "output_channels": 16}
    if make == "u-net":
        return SparseUNet(
            **common,
            base_channels=16,
            encoder_channels=((16,), (16, 16), (32, 32)),
            encoder_paddings=((1,), (1, 1), (1, 1)),
            decoder_channels=((32, 32, 16), (16, 16, 16), (16, 16, 16)),
            decoder_paddings=((1, 0), (1, 0), (0, 1)),
        )
    blocks = make == "encoder of blocks"
    return SparseEncoder(
        **common,
        base_channels=8,
        encoder_channels=((8, 8, 16), (16, 16)) if blocks else ((8,), (16, 16)),
        encoder_paddings=((0, 0, 1), (0, 0)) if blocks else ((1,), (1, 1)),
        block_type="basicblock" if blocks else "conv_module",
    )


def trained(model: nn.Module, x: Any) -> dict[str, Tensor]:
    """Run a network forward and backward; return its results, and gradients by name."""
    results = model(x.features, x.indices, BATCH)
    results = list(results.values()) if isinstance(results, dict) else [results]
    generator = torch.Generator().manual_seed(2)
    weights = [torch.randn(result.shape, generator=generator).to(result.device) for result in results]
    torch.autograd.backward(results, weights)
    named = {f"result {number}": result for number, result in enumerate(results)}
    named["features"] = x.features.grad
    named.update((name, parameter.grad) for name, parameter in model.named_parameters() if parameter.grad is not None)
    return named
