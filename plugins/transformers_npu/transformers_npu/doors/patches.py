"""Registrations in the interfaces of transformers, as patches.

The interfaces are tables from a name to a function. A default name, registered again, reaches models that did not ask
for anything; a name of our own is for those who choose it.
"""

from __future__ import annotations

from typing import Any

import patchcore as pc
from patchcore.plugin import ABSENT, Slot
from transformers_npu.doors import attention, experts
from transformers_npu.legacy_names import ALL
from transformers_npu.tolerances import DTYPES

LIBRARY = "transformers>=4.51,<6"
TORCH = "torch>=2.4"
ATTENTION = "transformers.modeling_utils:AttentionInterface._global_mapping"
MASKS = "transformers.masking_utils:AttentionMaskInterface._global_mapping"
EXPERTS = "transformers.integrations.moe:ExpertsInterface._global_mapping"
#: Values of ``attn_implementation=`` and ``experts_implementation=`` for users who choose an implementation.
ATTENTION_NAME = "npu_fusion"
EXPERTS_NAME = "npu_grouped"

SDPA = pc.Patch(
    "transformers.attention",
    [
        pc.Replace(
            f'{ATTENTION}["sdpa"]',
            "transformers_npu.doors.attention:fusion_attention_forward",
            when_call=attention.fits,
        )
    ],
    summary="the attention of models that use sdpa, the default, in npu_fusion_attention where it computes the same",
    requires=[LIBRARY, TORCH],
    needs=["torch_npu"],
    legacy_names=ALL,
    checks=pc.Check("transformers_npu.doors.checks:sdpa", dtypes=DTYPES),
)

FUSION = pc.Patch(
    "transformers.attention_name",
    [
        pc.Register(ATTENTION, "transformers_npu.doors.attention:npu_fusion_attention_forward", name=ATTENTION_NAME),
        pc.Register(MASKS, "transformers.masking_utils:sdpa_mask", name=ATTENTION_NAME),
    ],
    summary=f'attn_implementation="{ATTENTION_NAME}": npu_fusion_attention where it computes the same, else sdpa',
    requires=["transformers>=4.53,<6", TORCH],
    needs=["torch_npu"],
    checks=pc.Check("transformers_npu.doors.checks:named_attention", dtypes=DTYPES),
)

GROUPED_MM = pc.Patch(
    "transformers.experts",
    [
        pc.Replace(
            f'{EXPERTS}["grouped_mm"]',
            "transformers_npu.doors.experts:grouped_experts_forward",
            when_call=experts.fits,
        )
    ],
    summary="the experts of models that use grouped_mm, the default, in npu_grouped_matmul where it computes the same",
    requires=["transformers>=5,<6", TORCH],
    needs=["torch_npu"],
    legacy_names=ALL,
    checks=pc.Check("transformers_npu.doors.checks:grouped_mm", dtypes=DTYPES),
)

GROUPED = pc.Patch(
    "transformers.experts_name",
    [pc.Register(EXPERTS, "transformers_npu.doors.experts:npu_grouped_experts_forward", name=EXPERTS_NAME)],
    summary=f'experts_implementation="{EXPERTS_NAME}": npu_grouped_matmul where it computes the same, else grouped_mm',
    requires=["transformers>=5.7,<6", TORCH],  # before, models refuse names of others
    needs=["torch_npu"],
    checks=pc.Check("transformers_npu.doors.checks:named_experts", dtypes=DTYPES),
)


class SetIfThere(pc.Replace):
    """Set a constant that not every release has."""

    may_be_absent = True

    @property
    def kind(self) -> str:
        return "set"

    def build(self, below: Any, slot: Slot) -> Any:
        return pc.Skip(f"this release has no {slot.name}") if below is ABSENT else super().build(below, slot)


FLASH = "transformers.integrations.npu_flash_attention"
FLASH_WINDOWS = pc.Patch(
    "transformers.flash_windows",
    [
        pc.Replace(f"{FLASH}:{name}", f"transformers_npu.doors.flash:{name}")
        for name in ("npu_flash_attn_func", "npu_flash_attn_varlen_func")
    ]
    + [SetIfThere("transformers.modeling_flash_attention_utils:_flash_supports_window_size", True)],
    summary='attn_implementation="flash_attention_2" keeps sliding windows, which transformers drops on an NPU',
    # 4.54.0 to 4.55.0 do not call the functions for the NPU
    requires=["transformers>=4.51,!=4.54.*,!=4.55.0,<6", TORCH],
    needs=["torch_npu"],
    legacy_names=["FlashAttention", "flash_attention", "FlashAttentionVarlen", "flash_attention_varlen", *ALL],
    checks=pc.Check("transformers_npu.doors.checks:flash", dtypes=DTYPES),
)

DOORS = (SDPA, FUSION, GROUPED_MM, GROUPED, FLASH_WINDOWS)
