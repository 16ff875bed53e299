"""Attention of diffusers on the fused kernel: with each kind of mask, and what is left to the original."""

from __future__ import annotations

import threading
from typing import Any, Optional

import pytest
import torch
from diffusers.models import attention_dispatch
from diffusers.models.attention_processor import Attention, AttnProcessor2_0, AttnProcessorNPU
from diffusion_models import RELEASE
from torch.utils._python_dispatch import TorchDispatchMode

import patchcore as pc
from diffusers_npu import attention

PATCHES = (attention.DISPATCHER, *attention.MODULES)
ROWS_OF_BATCH = RELEASE >= (0, 37)
TOLERANCES = {torch.float32: 1e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}


class Operators(TorchDispatchMode):
    """Lists the operators that run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Optional[dict[str, Any]] = None) -> Any:
        self.names.append(func.overloadpacket._qualified_op_name)
        return func(*args, **(kwargs or {}))

    @property
    def fused(self) -> list[str]:
        return [name for name in self.names if "npu_fusion_attention" in name]

    @property
    def copies(self) -> int:
        return sum(name in ("aten::clone", "aten::copy_", "aten::contiguous") for name in self.names)


def inputs(dtype: torch.dtype, heads: int = 3, keys: int = 7, width: int = 8) -> list[torch.Tensor]:
    torch.manual_seed(0)
    shapes = [(2, 5, heads, width), (2, keys, heads, width), (2, keys, heads, width)]
    return [torch.randn(shape, dtype=dtype).requires_grad_() for shape in shapes]


def outcome(tensors: list[torch.Tensor], device: str, **options: Any) -> list[torch.Tensor]:
    """The result of the dispatcher and the gradients of its arguments."""
    there = [tensor.detach().to(device).requires_grad_() for tensor in tensors]
    options = {n: o.to(device) if isinstance(o, torch.Tensor) else o for n, o in options.items()}
    result = attention_dispatch.dispatch_attention_fn(*there, **options)
    torch.manual_seed(1)
    result.backward(torch.randn(result.shape).to(result))
    return [each.detach().float().cpu() for each in (result, *(tensor.grad for tensor in there))]


def added(shape: tuple[int, ...], hidden: float, dtype: torch.dtype) -> torch.Tensor:
    torch.manual_seed(2)
    mask = torch.where(torch.rand(shape) > 0.6, hidden, 0.0)
    mask[..., 0] = 0.0
    return mask.to(dtype)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize(
    "shape",
    [*([(2, 7)] * ROWS_OF_BATCH), (2, 1, 1, 7), (2, 3, 1, 7), (2, 3, 5, 7), (1, 1, 5, 7), (5, 7), (1, 3, 5, 7)],
)
@pytest.mark.parametrize("hidden", [-1.5, -10000.0, float("-inf")])
def test_an_added_mask_is_fused(dtype: torch.dtype, shape: tuple[int, ...], hidden: float) -> None:
    tensors, mask = inputs(dtype), added(shape, hidden, dtype)
    expected = outcome([tensor.float() for tensor in tensors], "cpu", attn_mask=mask.float())
    with pc.Patcher(PATCHES), Operators() as operators:
        found = outcome(tensors, "npu", attn_mask=mask)
    assert operators.fused[0] == "npu::npu_fusion_attention_v2"
    for one, other in zip(found, expected):
        assert torch.allclose(one, other, atol=TOLERANCES[dtype] * max(1.0, other.abs().max().item()))


def test_a_mask_of_two_dimensions_has_the_rows_that_the_library_reads() -> None:
    """With as many queries as the batch has, they may be rows of the one or of the other."""
    tensors, mask = [tensor[:, :2] for tensor in inputs(torch.float32)], torch.tensor([[0.0, -9.0], [-1.5, 0.0]])
    with pc.Patcher(PATCHES):
        found = outcome(tensors, "npu", attn_mask=mask)
    for one, other in zip(found, outcome(tensors, "cpu", attn_mask=mask)):
        assert torch.allclose(one, other, atol=1e-5)


def test_torch_npu_alone_does_not_fuse_it() -> None:
    with Operators() as operators:
        outcome(inputs(torch.float16), "npu", attn_mask=added((2, 3, 5, 7), -10000.0, torch.float16))
    assert operators.fused == []
    assert "aten::_safe_softmax" in operators.names


def test_a_row_without_keys_gives_zeros_as_in_torch() -> None:
    tensors, mask = inputs(torch.float32), torch.zeros(2, 1, 5, 7)
    mask[:, :, 2] = float("-inf")
    with pc.Patcher(PATCHES):
        found = outcome(tensors, "npu", attn_mask=mask)
    expected = outcome(tensors, "cpu", attn_mask=mask)
    assert found[0][:, 2].abs().max() == 0
    assert all(torch.allclose(one, other, atol=1e-5) for one, other in zip(found, expected))


def test_the_librarys_own_back_end_for_npus_reads_an_added_mask_the_wrong_way_round() -> None:
    tensors, mask = inputs(torch.float16), added((2, 1, 1, 7), -10000.0, torch.float16)
    expected = outcome([tensor.float() for tensor in tensors], "cpu", attn_mask=mask.float())[0]
    found = outcome(tensors, "npu", attn_mask=mask, backend="_native_npu")[0]
    assert (found - expected).abs().max() > 0.1


def test_without_a_mask_the_result_is_not_copied_back() -> None:
    tensors = [tensor.detach().npu() for tensor in inputs(torch.float16)]
    counts = []
    for patches in ((), PATCHES):
        with pc.Patcher(patches), Operators() as operators:
            attention_dispatch.dispatch_attention_fn(*tensors).flatten(2, 3)
        assert len(operators.fused) == 1
        counts.append(operators.copies)
    assert counts == [1, 0]


@pytest.mark.parametrize(
    "options",
    [
        {"is_causal": True},
        {"dropout_p": 0.5},
        {"attn_mask": torch.ones(2, 1, 5, 7, dtype=torch.bool)},
        {"attn_mask": torch.ones(2, 1, 5, 7, dtype=torch.float32).requires_grad_()},
    ],
    ids=["causal", "dropout", "truth values", "mask with a gradient"],
)
def test_left_to_the_original(options: dict[str, Any]) -> None:
    tensors = [tensor.detach().npu() for tensor in inputs(torch.float32)]
    there = {
        n: o.detach().npu().requires_grad_(o.requires_grad) if hasattr(o, "npu") else o for n, o in options.items()
    }
    assert not attention.can_dispatch(*tensors, **there)


@pytest.mark.parametrize("change", ["cpu", "float64", "width", "heads", "keys", "subclass", "three dimensions"])
def test_inputs_that_the_kernel_does_not_take(change: str) -> None:
    class Other(torch.Tensor):
        pass

    query, key, value = (tensor.detach() for tensor in inputs(torch.float32))
    changed = {
        "cpu": lambda: (query, key, value),
        "float64": lambda: (query.double().npu(), key.double().npu(), value.double().npu()),
        "width": lambda: (torch.randn(1, 2, 2, 520).npu(),) * 3,
        "heads": lambda: (torch.randn(1, 2, 257, 8).npu(),) * 3,
        "keys": lambda: (query.npu(), key[:, :0].npu(), value[:, :0].npu()),
        "subclass": lambda: (query.npu().as_subclass(Other), key.npu(), value.npu()),
        "three dimensions": lambda: (query[0].npu(), key[0].npu(), value[0].npu()),
    }[change]()
    assert not attention.can_dispatch(*changed)


def test_autocast_converts_as_the_original_does() -> None:
    tensors = [tensor.detach().npu() for tensor in inputs(torch.float32)]
    with torch.autocast("npu", torch.float16):
        assert not attention.can_dispatch(*tensors)
    assert attention.can_dispatch(*tensors)


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "group norm": {"norm_num_groups": 4},
    "norm of the context": {"cross_attention_dim": 10, "cross_attention_norm": "layer_norm"},
    "group norm of the context": {
        "cross_attention_dim": 12,
        "cross_attention_norm": "group_norm",
        "cross_attention_norm_num_groups": 4,
    },
    "norms of queries and keys": {"qk_norm": "layer_norm"},
    "residual": {"residual_connection": True, "rescale_output_factor": 2.0},
}


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("masked", [False, True], ids=["no mask", "mask"])
@pytest.mark.parametrize("name", OPTIONS)
def test_attention_processor(name: str, masked: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    options = OPTIONS[name]
    width = options.get("cross_attention_dim")
    module = Attention(query_dim=16, heads=2, dim_head=8, processor=AttnProcessor2_0(), **options)
    image = torch.randn(2, 9, 16)
    text = torch.randn(2, 6, width) if width else None
    mask = added((2, 1, 6 if width else 9), -10000.0, torch.float32) if masked else None

    def call(device: str, dtype: torch.dtype) -> list[torch.Tensor]:
        there = module.to(device, dtype)
        there.zero_grad()
        x = image.detach().to(device, dtype).requires_grad_()
        context, bias = (None if each is None else each.to(device, dtype) for each in (text, mask))
        result = there(x, encoder_hidden_states=context, attention_mask=bias)
        result.float().pow(2).sum().backward()
        gradients = [x.grad, *(parameter.grad for _, parameter in sorted(module.named_parameters()))]
        return [each.detach().float().cpu() for each in (result, *(g for g in gradients if g is not None))]

    expected = call("npu", dtype)
    with pc.Patcher(PATCHES, count=True) as patcher:
        found = call("npu", dtype)
    (change,) = patcher.report()["diffusers.attention.attention_processor"].changes
    in_place = (
        name != "norms of queries and keys"
    )  # whose results have the heads first: torch_npu fuses them as they are
    assert change.replaced == (masked or in_place)
    largest = max(each.abs().max().item() for each in expected)
    for one, other in zip(found, expected):
        assert (one - other).abs().max() <= 4 * TOLERANCES[dtype] * max(other.abs().max().item(), largest / 10)


def test_the_librarys_processor_for_npus_leaves_out_the_norms_of_queries_and_keys() -> None:
    torch.manual_seed(0)
    module = Attention(query_dim=16, heads=2, dim_head=8, processor=AttnProcessor2_0(), qk_norm="layer_norm").npu()
    x = torch.randn(2, 9, 16).npu()
    expected = module(x)
    module.set_processor(AttnProcessorNPU())
    assert not torch.allclose(module(x), expected, atol=1e-3)


def test_nothing_outside_of_diffusers_finds_the_replacement_during_a_call() -> None:
    original = torch.nn.functional.scaled_dot_product_attention
    seen = []

    class Looks(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            thread = threading.Thread(target=lambda: seen.append(torch.nn.functional.scaled_dot_product_attention))
            thread.start()
            thread.join()
            return x

    module = Attention(query_dim=16, heads=2, dim_head=8, processor=AttnProcessor2_0()).npu()
    module.to_k = Looks()
    with pc.Patcher(PATCHES):
        module(torch.randn(2, 9, 16).npu())
    assert seen == [original]


def test_reverted_exactly() -> None:
    processor = __import__("diffusers.models.attention_processor", fromlist=["F"])
    before = dict(vars(processor)), attention_dispatch._native_attention.__code__
    with pc.Patcher(PATCHES):
        pass
    assert dict(vars(processor)) == before[0]
    assert attention_dispatch._native_attention.__code__ is before[1]


@pytest.mark.parametrize("kind", ["truth values", "added"])
def test_a_mask_with_one_row_gets_one_for_each_query_unless_it_is_fused(kind: str) -> None:
    seen = []

    def watch(original: Any, query: Any, key: Any, value: Any, attn_mask: Any = None, *rest: Any, **named: Any) -> Any:
        seen.append(tuple(attn_mask.shape))
        return original(query, key, value, attn_mask, *rest, **named)

    target = "diffusers.models.attention_processor:F.scaled_dot_product_attention"
    below = pc.Patch(
        "watch",
        pc.Wrap(target, watch, only_in="diffusers.models.attention_processor"),
        before=["diffusers.attention.mask_rows"],
        signatures="any",
    )
    module = Attention(query_dim=16, heads=2, dim_head=8, processor=AttnProcessor2_0()).npu()
    x, mask = torch.randn(2, 9, 16).npu(), torch.ones(2, 1, 9, dtype=torch.bool).npu()
    mask = mask if kind == "truth values" else mask.float() * -10000.0
    with pc.Patcher([below, attention.MASK_ROWS]):
        found = module(x, attention_mask=mask)
    assert seen == [(2, 2, 9 if kind == "truth values" else 1, 9)]
    assert torch.allclose(found, module(x, attention_mask=mask), atol=1e-5)
