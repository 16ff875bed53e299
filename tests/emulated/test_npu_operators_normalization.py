"""Normalizations against torch.nn.functional, in float64, and against documented properties."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from npu_operators import assert_on, doubles, on_device
from torch.autograd import gradcheck
from torch.nn import functional

from npu_emulator.torch_npu.ops import normalization

CLOSE: dict[str, Any] = {"rtol": 1e-11, "atol": 1e-12}


class TestRmsNorm:
    @pytest.mark.parametrize("dims", [1, 2])
    def test_is_that_of_torch(self, device: str, dims: int) -> None:
        x = doubles(3, 4, 6)
        gamma = doubles(*x.shape[-dims:], seed=1)
        output, reciprocal = on_device(device, "npu_rms_norm", x, gamma, 1e-5)
        assert_on(device, output, functional.rms_norm(x, list(gamma.shape), gamma, 1e-5), **CLOSE)
        axes = tuple(range(-dims, 0))
        assert_on(device, reciprocal, 1 / (x.pow(2).mean(axes, keepdim=True) + 1e-5).sqrt(), **CLOSE)

    def test_statistics_of_half_precision_are_single(self, device: str) -> None:
        output, reciprocal = on_device(device, "npu_rms_norm", doubles(3, 8).bfloat16(), torch.ones(8).bfloat16())
        assert (output.dtype, reciprocal.dtype) == (torch.bfloat16, torch.float32)

    def test_gradients(self) -> None:
        inputs = (doubles(3, 4, requires_grad=True), doubles(4, seed=1, requires_grad=True))
        assert gradcheck(lambda *args: normalization.npu_rms_norm(*args)[0], inputs)

    def test_gemma_scales_by_one_more(self, device: str) -> None:
        x, gamma = doubles(3, 4), doubles(4, seed=1)
        output, _ = on_device(device, "npu_gemma_rms_norm", x, gamma)
        assert_on(device, output, functional.rms_norm(x, [4], 1 + gamma, 1e-6), **CLOSE)

    def test_of_a_sum(self, device: str) -> None:
        x1, x2, gamma = doubles(3, 4), doubles(3, 4, seed=1), doubles(4, seed=2)
        output, reciprocal, total = on_device(device, "npu_add_rms_norm", x1, x2, gamma, 1e-3)
        assert_on(device, output, functional.rms_norm(x1 + x2, [4], gamma, 1e-3), **CLOSE)
        assert_on(device, total, x1 + x2, **CLOSE)
        assert reciprocal.shape == (3, 1)


class TestDeepNorm:
    def test_is_layer_norm_of_the_weighted_sum(self, device: str) -> None:
        x, gx, beta, gamma = (doubles(*shape, seed=seed) for seed, shape in enumerate([(3, 4), (3, 4), (4,), (4,)]))
        total = 0.7 * x + gx
        mean, reciprocal, output = on_device(device, "npu_deep_norm", x, gx, beta, gamma, 0.7, 1e-5)
        assert_on(device, output, functional.layer_norm(total, [4], gamma, beta, 1e-5), **CLOSE)
        assert_on(device, mean, total.mean(-1, keepdim=True), **CLOSE)
        assert_on(device, reciprocal, 1 / (total.var(-1, correction=0, keepdim=True) + 1e-5).sqrt(), **CLOSE)

    def test_gradients(self) -> None:
        shapes = [(2, 3), (2, 3), (3,), (3,)]
        inputs = [doubles(*shape, seed=seed, requires_grad=True) for seed, shape in enumerate(shapes)]
        assert gradcheck(lambda *args: normalization.npu_deep_norm(*args)[2], inputs)


class TestGroupNormSilu:
    @pytest.mark.parametrize("affine", [True, False], ids=["affine", "plain"])
    def test_is_silu_of_group_norm(self, device: str, affine: bool) -> None:
        x = doubles(2, 6, 3, 5)
        weight, bias = (doubles(6, seed=1), doubles(6, seed=2)) if affine else (None, None)
        output, mean, reciprocal = on_device(device, "npu_group_norm_silu", x, weight, bias, 3, 1e-3)
        assert_on(device, output, functional.silu(functional.group_norm(x, 3, weight, bias, 1e-3)), **CLOSE)
        grouped = x.reshape(2, 3, -1)
        assert_on(device, mean, grouped.mean(-1), **CLOSE)
        assert_on(device, reciprocal, 1 / (grouped.var(-1, correction=0) + 1e-3).sqrt(), **CLOSE)


def test_layer_norm_eval_is_that_of_torch(device: str) -> None:
    x, weight, bias = doubles(3, 4), doubles(4, seed=1), doubles(4, seed=2)
    output = on_device(device, "npu_layer_norm_eval", x, [4], weight, bias, 1e-3)
    assert_on(device, output, functional.layer_norm(x, [4], weight, bias, 1e-3), **CLOSE)


class TestNormalizeBatch:
    # Op-plugin's example, whose inputs are not documented: the first 3 elements of the first sequence and 4 of
    # the second have mean 0 and sample variance 1.
    DOCUMENTED = torch.tensor(
        [
            [[1.1496, -0.6685, -0.4812, 1.7611, -0.5187, 0.7571], [1.1445, -0.4393, -0.7051, 1.0474, -0.2646, -0.1582]],
            [[-0.6880, 0.1337, 1.3623, -0.8081, -1.2291, -0.9410], [0.3070, 0.5489, -1.4858, 0.6300, 0.6428, 0.0433]],
        ],
        dtype=torch.float64,
    )

    def test_documented_results_are_already_normal(self, device: str) -> None:
        output = on_device(device, "npu_normalize_batch", self.DOCUMENTED, torch.tensor([3, 4], dtype=torch.int32))
        assert_on(device, output, self.DOCUMENTED, rtol=0, atol=2e-4)

    def test_per_feature(self, device: str) -> None:
        x, lengths = doubles(2, 3, 6) * 4 + 2, torch.tensor([3, 5], dtype=torch.int32)
        output = on_device(device, "npu_normalize_batch", x, lengths).cpu()
        for sequence, length in zip(output, lengths.tolist()):
            torch.testing.assert_close(sequence[:, :length].mean(-1), torch.zeros(3, dtype=torch.float64))
            torch.testing.assert_close(
                sequence[:, :length].std(-1), torch.ones(3, dtype=torch.float64), rtol=1e-4, atol=0
            )

    def test_all_features(self, device: str) -> None:
        x, lengths = doubles(2, 3, 6) * 4 + 2, torch.tensor([3, 5], dtype=torch.int32)
        output = on_device(device, "npu_normalize_batch", x, lengths, 1).cpu()
        for sequence, length in zip(output, lengths.tolist()):
            assert sequence[:, :length].mean().abs() < 1e-12
            assert abs(sequence[:, :length].std() - 1) < 1e-4

    def test_lengths_of_another_batch_are_an_error(self, device: str) -> None:
        with pytest.raises(ValueError, match=r"expected seq_len of shape \(2,\), found \(3,\)"):
            on_device(device, "npu_normalize_batch", doubles(2, 3, 6), torch.tensor([3, 5, 4]))
