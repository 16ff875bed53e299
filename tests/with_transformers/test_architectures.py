"""Architectures: a training step of a tiny random model, patched on the NPU, beside the one on the CPU without patches.

``EXPECTED`` has the families that are hit in each; the test fails where one of them is not called.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from comparing_models import MAJOR, RELEASE, SMALL, VOCABULARY, assert_equal, padded_batch, step, tiny

import patchcore as pc
from transformers_npu.doors.patches import SDPA
from transformers_npu.families.patches import PATCHES

NORM, ROTARY, MLP = "transformers.rms_norm", "transformers.rotary", "transformers.gated_mlp"
SINKS = "transformers.sinks"
BOTH = (NORM, ROTARY)
EXPERTS = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
PAD = {"pad_token_id": 0}
TOKENS = {"bos_token_id": 1, "eos_token_id": 2}
START = {"decoder_start_token_id": 0}
DEEPSEEK = {
    "n_routed_experts": 4,
    "n_group": 2,
    "topk_group": 1,
    "kv_lora_rank": 16,
    "q_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "first_k_dense_replace": 1,
    "num_key_value_heads": 4,
}

#: The largest difference from the CPU. torch_npu has one GELU, whatever ``approximate`` says: without patches, this
#: alone makes 1.04e-5 in Gemma 2.
TOLERANCE = 2e-5

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
    ("Gemma2", "ForCausalLM", BOTH, {"head_dim": 8}),
    ("Gemma3", "ForCausalLM", BOTH, {"config": "Gemma3TextConfig", "head_dim": 8, "sliding_window": 4}),
    ("Phi", "ForCausalLM", (ROTARY,), {}),
    ("Phi3", "ForCausalLM", (*BOTH, MLP), {**PAD, "bos_token_id": 1, "eos_token_id": 2}),
    ("Phimoe", "ForCausalLM", (ROTARY,), {**EXPERTS, **PAD}),
    ("GPTNeoX", "ForCausalLM", (ROTARY,), PAD),
    ("NanoChat", "ForCausalLM", (NORM,), PAD),
    ("DeepseekV3", "ForCausalLM", BOTH, {**EXPERTS, **DEEPSEEK}),
    ("Glm", "ForCausalLM", (*BOTH, MLP), {**PAD, "head_dim": 8}),
    ("Glm4", "ForCausalLM", (*BOTH, MLP), {**PAD, "head_dim": 8}),
    ("Glm4Moe", "ForCausalLM", BOTH, {**EXPERTS, "n_routed_experts": 4, "head_dim": 8, "first_k_dense_replace": 1}),
    ("Olmo", "ForCausalLM", (ROTARY,), PAD),
    ("Olmo2", "ForCausalLM", BOTH, PAD),
    ("Olmo3", "ForCausalLM", BOTH, PAD),
    ("Olmoe", "ForCausalLM", BOTH, EXPERTS),
    ("FlexOlmo", "ForCausalLM", BOTH, {**EXPERTS, **PAD}),
    ("GptOss", "ForCausalLM", (NORM, SINKS), {**EXPERTS, "head_dim": 8}),
    ("Falcon", "ForCausalLM", (ROTARY,), {"alibi": False}),
    ("Cohere", "ForCausalLM", (ROTARY,), PAD),
    ("Cohere2", "ForCausalLM", (ROTARY,), {**PAD, "head_dim": 8}),
    ("Granite", "ForCausalLM", BOTH, {}),
    ("GraniteMoe", "ForCausalLM", BOTH, EXPERTS),
    ("Starcoder2", "ForCausalLM", (ROTARY,), {}),
    ("StableLm", "ForCausalLM", (ROTARY,), {}),
    ("SmolLM3", "ForCausalLM", BOTH, PAD),
    ("Exaone4", "ForCausalLM", BOTH, {"head_dim": 8}),
    ("Ernie4_5", "ForCausalLM", BOTH, {"head_dim": 8}),
    ("HunYuanDenseV1", "ForCausalLM", BOTH, {"head_dim": 8}),
    ("Arcee", "ForCausalLM", BOTH, {}),
    ("Apertus", "ForCausalLM", BOTH, PAD),
    ("SeedOss", "ForCausalLM", BOTH, {"head_dim": 8, "attention_dropout": 0.0, "residual_dropout": 0.0}),
    ("Helium", "ForCausalLM", (NORM,), {"head_dim": 8, **PAD}),
    ("Bert", "ForMaskedLM", (), {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}),
    ("ModernBert", "ForMaskedLM", (ROTARY, MLP), {**PAD, **TOKENS, "cls_token_id": 1, "sep_token_id": 2}),
    ("GPT2", "LMHeadModel", (), {**PAD, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}),
    ("OPT", "ForCausalLM", (), {"ffn_dim": 48, "word_embed_proj_dim": 32, "dropout": 0.0}),
    ("T5", "ForConditionalGeneration", (NORM,), {**PAD, "d_kv": 8, "d_ff": 48, "dropout_rate": 0.0, **START}),
]

PICTURES = {"image_size": 32, "patch_size": 8}
VISION = {
    "depth": 2,
    "hidden_size": 32,
    "num_heads": 4,
    "intermediate_size": 48,
    "out_hidden_size": 32,
    "patch_size": 4,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
}
QWEN_TEXT = {**SMALL, **PAD, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]}}
QWEN_TOKENS = {"image_token_id": 60, "video_token_id": 61, "vision_start_token_id": 62, "vision_end_token_id": 63}
SOUND = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "num_mel_bins": 8,
    "max_source_positions": 16,
    "max_target_positions": 32,
    "dropout": 0.0,
}
#: Models of pictures and sounds: name, class, patches that must be hit, options, and what else their batch has.
OTHERS: list[tuple[str, str, tuple[str, ...], dict[str, Any], str]] = [
    ("ViT", "Model", (), {**PICTURES, "hidden_dropout_prob": 0.0}, "picture"),
    ("Dinov2", "Model", (), PICTURES, "picture"),
    ("SiglipVision", "Model", (), {**PICTURES, "hidden_act": "gelu"}, "picture"),
    ("CLIPVision", "Model", (), PICTURES, "picture"),
    ("Whisper", "ForConditionalGeneration", (), {**SOUND, **PAD, **TOKENS, **START}, "sound"),
    (
        "Qwen2_5_VL",
        "ForConditionalGeneration",
        BOTH,
        {
            "text_config": QWEN_TEXT,
            "vision_config": {**VISION, "window_size": 16, "fullatt_block_indexes": [1]},
            **QWEN_TOKENS,
        },
        "dialogue",
    ),
    (
        "Qwen3VL",
        "ForConditionalGeneration",
        BOTH,
        {
            "text_config": {**QWEN_TEXT, "head_dim": 8},
            "vision_config": {**VISION, "num_position_embeddings": 16, "deepstack_visual_indexes": [0]},
            **QWEN_TOKENS,
        },
        "dialogue",
    ),
]
#: Options that a model of text, pictures and sounds does not have, taken out of the small configuration.
ONLY_TEXT = ("vocab_size", "num_key_value_heads", "max_position_embeddings")


#: Transformers 4 configures these in another way; its router of Phimoe draws random numbers in training.
ONLY_5 = ("ModernBert", "Phimoe", "Qwen2_5_VL", "Qwen3VL")


def here(models: list[Any]) -> list[Any]:
    """Return those of the models that this transformers has."""
    found = [
        model
        for model in models
        if hasattr(transformers, f"{model[0]}{model[1]}") and (MAJOR >= 5 or model[0] not in ONLY_5)
    ]
    return [pytest.param(*model, id=model[0]) for model in found]


def expected_hits(patcher: pc.Patcher) -> set[str]:
    """Return the patches of families that were called; all of them must be applied."""
    report = patcher.report()
    assert [record.name for record in report.patches if record.status != "applied"] == []
    return {r.name for r in report.patches for change in r.changes if r.name != SDPA.name and change.replaced}


@pytest.mark.parametrize(("name", "kind", "hit", "options"), here(MODELS))
def test_a_step_agrees_with_the_cpu(name: str, kind: str, hit: tuple[str, ...], options: dict[str, Any]) -> None:
    batch = padded_batch()
    expected = step(tiny(name, kind, **options)(), batch, "cpu", torch.float32)
    with pc.Patcher([SDPA, *PATCHES], count=True) as patcher:
        got = step(tiny(name, kind, **options)(), batch, "npu", torch.float32)
        hits = expected_hits(patcher)
    assert_equal(got, expected, torch.float32, TOLERANCE)
    assert hits == set(hit)
    assert got.logits.shape[-1] == VOCABULARY


def other_batch(kind: str) -> dict[str, torch.Tensor]:
    """Return the batch of a model that reads pictures or sounds."""
    generator = torch.Generator().manual_seed(2)
    if kind == "picture":
        return {"pixel_values": torch.randn(2, 3, 32, 32, generator=generator)}
    if kind == "sound":
        labels = padded_batch()["input_ids"]
        return {"input_features": torch.randn(2, 8, 32, generator=generator), "labels": labels}
    ids = torch.tensor([[5, 62, 60, 60, 60, 60, 63, 7, 8]])  # 60: a part of the picture
    batch = {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "labels": ids.masked_fill(ids >= 60, -100),
        "pixel_values": torch.randn(16, 3 * 2 * 4 * 4, generator=generator),
        "image_grid_thw": torch.tensor([[1, 4, 4]]),
    }
    return {**batch, "mm_token_type_ids": (ids == 60).long()} if MAJOR >= 5 else batch


@pytest.mark.parametrize(("name", "kind", "hit", "options", "reads"), here(OTHERS))
def test_a_step_with_pictures_or_sounds_agrees_with_the_cpu(
    name: str, kind: str, hit: tuple[str, ...], options: dict[str, Any], reads: str
) -> None:
    batch = other_batch(reads)
    make = tiny(
        name, kind, without=ONLY_TEXT if reads == "picture" else tuple(SMALL) if "d_model" in options else (), **options
    )
    expected = step(make(), batch, "cpu", torch.float32)
    with pc.Patcher([SDPA, *PATCHES], count=True) as patcher:
        got = step(make(), batch, "npu", torch.float32)
        hits = expected_hits(patcher)
        has_door = RELEASE >= (4, 53) or name not in ("CLIPVision", "Whisper")
        assert any(change.replaced for change in patcher.report()[SDPA.name].changes) == has_door
    assert_equal(got, expected, torch.float32, TOLERANCE)
    assert hits == set(hit)
