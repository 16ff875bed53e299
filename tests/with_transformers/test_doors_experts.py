"""Experts through the interface of transformers 5: the numbers of its loop over experts, every hit counted."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from comparing_models import MAJOR, TOLERANCES, assert_equal, close, hits, padded_batch, step, tiny

import patchcore as pc
from patchcore.builtin.verify.verify import framework_of, verify
from transformers_npu.doors.patches import EXPERTS_NAME, GROUPED, GROUPED_MM

pytestmark = pytest.mark.skipif(MAJOR < 5, reason="transformers 4 has no interface for experts")

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
MODELS = {
    "Mixtral": tiny("Mixtral", num_local_experts=4),
    "Qwen3Moe": tiny("Qwen3Moe", head_dim=8, moe_intermediate_size=24, num_experts=6, num_experts_per_tok=3),
    "GptOss, with biases, another layout and a gate of its own": tiny(
        "GptOss", head_dim=8, num_local_experts=4, num_experts_per_tok=2
    ),
}


@pytest.mark.parametrize("patch", [GROUPED_MM, GROUPED], ids=lambda patch: patch.name)
def test_checks_agree_on_the_real_adapter(patch: pc.Patch) -> None:
    framework = framework_of(pc.Patcher.discover().plugins)
    results = verify([patch], device="npu", rounds=25, sizes=[pc.Size.SMALL], emulated=True, framework=framework)
    assert len(results) == 3
    assert [(r.dtype, r.message) for r in results if r.status != "agrees"] == []


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("model", MODELS)
def test_models_that_did_not_ask_have_the_numbers_of_eager_experts(model: str, dtype: torch.dtype) -> None:
    eager = {"attn_implementation": "eager", "experts_implementation": "eager"}
    expected = step(MODELS[model](**eager), padded_batch(), "cpu", dtype)
    with pc.Patcher([GROUPED_MM], count=True) as patcher:
        got = step(MODELS[model](attn_implementation="eager"), padded_batch(), "npu", dtype)
        assert hits(patcher, GROUPED_MM.name) == (2, 2)
    assert_equal(got, expected, dtype)


def test_name_of_its_own_serves_who_asks() -> None:
    expected = step(MODELS["Mixtral"](experts_implementation="eager"), padded_batch(), "cpu", torch.float32)
    with pc.Patcher([GROUPED]):
        model = MODELS["Mixtral"](experts_implementation=EXPERTS_NAME)
        assert model.config._experts_implementation == EXPERTS_NAME
        got = step(model, padded_batch(), "npu", torch.float32)
    assert_equal(got, expected, torch.float32)


def experts(dtype: torch.dtype = torch.float32, **changed: Any) -> Any:
    """Return the experts of a Mixtral layer on the NPU."""
    torch.manual_seed(0)
    layer = MODELS["Mixtral"]().model.layers[0].mlp.experts.to(dtype).to("npu")
    for name, value in changed.items():
        setattr(layer, name, value)
    return layer


def routed(dtype: torch.dtype = torch.float32, of_weights: torch.dtype = torch.float32) -> tuple[Any, ...]:
    generator = torch.Generator().manual_seed(1)
    index = torch.tensor([[0, 2], [2, 0], [3, 2], [0, 3], [2, 3]])  # nobody chooses expert 1
    hidden = torch.randn(5, 32, generator=generator).to(dtype)
    weights = torch.rand(5, 2, generator=generator).to(of_weights)
    return hidden.npu().requires_grad_(), index.npu(), weights.npu().requires_grad_()


def test_expert_that_nobody_chooses_has_a_gradient_of_zero() -> None:
    layer, given = experts(), routed()
    with pc.Patcher([GROUPED_MM], count=True) as patcher:
        layer(*given).sum().backward()
        assert hits(patcher, GROUPED_MM.name) == (1, 1)
    for matrix in (layer.gate_up_proj, layer.down_proj):
        assert bool(matrix.grad.isfinite().all())
        assert not matrix.grad[1].any()
        assert all(matrix.grad[expert].any() for expert in (0, 2, 3))


def test_weights_of_another_data_type_are_summed_in_the_wider_one() -> None:
    results = []
    for patches in ([], [GROUPED_MM]):
        layer, given = experts(torch.bfloat16), routed(torch.bfloat16)
        with pc.Patcher(patches):
            out = layer(*given)
        out.float().sum().backward()
        results.append((out, given[0].grad, given[2].grad))
    for expected, got in zip(*results):
        assert got.dtype == expected.dtype
        close(got.detach().float().cpu(), expected.detach().float().cpu(), TOLERANCES[torch.bfloat16])


def test_autocast_computes_in_the_data_type_of_the_matrices() -> None:
    layer, given = experts(torch.bfloat16), routed()
    with torch.autocast("npu", dtype=torch.bfloat16):
        expected = layer(*given)
        with pc.Patcher([GROUPED_MM], count=True) as patcher:
            got = layer(*given)
            assert hits(patcher, GROUPED_MM.name) == (1, 1)
    assert got.dtype == expected.dtype
    close(got.detach().float().cpu(), expected.detach().float().cpu(), TOLERANCES[torch.bfloat16])


@pytest.mark.parametrize(
    ("reason", "changed"),
    [
        ("experts on several devices", lambda: (experts(_is_expert_parallel=True), routed())),
        ("float64", lambda: (experts(torch.float64), routed(torch.float64, torch.float64))),
        ("tensors of the CPU", lambda: (experts().cpu(), [tensor.cpu() for tensor in routed()])),
        ("no token", lambda: (experts(), [tensor[:0] for tensor in routed()])),
    ],
)
def test_what_the_kernels_do_not_compute_stays_with_grouped_mm(reason: str, changed: Any) -> None:
    from transformers_npu.doors.experts import fits

    layer, given = changed()
    assert fits(experts(), *routed())
    assert not fits(layer, *given)


def test_default_experts_run_without_patches_too() -> None:
    """transformers counts the tokens of experts by ``torch.histc`` of int32."""
    eager = step(MODELS["Mixtral"](experts_implementation="eager"), padded_batch(), "cpu", torch.float32)
    assert_equal(step(MODELS["Mixtral"](), padded_batch(), "npu", torch.float32), eager, torch.float32)
