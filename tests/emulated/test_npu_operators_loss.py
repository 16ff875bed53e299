"""Losses, dropout and matrix products against torch's."""

from __future__ import annotations

from typing import Any, Optional

import pytest
import torch
from comparing import to_npu
from npu_operators import assert_on, doubles, gradients, on_device
from torch import Tensor
from torch.autograd import gradcheck
from torch.nn import functional

from npu_emulator.errors import NotEmulated
from npu_emulator.torch_npu.ops import dropout, linear, loss

CLOSE: dict[str, Any] = {"rtol": 1e-11, "atol": 1e-12}


class TestSoftmaxCrossEntropy:
    def test_is_that_of_torch_with_probabilities(self, device: str) -> None:
        logits, labels = doubles(4, 5), doubles(4, 5, seed=1).softmax(-1)
        expected = functional.cross_entropy(logits, labels, reduction="none")
        assert_on(device, on_device(device, "npu_softmax_cross_entropy_with_logits", logits, labels), expected, **CLOSE)

    def test_gradients(self) -> None:
        labels = doubles(3, 4, seed=1).softmax(-1)
        operator = loss.npu_softmax_cross_entropy_with_logits
        assert gradcheck(lambda x: operator(x, labels), doubles(3, 4, requires_grad=True))

    def test_labels_have_none(self, device: str) -> None:
        logits, labels = to_npu((doubles(3, 4, requires_grad=True), doubles(3, 4, requires_grad=True)), device)
        torch.ops.npu.npu_softmax_cross_entropy_with_logits(logits, labels).sum().backward()
        assert logits.grad is not None
        assert labels.grad is None


class TestCrossEntropyLoss:
    TARGET = torch.tensor([0, 4, 2, 2])

    @pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
    @pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
    @pytest.mark.parametrize(("ignore_index", "smoothing"), [(-100, 0.0), (2, 0.1)])
    def test_is_that_of_torch(
        self, device: str, reduction: str, weighted: bool, ignore_index: int, smoothing: float
    ) -> None:
        logits = doubles(4, 5, requires_grad=True)
        weight: Optional[Tensor] = doubles(5, seed=1).sigmoid() if weighted else None
        options = {"reduction": reduction, "ignore_index": ignore_index, "label_smoothing": smoothing}
        expected = functional.cross_entropy(logits, self.TARGET, weight, **options).reshape(-1)
        theirs, target, their_weight = to_npu((logits, self.TARGET, weight), device)
        found, log_probabilities, *empty = torch.ops.npu.npu_cross_entropy_loss(theirs, target, their_weight, **options)
        assert found.shape == ((4,) if reduction == "none" else (1,))
        assert_on(device, found, expected, **CLOSE)
        assert_on(device, gradients(found, theirs)[0], gradients(expected, logits)[0], **CLOSE)
        assert_on(device, log_probabilities, logits.log_softmax(-1), **CLOSE)
        assert [output.numel() for output in empty] == [0, 0]

    @pytest.mark.parametrize("options", [{"return_zloss": True}, {"lse_square_scale_for_zloss": 0.1}])
    def test_the_z_loss_is_not_emulated(self, device: str, options: dict[str, Any]) -> None:
        with pytest.raises(NotEmulated, match="the z-loss is not enabled on the device either"):
            on_device(device, "npu_cross_entropy_loss", doubles(4, 5), self.TARGET, **options)


