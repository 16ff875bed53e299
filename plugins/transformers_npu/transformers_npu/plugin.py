"""The entry point ``transformers``: the patches of this distribution.

It imports transformers and torch only in a process that has imported them.
"""

from __future__ import annotations

import patchcore as pc
from transformers_npu.doors.patches import DOORS
from transformers_npu.kernels import norms

__all__ = ["register_patches"]

LLAMA_RMS_NORM = pc.Patch(
    "transformers.llama_rms_norm",
    summary="the RMSNorm of Llama on the NPU kernel",
    requires="transformers>=4.51",
    needs="torch_npu",
    changes=[
        pc.Replace(
            "transformers.models.llama.modeling_llama:LlamaRMSNorm.forward", norms.plain, when_call=norms.takes_plain
        )
    ],
)


@pc.hookimpl
def register_patches() -> tuple[pc.Patch, ...]:
    """Return the patches, in the order in which they apply."""
    return (*DOORS, LLAMA_RMS_NORM)
