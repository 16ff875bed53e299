"""Attention with sinks: models train as on the CPU, and what the kernel does not compute goes to the original."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from comparing_models import RELEASE, Result, assert_equal, close, padded_batch, step, tiny

import patchcore as pc
from transformers_npu.families.patches import SINKS
from transformers_npu.kernels.sinks import takes_attention_with_sinks

if RELEASE < (4, 55):
    pytest.skip("no gpt_oss", allow_module_level=True)
modeling_gpt_oss = importlib.import_module("transformers.models.gpt_oss.modeling_gpt_oss")
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
MODEL = tiny("GptOss", head_dim=8, num_local_experts=4, num_experts_per_tok=2, sliding_window=4)


def calls(patcher: pc.Patcher) -> tuple[int, int]:
    """Return the calls of gpt_oss' function, and how many of them the kernel got."""
    (change,) = (one for one in patcher.report()[SINKS.name].changes if "gpt_oss" in str(one.target))
    return change.calls or 0, change.replaced or 0


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gpt_oss_trains_as_on_the_cpu(dtype: torch.dtype) -> None:
    """One layer has a window that is shorter than the sequences, the other one none; one sequence is padded."""
    model = MODEL()
    assert model.config._attn_implementation == "eager"
    assert set(model.config.layer_types) == {"sliding_attention", "full_attention"}
    expected = step(model, padded_batch(), "cpu", dtype)
    assert any(name.endswith("sinks") and value.abs().sum() > 0 for name, value in expected.gradients.items())
    with pc.Patcher([SINKS], count=True) as patcher:
        got = step(MODEL(), padded_batch(), "npu", dtype)
        assert calls(patcher) == (2, 2)
    assert_equal(got, expected, dtype)


def test_generation_with_a_cache_gives_the_tokens_of_the_cpu() -> None:
    batch = {name: value for name, value in padded_batch().items() if name != "labels"}
    options: dict[str, Any] = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    expected = MODEL().eval().generate(**batch, **options)
    with pc.Patcher([SINKS], count=True) as patcher:
        got = MODEL().eval().to("npu").generate(**{name: each.npu() for name, each in batch.items()}, **options)
        many, taken = calls(patcher)
    assert many == taken == 16
    assert got.tolist() == expected.tolist()


def test_a_program_that_asks_for_weights_gets_them() -> None:
    batch = {name: value for name, value in padded_batch().items() if name != "labels"}
    expected = MODEL().eval()(**batch, output_attentions=True).attentions
    with pc.Patcher([SINKS], count=True) as patcher, torch.no_grad():
        model = MODEL().eval().to("npu")
        given = {name: each.npu() for name, each in batch.items()}
        model(**given)
        assert calls(patcher) == (2, 2)
        got = model(**given, output_attentions=True).attentions
        assert calls(patcher) == (4, 2)
    assert len(got) == len(expected) == 2
    for one, right in zip(got, expected):
        close(one.cpu(), right.detach(), 1e-5)


def test_a_mask_is_read_once_for_all_layers_and_again_if_it_changes() -> None:
    attention = Attention()
    mask = torch.zeros(1, 1, 5, 5).npu()
    assert attention.takes(attention_mask=mask)
    mask[..., 3:] = torch.finfo(torch.float32).min
    with pc.Patcher([SINKS]):
        close(attention.result("npu", mask), attention.result("cpu", mask), 1e-5)
    mask[..., 0, 0] = -1.0
    assert not attention.takes(attention_mask=mask)
    with pc.Patcher([SINKS], count=True) as patcher:
        close(attention.result("npu", mask), attention.result("cpu", mask), 1e-5)
        assert calls(patcher) == (2, 0)  # that of the CPU, too


