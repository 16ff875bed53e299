"""Which tokens stand for images and videos in Qwen3-VL, without a copy of their embeddings.

transformers 4.57 compares the number of placeholders with that of the features by ``inputs_embeds[mask].numel()``: it
copies all embeddings that the mask selects, to count them. The number of tokens times the width of an embedding is the
same. transformers 5 computes it like that itself.
"""

from __future__ import annotations

from typing import Any

import patchcore as pc
from transformers_npu.legacy_names import QWEN3_VL

__all__ = ["PLACEHOLDERS", "get_placeholder_mask"]


def get_placeholder_mask(
    self: Any, input_ids: Any, inputs_embeds: Any, image_features: Any = None, video_features: Any = None
) -> tuple[Any, Any]:
    """Do ``Qwen3VLModel.get_placeholder_mask``: two masks like ``inputs_embeds``.

    Raises:
        ValueError: there are more or fewer features than placeholders.
    """
    masks = []
    for token, features, name, plural in (
        (self.config.image_token_id, image_features, "image", "Image"),
        (self.config.video_token_id, video_features, "video", "Videos"),
    ):
        found = _places(self, token, input_ids, inputs_embeds)
        count = found.sum()
        if features is not None and count.item() * inputs_embeds.shape[-1] != features.numel():
            raise ValueError(
                f"{plural} features and {name} tokens do not match: tokens: {count}, features {features.shape[0]}"
            )
        masks.append(found.unsqueeze(-1).expand_as(inputs_embeds).to(inputs_embeds.device))
    return masks[0], masks[1]


def _places(model: Any, token: int, input_ids: Any, inputs_embeds: Any) -> Any:
    if input_ids is not None:
        return input_ids == token
    import torch

    embedding = model.get_input_embeddings()(torch.tensor(token, dtype=torch.long, device=inputs_embeds.device))
    return (inputs_embeds == embedding).all(-1)


PLACEHOLDERS = pc.Patch(
    "transformers.qwen3_vl_placeholders",
    pc.Replace(
        "transformers.models.qwen3_vl.modeling_qwen3_vl:Qwen3VLModel.get_placeholder_mask",
        "transformers_npu.processing.placeholders:get_placeholder_mask",
    ),
    summary="Qwen3-VL counts the tokens that stand for images without a copy of their embeddings",
    requires="transformers>=4.57,<4.58",
    legacy_names=["Qwen3VL_get_placeholder_mask", "get_placeholder_mask", *QWEN3_VL],
)
