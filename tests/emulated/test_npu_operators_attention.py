"""Fused attention against torch's scaled_dot_product_attention in float64."""

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
from npu_emulator.torch_npu.ops import attention

CLOSE: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-12}
SCALE = 0.3
BATCH, HEADS, QUERIES, KEYS, SIZE = 2, 4, 5, 7, 8
COMPRESSED = torch.ones(2048, 2048, dtype=torch.bool).triu(1)


def tensors(kv_heads: int = HEADS, queries: int = QUERIES, keys: int = KEYS) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value in layout BNSD, float64, that require gradients."""
    shapes = [(BATCH, HEADS, queries, SIZE), (BATCH, kv_heads, keys, SIZE), (BATCH, kv_heads, keys, SIZE)]
    query, key, value = (doubles(*shape, seed=seed, requires_grad=True) for seed, shape in enumerate(shapes))
    return query, key, value


def expected_attention(query: Tensor, key: Tensor, value: Tensor, masked: Optional[Tensor] = None) -> Tensor:
    allowed = None if masked is None else ~masked
    return functional.scaled_dot_product_attention(query, key, value, allowed, scale=SCALE, enable_gqa=True)


def in_layout(tensor: Tensor, layout: str) -> Tensor:
    if layout == "BNSD":
        return tensor
    by_position = tensor.transpose(1, 2)
    if layout == "BSND":
        return by_position
    together = by_position.flatten(2)
    return together.transpose(0, 1) if layout == "SBH" else together


class TestLayouts:
    @pytest.mark.parametrize("layout", ["BNSD", "BSND", "BSH", "SBH"])
    @pytest.mark.parametrize("kv_heads", [HEADS, 2, 1])
    def test_all_give_the_same(self, device: str, layout: str, kv_heads: int) -> None:
        plain = tensors(kv_heads)
        laid_out = [in_layout(tensor, layout) for tensor in plain]
        output = on_device(device, "npu_fusion_attention", *laid_out, HEADS, layout, scale=SCALE)[0]
        assert_on(device, output, in_layout(expected_attention(*plain), layout), **CLOSE)

    @pytest.mark.parametrize("layout", ["BNSD", "BSND", "BSH", "SBH"])
    def test_gradients_are_those_of_torch(self, device: str, layout: str) -> None:
        plain = tensors(kv_heads=2)
        expected = gradients(in_layout(expected_attention(*plain), layout), *plain)
        theirs = to_npu(plain, device)
        laid_out = [in_layout(tensor, layout) for tensor in theirs]
        output = torch.ops.npu.npu_fusion_attention(*laid_out, HEADS, layout, scale=SCALE)[0]
        for found, wanted in zip(gradients(output, *theirs), expected):
            assert_on(device, found, wanted, **CLOSE)

    def test_values_may_be_smaller_than_keys(self, device: str) -> None:
        query, key, value = tensors()
        output = on_device(device, "npu_fusion_attention", query, key, value[..., :3], HEADS, "BNSD", scale=SCALE)[0]
        assert_on(device, output, expected_attention(query, key, value[..., :3]), **CLOSE)

    def test_an_unknown_layout_is_an_error(self, device: str) -> None:
        with pytest.raises(ValueError, match="expected input_layout BNSD, BSND, BSH, SBH or TND, found 'BHSD'"):
            on_device(device, "npu_fusion_attention", *tensors(), HEADS, "BHSD")

    def test_another_number_of_heads_is_an_error(self, device: str) -> None:
        with pytest.raises(ValueError, match="expected query of head_num=2 heads in layout BNSD"):
            on_device(device, "npu_fusion_attention", *tensors(), 2, "BNSD")

    def test_heads_that_do_not_divide_are_an_error(self, device: str) -> None:
        with pytest.raises(ValueError, match="expected the heads of key to divide the 4 of query, found 3"):
            on_device(device, "npu_fusion_attention", *tensors(kv_heads=3), HEADS, "BNSD")


def band(queries: int, keys: int, before: int, after: int, *, from_last: bool) -> Tensor:
    """Which pairs lie outside of a band, pair by pair."""
    shift = keys - queries if from_last else 0
    rows = [[not (q + shift - before <= k <= q + shift + after) for k in range(keys)] for q in range(queries)]
    return torch.tensor(rows)


class TestSparsity:
    def check(self, device: str, masked: Optional[Tensor], **options: Any) -> None:
        plain = tensors()
        output = on_device(device, "npu_fusion_attention", *plain, HEADS, "BNSD", scale=SCALE, **options)[0]
        assert_on(device, output, expected_attention(*plain, masked), **CLOSE)

    @pytest.mark.parametrize("shape", [(QUERIES, KEYS), (1, 1, QUERIES, KEYS), (BATCH, 1, QUERIES, KEYS),
                                       (BATCH, HEADS, QUERIES, KEYS)])  # fmt: skip
    @pytest.mark.parametrize("mode", [0, 1])
    @pytest.mark.parametrize("dtype", [torch.bool, torch.uint8])
    def test_full_masks(self, device: str, mode: int, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        masked = doubles(*shape, seed=9) > 0.8
        masked[..., 0] = False
        self.check(device, masked, sparse_mode=mode, atten_mask=masked.to(dtype))

    def test_limits_narrow_the_default_mode(self, device: str) -> None:
        nothing = torch.zeros(QUERIES, KEYS, dtype=torch.bool)
        outside = band(QUERIES, KEYS, 1, 2, from_last=False)
        self.check(device, outside, sparse_mode=0, atten_mask=nothing, pre_tockens=1, next_tockens=2)

    def test_mode_1_ignores_limits(self, device: str) -> None:
        nothing = torch.zeros(QUERIES, KEYS, dtype=torch.bool)
        self.check(device, None, sparse_mode=1, atten_mask=nothing, pre_tockens=1, next_tockens=2)

    def test_causal_from_the_first(self, device: str) -> None:
        outside = band(QUERIES, KEYS, 99, 0, from_last=False)
        self.check(device, outside, sparse_mode=2, atten_mask=COMPRESSED)

    def test_causal_from_the_last(self, device: str) -> None:
        outside = band(QUERIES, KEYS, 99, 0, from_last=True)
        self.check(device, outside, sparse_mode=3, atten_mask=COMPRESSED)

    def test_band_from_the_last(self, device: str) -> None:
        outside = band(QUERIES, KEYS, 2, 1, from_last=True)
        self.check(device, outside, sparse_mode=4, atten_mask=COMPRESSED, pre_tockens=2, next_tockens=1)

    @pytest.mark.parametrize("mode", [0, 1, 2, 3, 4])
    def test_without_a_mask_every_pair_counts(self, device: str, mode: int) -> None:
        self.check(device, None, sparse_mode=mode, pre_tockens=1, next_tockens=0)

    def test_rows_without_any_key_are_zero(self, device: str) -> None:
        plain = tensors(queries=KEYS, keys=QUERIES)
        theirs = to_npu(plain, device)
        options: dict[str, Any] = {"scale": SCALE, "sparse_mode": 3, "atten_mask": COMPRESSED.to(device)}
        output = torch.ops.npu.npu_fusion_attention(*theirs, HEADS, "BNSD", **options)[0]
        masked = band(KEYS, QUERIES, 99, 0, from_last=True)
        assert output[:, :, : KEYS - QUERIES].abs().max() == 0
        expected = expected_attention(*plain, masked)[:, :, KEYS - QUERIES :]
        assert_on(device, output[:, :, KEYS - QUERIES :], expected, **CLOSE)
        assert all(gradient.isfinite().all() for gradient in gradients(output, *theirs))

    @pytest.mark.parametrize("mode", [2, 3, 4])
    def test_a_full_mask_where_a_compressed_one_belongs_is_an_error(self, device: str, mode: int) -> None:
        full = torch.zeros(QUERIES, KEYS, dtype=torch.bool)
        with pytest.raises(ValueError, match=rf"sparse_mode={mode}, the compressed atten_mask .* found shape \(5, 7\)"):
            on_device(device, "npu_fusion_attention", *tensors(), HEADS, "BNSD", sparse_mode=mode, atten_mask=full)

    def test_prefixes_are_not_emulated(self, device: str) -> None:
        with pytest.raises(NotEmulated, match="sparse_mode=5 is not emulated; 0 to 4 are"):
            on_device(device, "npu_fusion_attention", *tensors(), HEADS, "BNSD", sparse_mode=5)


class TestPositionEncoding:
    @pytest.mark.parametrize(
        "shape", [(BATCH, HEADS, QUERIES, KEYS), (1, HEADS, QUERIES, KEYS), (BATCH, HEADS, 1, KEYS)]
    )
    def test_is_added_before_scaling(self, device: str, shape: tuple[int, ...]) -> None:
        plain, pse = tensors(), doubles(*shape, seed=5, requires_grad=True)
        reference = functional.scaled_dot_product_attention(*plain, pse * SCALE, scale=SCALE)
        expected = gradients(reference, *plain, pse)
        theirs, their_pse = to_npu((plain, pse), device)
        output = torch.ops.npu.npu_fusion_attention(*theirs, HEADS, "BNSD", pse=their_pse, scale=SCALE)[0]
        assert_on(device, output, reference, **CLOSE)
        for found, wanted in zip(gradients(output, *theirs, their_pse), expected):
            assert_on(device, found, wanted, **CLOSE)


class TestSequencesOfTheirOwnLength:
    QUERY_LENGTHS, KEY_LENGTHS = (3, 0, 4, 2), (4, 0, 4, 5)

    def arguments(self) -> tuple[Tensor, Tensor, Tensor]:
        query, key = doubles(sum(self.QUERY_LENGTHS), HEADS, SIZE), doubles(sum(self.KEY_LENGTHS), 2, SIZE, seed=1)
        return query, key, doubles(sum(self.KEY_LENGTHS), 2, SIZE, seed=2)

    def ends(self, lengths: tuple[int, ...]) -> list[int]:
        return torch.tensor(lengths).cumsum(0).tolist()

    def expected(self, *arguments: Tensor) -> Tensor:
        splits = zip(*(
            tensor.split(lengths)
            for tensor, lengths in zip(arguments, (self.QUERY_LENGTHS, self.KEY_LENGTHS, self.KEY_LENGTHS))
        ))  # fmt: skip
        outputs = []
        for query, key, value in splits:
            masked = band(len(query), len(key), 99, 0, from_last=True)
            parts = (part.transpose(0, 1)[None] for part in (query, key, value))
            outputs.append(expected_attention(*parts, masked)[0].transpose(0, 1) if len(query) else query)
        return torch.cat(outputs)

    def test_are_attended_one_by_one(self, device: str) -> None:
        arguments = self.arguments()
        output, maximum, total, *_ = on_device(
            device,
            "npu_fusion_attention",
            *arguments,
            HEADS,
            "TND",
            scale=SCALE,
            sparse_mode=3,
            atten_mask=COMPRESSED,
            actual_seq_qlen=self.ends(self.QUERY_LENGTHS),
            actual_seq_kvlen=self.ends(self.KEY_LENGTHS),
        )
        assert_on(device, output, self.expected(*arguments), **CLOSE)
        assert maximum.shape == total.shape == (sum(self.QUERY_LENGTHS), HEADS, 8)

    def test_trailing_sequences_may_take_no_part(self, device: str) -> None:
        arguments = self.arguments()
        ends = self.ends(self.QUERY_LENGTHS)[:3] + [0], self.ends(self.KEY_LENGTHS)[:3] + [0]
        output = on_device(
            device, "npu_fusion_attention", *arguments, HEADS, "TND", scale=SCALE, sparse_mode=3, atten_mask=COMPRESSED,
            actual_seq_qlen=ends[0], actual_seq_kvlen=ends[1],
        )[0]  # fmt: skip
        assert_on(device, output[:7], self.expected(*arguments)[:7], **CLOSE)
        assert output.shape == (sum(self.QUERY_LENGTHS), HEADS, SIZE)
        assert output[7:].abs().max() == 0

    def test_statistics_can_be_ordered_by_token(self, device: str) -> None:
        ends = {"actual_seq_qlen": self.ends(self.QUERY_LENGTHS), "actual_seq_kvlen": self.ends(self.KEY_LENGTHS)}
        statistics = {
            layout: on_device(
                device, "npu_fusion_attention", *self.arguments(), HEADS, "TND", softmax_layout=layout, **ends
            )[1]
            for layout in ("", "TND")
        }
        by_head = statistics[""].view(HEADS, -1, 8)
        assert torch.equal(by_head.transpose(0, 1), statistics["TND"])

    def test_lengths_have_to_be_given(self, device: str) -> None:
        with pytest.raises(ValueError, match="expected actual_seq_qlen and actual_seq_kvlen, of one length"):
            on_device(device, "npu_fusion_attention", *self.arguments(), HEADS, "TND")


class TestStatistics:
    def test_give_the_logarithm_of_the_sum_of_exponentials(self, device: str) -> None:
        query, key, value = tensors()
        _, maximum, total, reserved, *numbers = on_device(
            device, "npu_fusion_attention", query, key, value, HEADS, "BNSD", scale=SCALE
        )
        logits = SCALE * query @ key.mT
        wanted = logits.logsumexp(-1, keepdim=True).expand(-1, -1, -1, 8)
        assert_on(device, maximum + total.log(), wanted, **CLOSE)
        assert_on(device, maximum, logits.amax(-1, keepdim=True).expand(-1, -1, -1, 8), **CLOSE)
        assert (reserved.numel(), numbers) == (0, [0, 0, 0])

    def test_are_single_precision_for_half_precision(self, device: str) -> None:
        halves = [tensor.detach().half() for tensor in tensors()]
        output, maximum, total, *_ = on_device(device, "npu_fusion_attention", *halves, HEADS, "BNSD", scale=SCALE)
        assert (output.dtype, maximum.dtype, total.dtype) == (torch.float16, torch.float32, torch.float32)
        exact = expected_attention(*(tensor.double() for tensor in halves))
        assert_on(device, output, exact.half(), rtol=1e-3, atol=1e-4)


class TestDropout:
    def test_keeps_about_as_many_as_asked(self, device: str) -> None:
        query = torch.zeros(1, 1, 100, 4)
        value = torch.eye(100).view(1, 1, 100, 100)
        options = {"keep_prob": 0.75}
        weights = on_device(device, "npu_fusion_attention", query, query, value, 1, "BNSD", **options)[0].cpu()
        assert set(weights.unique().mul(75).round(decimals=4).tolist()) == {0.0, 1.0}
        assert abs((weights > 0).float().mean() - 0.75) < 0.02

    def test_follows_the_generator_of_the_device(self, device: str) -> None:
        def attend() -> Tensor:
            return on_device(device, "npu_fusion_attention", *tensors(), HEADS, "BNSD", keep_prob=0.5)[0].cpu()

        torch.npu.manual_seed(1)
        first, second = attend(), attend()
        torch.npu.manual_seed(1)
        assert torch.equal(attend(), first)
        assert not torch.equal(first, second)

    @pytest.mark.parametrize("keep_prob", [0.0, 1.5])
    def test_an_impossible_probability_is_an_error(self, device: str, keep_prob: float) -> None:
        with pytest.raises(ValueError, match=r"expected keep_prob in \(0, 1\]"):
            on_device(device, "npu_fusion_attention", *tensors(), HEADS, "BNSD", keep_prob=keep_prob)


class TestScaledMaskedSoftmax:
    def test_is_softmax_without_what_is_masked(self, device: str) -> None:
        x, mask = doubles(2, 3, 4, 5), doubles(1, 1, 4, 5, seed=1) > 0.7
        mask[..., 0] = False
        expected = torch.softmax((0.5 * x).masked_fill(mask, -torch.inf), dim=-1)
        assert_on(device, on_device(device, "npu_scaled_masked_softmax", x, mask, 0.5, False), expected, **CLOSE)

    def test_rows_without_any_logit_are_uniform(self, device: str) -> None:
        x = doubles(2, 4)
        output = on_device(device, "npu_scaled_masked_softmax", x, torch.ones(2, 4, dtype=torch.bool))
        assert_on(device, output, torch.full((2, 4), 0.25, dtype=torch.float64), **CLOSE)

    def test_gradients(self) -> None:
        mask = torch.tensor([[False, True, False], [False, False, True]])
        softmax = attention.npu_scaled_masked_softmax
        assert gradcheck(lambda x: softmax(x, mask, 0.5), doubles(2, 3, requires_grad=True))

    def test_the_fixed_mask_is_not_emulated(self, device: str) -> None:
        with pytest.raises(NotEmulated, match="fixed_triu_mask=True is not implemented on the device"):
            on_device(device, "npu_scaled_masked_softmax", doubles(2, 2), torch.ones(2, 2, dtype=torch.bool), 1, True)
