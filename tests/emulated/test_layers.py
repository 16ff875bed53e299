"""Layers of torch.nn on the emulated NPU equal those on the CPU, forward and backward."""

from __future__ import annotations

import copy

import pytest
import torch
from comparing import agree_on, assert_same, to_npu
from samples import values
from torch import nn

ROUND_OFF = {"rtol": 1e-5, "atol": 1e-5}


class TestBatchNorm:
    def test_training_updates_the_running_statistics(self) -> None:
        ours = nn.BatchNorm2d(3)
        theirs = copy.deepcopy(ours).npu()
        inputs = values(4, 3, 5, 5, grad=True)
        agree_on(ours, theirs, inputs)
        assert_same(dict(theirs.named_buffers()), dict(ours.named_buffers()), **ROUND_OFF)
        assert int(theirs.num_batches_tracked) == 1


class TestAttention:
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

    def test_packed_sequences(self) -> None:
        ours = nn.LSTM(4, 6)
        theirs = copy.deepcopy(ours).npu()
        x, lengths = values(5, 3, 4), torch.tensor([5, 3, 2])
        expected = nn.utils.rnn.pad_packed_sequence(ours(nn.utils.rnn.pack_padded_sequence(x, lengths))[0])[0]
        packed = nn.utils.rnn.pack_padded_sequence(x.npu(), lengths)
        assert_same(nn.utils.rnn.pad_packed_sequence(theirs(packed)[0])[0], expected, **ROUND_OFF)
