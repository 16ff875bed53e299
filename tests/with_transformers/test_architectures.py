"""Architectures: a training step of a tiny random model, patched on the NPU, beside the one on the CPU without patches.

``EXPECTED`` has the families that are hit in each; the test fails where one of them is not called.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from comparing_models import VOCABULARY, assert_equal, padded_batch, step, tiny

import patchcore as pc
from transformers_npu.doors.patches import SDPA
from transformers_npu.families.patches import PATCHES

NORM, ROTARY, MLP = "transformers.rms_norm", "transformers.rotary", "transformers.gated_mlp"
BOTH = (NORM, ROTARY)
EXPERTS = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
PAD = {"pad_token_id": 0}

#: The models: name, class, the patches of families that must be hit, options of the configuration.
MODELS: list[tuple[str, str, tuple[str, ...], dict[str, Any]]] = [
    ("Llama", "ForCausalLM", BOTH, {}),
    ("Qwen2", "ForCausalLM", BOTH, {}),
    ("Qwen3", "ForCausalLM", BOTH, {"head_dim": 8}),
    ("Qwen2Moe", "ForCausalLM", BOTH, {**EXPERTS, "shared_expert_intermediate_size": 16}),
    ("Qwen3Moe", "ForCausalLM", BOTH, {**EXPERTS, "head_dim": 8}),
    ("Mistral", "ForCausalLM", BOTH, {"head_dim": 8}),
    ("Mixtral", "ForCausalLM", BOTH, EXPERTS),
    ("Ministral", "ForCausalLM", BOTH, {"head_dim": 8}),
    ("Gemma", "ForCausalLM", BOTH, {"head_dim": 8}),
    ("Phi", "ForCausalLM", (ROTARY,), {}),
    ("Glm", "ForCausalLM", (*BOTH, MLP), {**PAD, "head_dim": 8}),
    ("Glm4", "ForCausalLM", (*BOTH, MLP), {**PAD, "head_dim": 8}),
    ("Glm4Moe", "ForCausalLM", BOTH, {**EXPERTS, "n_routed_experts": 4, "head_dim": 8, "first_k_dense_replace": 1}),
    ("Olmo", "ForCausalLM", (ROTARY,), PAD),
    ("Olmo2", "ForCausalLM", BOTH, PAD),
    ("Olmo3", "ForCausalLM", BOTH, PAD),
    ("Olmoe", "ForCausalLM", BOTH, EXPERTS),
    ("FlexOlmo", "ForCausalLM", BOTH, {**EXPERTS, **PAD}),
    ("GptOss", "ForCausalLM", (NORM,), {**EXPERTS, "head_dim": 8}),
    ("Falcon", "ForCausalLM", (ROTARY,), {"alibi": False}),
    ("Cohere", "ForCausalLM", (ROTARY,), PAD),
    ("Cohere2", "ForCausalLM", (ROTARY,), {**PAD, "head_dim": 8}),
    ("Granite", "ForCausalLM", BOTH, {}),
    ("GraniteMoe", "ForCausalLM", BOTH, EXPERTS),
    ("Starcoder2", "ForCausalLM", (ROTARY,), {}),
    ("StableLm", "ForCausalLM", (ROTARY,), {}),
    ("SmolLM3", "ForCausalLM", BOTH, PAD),
    ("Exaone4", "ForCausalLM", BOTH, {"head_dim": 8}),
]


def here() -> list[Any]:
    """Return the models that this transformers has."""
    found = [model for model in MODELS if hasattr(transformers, f"{model[0]}{model[1]}")]
    return [pytest.param(*model, id=model[0]) for model in found]


@pytest.mark.parametrize(("name", "kind", "hit", "options"), here())
def test_a_step_agrees_with_the_cpu(name: str, kind: str, hit: tuple[str, ...], options: dict[str, Any]) -> None:
    batch = padded_batch()
    expected = step(tiny(name, kind, **options)(attn_implementation="eager"), batch, "cpu", torch.float32)
    with pc.Patcher([SDPA, *PATCHES], count=True) as patcher:
        got = step(tiny(name, kind, **options)(), batch, "npu", torch.float32)
        report = patcher.report()
        assert [record.name for record in report.patches if record.status != "applied"] == []
        hits = {r.name for r in report.patches for change in r.changes if r.name != SDPA.name and change.replaced}
    assert_equal(got, expected, torch.float32)
    assert hits == set(hit)
    assert got.logits.shape[-1] == VOCABULARY
