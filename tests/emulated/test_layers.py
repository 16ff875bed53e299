"""Layers of torch.nn on the emulated NPU equal those on the CPU, forward and backward."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from checks import check
from comparing import agree, agree_on, assert_same, to_npu
from samples import values
from torch import Tensor, nn

ROUND_OFF = {"rtol": 1e-5, "atol": 1e-5}


@check("matmul")
class TestMatmul:
    @pytest.mark.parametrize(
        ("a", "b"),
        [((3,), (3,)), ((2, 3), (3,)), ((2, 3), (3, 4)), ((5, 2, 3), (5, 3, 4)), ((2, 1, 2, 3), (5, 3, 4))],
        ids=["dot", "mv", "mm", "bmm", "broadcast"],
    )
    def test_ranks(self, a: tuple[int, ...], b: tuple[int, ...]) -> None:
        agree(torch.matmul, values(*a, grad=True), values(*b, grad=True), **ROUND_OFF)

    def test_fused_and_transposed(self) -> None:
        agree(lambda c, a, b: (torch.addmm(c, a, b, alpha=2), a.T @ a), *(values(3, 3, grad=True) for _ in range(3)))
        agree(lambda a, b: torch.einsum("bij,bkj->bik", a, b), values(2, 3, 4), values(2, 5, 4), **ROUND_OFF)
        agree(F.linear, values(2, 3, 4, grad=True), values(5, 4, grad=True), values(5, grad=True), **ROUND_OFF)


@check("conv2d")
class TestConvolution:
    @pytest.mark.parametrize(
        "options",
        [{}, {"stride": 2, "padding": 1}, {"dilation": 2}, {"padding": "same"}, {"padding": 1, "groups": 2}],
        ids=["plain", "strided", "dilated", "same", "groups"],
    )
    def test_options(self, options: dict[str, object]) -> None:
        weight = values(4, 4 // int(str(options.get("groups", 1))), 3, 3, grad=True)
        inputs = (values(2, 4, 9, 8, grad=True), weight, values(4, grad=True))
        agree(lambda x, w, b: F.conv2d(x, w, b, **options), *inputs, rtol=1e-5, atol=1e-4)

    def test_channels_last(self) -> None:
        inputs = values(2, 4, 6, 6).contiguous(memory_format=torch.channels_last).requires_grad_()
        agree(lambda x, w: F.conv2d(x, w), inputs, values(3, 4, 3, 3, grad=True), rtol=1e-5, atol=1e-4)

    def test_one_and_three_dimensions_and_transposed(self) -> None:
        tolerance = {"rtol": 1e-5, "atol": 1e-4}
        agree(F.conv1d, values(2, 3, 8, grad=True), values(4, 3, 3, grad=True), **tolerance)
        agree(F.conv3d, values(1, 2, 4, 4, 4, grad=True), values(3, 2, 2, 2, 2, grad=True), **tolerance)
        agree(
            lambda x, w: F.conv_transpose2d(x, w, stride=2, output_padding=1),
            values(2, 3, 4, 4, grad=True),
            values(3, 4, 3, 3, grad=True),
            **tolerance,
        )

    def test_double_backward(self) -> None:
        def penalty(x: Tensor, w: Tensor) -> Tensor:
            (gradient,) = torch.autograd.grad(F.conv2d(x, w).square().sum(), x, create_graph=True)
            return gradient.square().sum()

        agree(penalty, values(1, 2, 5, 5, grad=True), values(2, 2, 3, 3, grad=True), rtol=1e-4, atol=1e-3)


@check("batch norm")
class TestBatchNorm:
    def test_training_updates_the_running_statistics(self) -> None:
        ours = nn.BatchNorm2d(3)
        theirs = copy.deepcopy(ours).npu()
        inputs = values(4, 3, 5, 5, grad=True)
        agree_on(ours, theirs, inputs)
        assert_same(dict(theirs.named_buffers()), dict(ours.named_buffers()), **ROUND_OFF)
        assert int(theirs.num_batches_tracked) == 1

    def test_evaluation_uses_them(self) -> None:
        ours = nn.BatchNorm2d(3).eval()
        ours.running_mean.add_(0.5)
        ours.running_var.mul_(2)
        agree_on(ours, copy.deepcopy(ours).npu(), values(4, 3, 5, 5, grad=True))

    @pytest.mark.parametrize("norm", [nn.GroupNorm(2, 4), nn.InstanceNorm2d(4, affine=True)], ids=["group", "instance"])
    def test_relatives(self, norm: nn.Module) -> None:
        agree_on(norm, copy.deepcopy(norm).npu(), values(2, 4, 5, 5, grad=True))


@check("max pool")
class TestPooling:
    def test_values_indices_and_gradients(self) -> None:
        pool = nn.MaxPool2d(3, stride=2, padding=1, return_indices=True)
        agree(pool, values(2, 3, 8, 8, grad=True), **ROUND_OFF)

    @pytest.mark.parametrize(
        "pool",
        [nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(1), nn.AdaptiveAvgPool2d((2, 3)), nn.AdaptiveMaxPool2d(2)],
        ids=["average", "global", "adaptive", "adaptive maximum"],
    )
    def test_relatives(self, pool: nn.Module) -> None:
        agree(pool, values(2, 3, 8, 9, grad=True), **ROUND_OFF)


@check("attention")
class TestAttention:
    @pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
    def test_scaled_dot_product(self, causal: bool) -> None:
        inputs = [values(2, 3, 5, 8, grad=True) * scale for scale in (1, 0.5, 2)]
        agree(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal), *inputs, **ROUND_OFF)

    def test_with_a_mask(self) -> None:
        mask = torch.ones(5, 5, dtype=torch.bool).tril()
        inputs = [values(2, 3, 5, 8, grad=True) for _ in range(3)]
        agree(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), *inputs, mask, **ROUND_OFF)

    def test_multi_head_and_a_transformer_layer(self) -> None:
        x = values(2, 5, 8, grad=True)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        agree_on(layer, copy.deepcopy(layer).npu(), x)
        ours = nn.MultiheadAttention(8, 2, batch_first=True)
        theirs = copy.deepcopy(ours).npu()
        assert_same(theirs(x.npu(), x.npu(), x.npu()), ours(x, x, x), **ROUND_OFF)

    def test_evaluation_of_a_transformer_layer(self) -> None:
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
        x = values(2, 5, 8)
        with torch.no_grad():
            assert_same(copy.deepcopy(layer).npu()(x.npu()), layer(x), **ROUND_OFF)


@check("LSTM")
class TestRecurrent:
    @pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
    @pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}], ids=["one", "deep"])
    def test_layers(self, kind: type[nn.Module], options: dict[str, object]) -> None:
        ours = kind(4, 6, batch_first=True, **options)
        theirs = copy.deepcopy(ours).npu()
        x = values(3, 5, 4, grad=True)
        copied = to_npu(x)
        expected, emulated = ours(x), theirs(copied)
        assert_same(emulated, expected, **ROUND_OFF)
        expected[0].square().sum().backward()
        emulated[0].square().sum().backward()
        assert_same([p.grad for p in theirs.parameters()], [p.grad for p in ours.parameters()], rtol=1e-4, atol=1e-4)
        assert_same(copied.grad, x.grad, **ROUND_OFF)

    @pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
    def test_cells(self, kind: type[nn.Module]) -> None:
        cell = kind(4, 6)
        x = values(3, 4, grad=True)
        copied = to_npu(x)
        expected, emulated = cell(x), copy.deepcopy(cell).npu()(copied)
        assert_same(emulated, expected, **ROUND_OFF)

    def test_packed_sequences(self) -> None:
        ours = nn.LSTM(4, 6)
        theirs = copy.deepcopy(ours).npu()
        x, lengths = values(5, 3, 4), torch.tensor([5, 3, 2])
        expected = nn.utils.rnn.pad_packed_sequence(ours(nn.utils.rnn.pack_padded_sequence(x, lengths))[0])[0]
        packed = nn.utils.rnn.pack_padded_sequence(x.npu(), lengths)
        assert_same(nn.utils.rnn.pad_packed_sequence(theirs(packed)[0])[0], expected, **ROUND_OFF)


@check("LayerNorm")
def test_layer_norm() -> None:
    inputs = (values(2, 3, 8, grad=True), values(8, grad=True), values(8, grad=True))
    agree(lambda x, w, b: F.layer_norm(x, (8,), w, b), *inputs, **ROUND_OFF)
    agree(lambda x, w: F.rms_norm(x, (8,), w), *inputs[:2], **ROUND_OFF)