class Attention:
    """A call of gpt_oss' function with two sequences of five positions; four heads, two of keys."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.query = torch.randn(2, 4, 5, 8, generator=generator)
        self.key, self.value = (torch.randn(2, 2, 5, 8, generator=generator) for _ in range(2))
        self.sinks = torch.randn(4, generator=generator)

    def arguments(self, device: str, **changed: Any) -> dict[str, Any]:
        layer = SimpleNamespace(sinks=self.sinks.to(device), num_key_value_groups=2, training=True)
        tensors = {name: getattr(self, name).to(device) for name in ("query", "key", "value")}
        return {"module": layer, **tensors, "attention_mask": None, "scaling": 0.3, "dropout": 0.0, **changed}

    def takes(self, **changed: Any) -> bool:
        given = self.arguments("npu", **changed)
        given["mask"] = given.pop("attention_mask")
        return takes_attention_with_sinks(**given)

    def result(self, device: str, mask: torch.Tensor) -> torch.Tensor:
        given = self.arguments(device, attention_mask=mask.to(device))
        return modeling_gpt_oss.eager_attention_forward(**given)[0].cpu()


@pytest.mark.parametrize(
    "changed",
    [
        {"dropout": 0.1},
        {"query": torch.zeros(2, 4, 5, 8, dtype=torch.float16)},
        {"query": torch.zeros(2, 2, 5, 8)},
        {"value": torch.zeros(2, 2, 5, 4)},
        {"attention_mask": torch.zeros(1, 1, 5, 7)},
        {"attention_mask": torch.zeros(1, 4, 5, 5)},
        {"attention_mask": torch.full((1, 1, 5, 5), -3.0)},
        {"attention_mask": torch.zeros(1, 1, 5, 5, requires_grad=True)},
        {"attention_mask": torch.ones(1, 1, 5, 5, dtype=torch.bool)},
        {"scaling": torch.tensor(0.3)},
    ],
    ids=lambda changed: " ".join(changed),
)
def test_left_to_the_original(changed: dict[str, Any]) -> None:
    attention = Attention()
    assert attention.takes()
    moved = {name: each.npu() if isinstance(each, torch.Tensor) else each for name, each in changed.items()}
    assert not attention.takes(**moved)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_gpt_oss_trains_under_autocast_as_without_the_patch(dtype: torch.dtype) -> None:
    """Queries and keys are float32 there, because rotary embeddings are, and values are not."""

    def trained() -> Result:
        with torch.autocast("npu", dtype=dtype):
            return step(MODEL(), padded_batch(), "npu", torch.float32)

    expected = trained()
    with pc.Patcher([SINKS], count=True) as patcher:
        got = trained()
        assert calls(patcher) == (2, 2)
    assert_equal(got, expected, dtype)


def test_autocast_of_a_type_that_the_kernel_lacks_is_left_to_the_original() -> None:
    attention = Attention()
    with torch.autocast("npu", dtype=torch.float16):
        assert attention.takes()
        assert not attention.takes(query=attention.query.double().npu())


def test_a_layer_that_is_watched_is_left_to_the_original() -> None:
    attention = Attention()
    layer = attention.arguments("npu")["module"]
    layer._forward_hooks = {1: print}
    assert not attention.takes(module=layer)
    layer._forward_hooks = {}
    assert attention.takes(module=layer)
    layer.forward = print
    assert not attention.takes(module=layer)


def test_a_kernel_without_the_argument_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    attention = Attention()
    assert attention.takes()
    monkeypatch.setattr("transformers_npu.kernels.sinks._has_sinks", lambda: False)
    assert not attention.takes()


def test_second_derivatives_are_refused() -> None:
    given = Attention().arguments("npu")
    given["query"].requires_grad_()
    with pc.Patcher([SINKS]):
        result = modeling_gpt_oss.eager_attention_forward(**given)[0]
    with pytest.raises(RuntimeError, match=r"create_graph=True.*PATCHCORE_DISABLE=transformers\.sinks"):
        torch.autograd.grad(result.sum(), [given["query"]], create_graph=True)
