"""The patches of norms, rotary embeddings, gated MLPs and attention with sinks."""

from __future__ import annotations

import patchcore as pc
from transformers_npu.families.checks import checks_of
from transformers_npu.families.patching import PACKAGES
from transformers_npu.legacy_names import ALL

__all__ = ["PATCHES"]

_PATCHING = "transformers_npu.families.patching"


def _patch(name: str, summary: str, kernels: str, function: str, *legacy_names: str) -> pc.Patch:
    return pc.Patch(
        name,
        [pc.EachModule(package, f"{_PATCHING}:{function}") for package in PACKAGES],
        summary=summary,
        requires="transformers>=4.51",
        needs="torch_npu",
        legacy_names=[*legacy_names, *ALL],
        after="*",  # a patch of a single model may have changed the same function
        checks=checks_of(kernels),
    )


RMS_NORM = _patch(
    "transformers.rms_norm",
    "RMSNorm of all models in one kernel",
    "norms",
    "rms_norm_changes",
    "Qwen3RMSNorm",
    "qwen3_rmsnorm",
    "Qwen3VLTextRMSNorm",
    "qwen3vltext_rmsnorm",
)
ROTARY = _patch(
    "transformers.rotary",
    "rotary embeddings of all models in one kernel",
    "rotary",
    "rotary_changes",
    "Qwen3RoPE",
    "qwen3_rope",
    "Qwen3VLRoPE",
    "qwen3_vl_rope_vision",
)
GATED_MLP = _patch(
    "transformers.gated_mlp",
    "gate and activation of MLPs with a fused projection in one kernel",
    "mlps",
    "gated_mlp_changes",
)
SINKS = _patch(
    "transformers.sinks",
    "attention with sinks, of gpt_oss and others, in npu_fusion_attention",
    "sinks",
    "sinks_changes",
)

PATCHES = (RMS_NORM, ROTARY, GATED_MLP, SINKS)
