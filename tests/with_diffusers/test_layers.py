"""GEGLU and RMSNorm of diffusers: formulas on the CPU, kernels on the NPU where they compute the same."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from diffusers.models.activations import GEGLU
from diffusers.models.normalization import RMSNorm

import patchcore as pc
from diffusers_npu import layers

PATCHES = (layers.GEGLU, layers.RMS_NORM)


def norm(width: int = 12, dtype: torch.dtype = torch.float32, **options: Any) -> RMSNorm:
    module = RMSNorm(width, eps=1e-6, **options)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    return module.to(dtype)


class Kernels:
    """Counts the calls of the NPU's kernels."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import torch_npu

        self.calls: list[str] = []
        for name in ("npu_geglu", "npu_rms_norm"):
            monkeypatch.setattr(torch_npu, name, self.counting(name, getattr(torch_npu, name)))

    def counting(self, name: str, kernel: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(name)
            return kernel(*args, **kwargs)

        return call


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Kernels:
    return Kernels(monkeypatch)


@pytest.mark.parametrize("module", [GEGLU(12, 5), norm()], ids=["GEGLU", "RMSNorm"])
def test_the_library_alone_calls_kernels_for_tensors_on_the_cpu(module: torch.nn.Module) -> None:
    with pytest.raises(NotImplementedError, match="CPU"):
        module(torch.randn(2, 12))


@pytest.mark.parametrize("module", [GEGLU(12, 5), norm(), norm(elementwise_affine=False)], ids=str)
def test_formula_on_the_cpu(module: torch.nn.Module, monkeypatch: pytest.MonkeyPatch, by_formula: None) -> None:
    x = torch.randn(2, 3, 12)
    expected = module(x)
    monkeypatch.undo()
    with pc.Patcher(PATCHES):
        assert torch.equal(module(x), expected)


def test_the_exact_gelu_and_not_its_approximation(kernels: Kernels) -> None:
    module, x = GEGLU(12, 5), torch.randn(4, 12) * 3
    with pc.Patcher(PATCHES):
        expected = module(x)
        found = copy.deepcopy(module).npu()(x.npu()).cpu()
    assert kernels.calls == ["npu_geglu"]
    assert torch.allclose(found, expected, atol=1e-6)
    approximate = copy.deepcopy(module).npu()(x.npu()).cpu()
    assert not torch.allclose(approximate, expected, atol=1e-4)  # the library alone


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("bias", [False, True])
def test_the_kernel_of_the_norm(dtype: torch.dtype, bias: bool, kernels: Kernels) -> None:
    module, x = norm(dtype=dtype, bias=bias), torch.randn(2, 3, 12, dtype=dtype)
    with pc.Patcher(PATCHES):
        expected = module(x)
        found = copy.deepcopy(module).npu()(x.npu())
    assert kernels.calls == ["npu_rms_norm"]
    assert found.dtype == expected.dtype
    assert torch.allclose(found.cpu().float(), expected.float(), atol={torch.float32: 1e-6}.get(dtype, 5e-2))


@pytest.mark.parametrize(
    ("module", "dtype"),
    [
        (norm(elementwise_affine=False), torch.float16),
        (norm(), torch.float16),  # the formula returns float32 here, the kernel float16
        (norm(dtype=torch.float16), torch.float32),
        (RMSNorm((3, 12), eps=1e-6), torch.float32),  # the kernel normalizes over both dimensions
    ],
    ids=["no weight", "wider weight", "narrower weight", "two dimensions"],
)
def test_formula_on_the_npu_where_the_kernel_computes_something_else(
    module: RMSNorm, dtype: torch.dtype, kernels: Kernels
) -> None:
    x = torch.randn(2, 3, 12, dtype=dtype)
    with pc.Patcher(PATCHES):
        expected = module(x)
        found = copy.deepcopy(module).npu()(x.npu())
    assert kernels.calls == []
    assert found.dtype == expected.dtype
    assert torch.allclose(found.cpu().float(), expected.float(), atol=1e-2)


def test_a_scale_is_ignored_with_the_message_of_the_library() -> None:
    module, x = GEGLU(12, 5), torch.randn(2, 12)
    with pc.Patcher(PATCHES), pytest.warns(FutureWarning, match="`scale` argument is deprecated"):
        module(x, scale=2.0)