class TestDropout:
    def test_documented_mask(self) -> None:
        # Of op-plugin's example of _npu_dropout: [1, 2, 3, 4] with p = 0.3 became [0, 2.8571, 0, 0].
        documented = torch.tensor([98] + [255] * 15, dtype=torch.uint8)
        output, _ = dropout.npu_dropout_do_mask(torch.tensor([1.0, 2, 3, 4]), documented, 0.3)
        torch.testing.assert_close(output, torch.tensor([0, 2.8571, 0, 0]), rtol=1e-4, atol=0)

    @pytest.mark.parametrize("count", [1, 8, 127, 128, 129])
    def test_masks_unpack_to_what_was_packed(self, count: int) -> None:
        kept = torch.rand(count, generator=torch.Generator().manual_seed(count)) > 0.5
        mask = dropout.pack_bits(kept)
        assert (mask.dtype, mask.numel()) == (torch.uint8, (count + 127) // 128 * 16)
        assert torch.equal(dropout.unpack_bits(mask, kept), kept)

    def test_a_short_mask_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="expected a dropout mask of at least 3 bytes, found 2"):
            dropout.unpack_bits(torch.zeros(2, dtype=torch.uint8), torch.zeros(17))

    def test_keeps_and_scales(self, device: str) -> None:
        x = torch.ones(100, 100, device=device, requires_grad=True)
        output, mask = torch.ops.npu._npu_dropout(x, 0.25)
        assert output.unique().tolist() == pytest.approx([0, 4 / 3])
        assert abs((output == 0).float().mean().item() - 0.25) < 0.02
        (gradient,) = torch.autograd.grad(output.sum(), x)
        assert torch.equal(gradient, output)
        ones = torch.ones_like(x)
        assert torch.equal(torch.ops.npu.npu_dropout_backward(ones, mask, 0.25), output)
        assert torch.equal(torch.ops.npu.npu_dropout_do_mask(ones, mask, 0.25)[0], output)

    @pytest.mark.parametrize(("p", "expected"), [(0.0, 1.0), (1.0, 0.0)])
    def test_certainty(self, device: str, p: float, expected: float) -> None:
        output, _ = on_device(device, "_npu_dropout", torch.ones(50), p)
        assert_on(device, output, torch.full((50,), expected))

    def test_follows_the_generator_of_the_device(self, device: str) -> None:
        masks = []
        for seed in (1, 2, 1):
            torch.npu.manual_seed(seed)
            masks.append(on_device(device, "_npu_dropout", torch.ones(200), 0.5)[1].cpu())
        assert torch.equal(masks[0], masks[2])
        assert not torch.equal(masks[0], masks[1])

    def test_with_add_and_softmax(self, device: str) -> None:
        x, x1 = doubles(2, 3, 4, 5, requires_grad=True), doubles(2, 3, 4, 5, seed=1, requires_grad=True)
        theirs = to_npu((x, x1), device)
        mask, softmax, output = torch.ops.npu.npu_dropout_with_add_softmax(*theirs, 2, 0.4, -1)
        expected = torch.softmax(x1 + 2 * x, dim=-1)
        assert_on(device, softmax, expected, **CLOSE)
        kept = dropout.unpack_bits(mask.cpu(), x)
        assert 0 < kept.sum() < kept.numel()
        dropped = torch.where(kept, expected / 0.6, 0)
        assert_on(device, output, dropped, **CLOSE)
        for found, wanted in zip(gradients(output, *theirs), gradients(dropped, x, x1)):
            assert_on(device, found, wanted, **CLOSE)


class TestProducts:
    @pytest.mark.parametrize("biased", [True, False], ids=["bias", "no bias"])
    def test_linear(self, device: str, biased: bool) -> None:
        x, weight, bias = doubles(3, 4), doubles(5, 4, seed=1), doubles(5, seed=2)
        arguments = (x, weight, bias) if biased else (x, weight)
        expected = (x.unsqueeze(1) * weight).sum(-1) + (bias if biased else 0)
        assert_on(device, on_device(device, "npu_linear", *arguments), expected, **CLOSE)

    def test_gradients_of_linear(self) -> None:
        inputs = [doubles(*shape, requires_grad=True) for shape in [(2, 3), (4, 3), (4,)]]
        assert gradcheck(linear.npu_linear, inputs)

    def test_batches(self, device: str) -> None:
        first, second = doubles(2, 3, 4), doubles(2, 4, 5, seed=1)
        assert_on(device, on_device(device, "npu_bmmV2", first, second, []), first @ second, **CLOSE)

    def test_sizes_of_the_output_sum_a_broadcast(self, device: str) -> None:
        first, second = doubles(2, 3, 4), doubles(2, 4, 5, seed=1)
        found = on_device(device, "npu_bmmV2", first, second, [3, 5])
        assert_on(device, found, (first @ second).sum(0), **CLOSE)

    def test_gradients_of_batches(self) -> None:
        inputs = [doubles(*shape, requires_grad=True) for shape in [(2, 2, 3), (2, 3, 2)]]
        assert gradcheck(lambda *args: linear.npu_bmm_v2(*args, []), inputs)
