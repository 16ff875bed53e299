"""Tiny random models of diffusers, each with a call: what the patches are compared with on whole architectures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable, NamedTuple

import diffusers
import torch

RELEASE = tuple(int(part) for part in diffusers.__version__.split(".")[:2])


class Architecture(NamedTuple):
    """A model and a call of it.

    Args:
        kind: the name of its class in diffusers.
        config: the arguments of the class.
        inputs: returns the arguments of ``forward``, on the CPU.
        hits: the patches that the call reaches, each with the number of calls that it takes over; ``mask_rows`` wraps
            every attention of ``attention_processor.py``.
    """

    kind: str
    config: Mapping[str, Any]
    inputs: Callable[[], dict[str, Any]]
    hits: Mapping[str, int]


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


def present(*rows: int, length: int) -> torch.Tensor:
    """A mask of ``length`` tokens, of which the first ``rows`` are there."""
    return (torch.arange(length) < torch.tensor(rows).unsqueeze(1)).long()


UNET = {
    "sample_size": 8,
    "block_out_channels": (8, 16),
    "layers_per_block": 1,
    "norm_num_groups": 4,
}
UNET_2D = Architecture(
    "UNet2DModel",
    {
        **UNET,
        "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
        "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
        "attention_head_dim": 4,
    },
    lambda: {"sample": normal(2, 3, 8, 8), "timestep": 3},
    {"diffusers.attention.attention_processor": 4, "diffusers.attention.mask_rows": 4},
)
UNET_2D_CONDITION = Architecture(
    "UNet2DConditionModel",
    {
        **UNET,
        "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
        "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
        "cross_attention_dim": 12,
        "attention_head_dim": 4,
    },
    lambda: {
        "sample": normal(2, 4, 8, 8),
        "timestep": 3,
        "encoder_hidden_states": normal(2, 7, 12),
        "encoder_attention_mask": present(7, 4, length=7),
    },
    {"diffusers.attention.attention_processor": 8, "diffusers.attention.mask_rows": 8, "diffusers.geglu": 4},
)
SD3 = Architecture(
    "SD3Transformer2DModel",
    {
        "sample_size": 8,
        "in_channels": 4,
        "num_layers": 2,
        "attention_head_dim": 8,
        "num_attention_heads": 2,
        "joint_attention_dim": 12,
        "caption_projection_dim": 16,
        "pooled_projection_dim": 10,
        "out_channels": 4,
        "pos_embed_max_size": 8,
        "qk_norm": "rms_norm",
    },
    lambda: {
        "hidden_states": normal(2, 4, 8, 8),
        "encoder_hidden_states": normal(2, 5, 12),
        "pooled_projections": normal(2, 10),
        "timestep": torch.tensor([3, 4]),
    },
    {"diffusers.rms_norm": 8, "diffusers.attention.mask_rows": 2},
)
FLUX = Architecture(
    "FluxTransformer2DModel",
    {
        "in_channels": 8,
        "num_layers": 1,
        "num_single_layers": 1,
        "attention_head_dim": 16,
        "num_attention_heads": 2,
        "joint_attention_dim": 12,
        "pooled_projection_dim": 10,
        "axes_dims_rope": (4, 4, 8),
    },
    lambda: {
        "hidden_states": normal(2, 6, 8),
        "encoder_hidden_states": normal(2, 5, 12),
        "pooled_projections": normal(2, 10),
        "timestep": torch.tensor([0.3, 0.4]),
        "img_ids": torch.arange(18).reshape(6, 3).float(),
        "txt_ids": torch.zeros(5, 3),
    },
    {"diffusers.attention.dispatcher": 2},
)
PIXART = Architecture(
    "PixArtTransformer2DModel",
    {
        "num_attention_heads": 2,
        "attention_head_dim": 8,
        "num_layers": 2,
        "cross_attention_dim": 16,
        "sample_size": 8,
        "caption_channels": 12,
        "out_channels": 4,
        "use_additional_conditions": False,
    },
    lambda: {
        "hidden_states": normal(2, 4, 8, 8),
        "encoder_hidden_states": normal(2, 5, 12),
        "timestep": torch.tensor([3, 4]),
        "encoder_attention_mask": present(5, 2, length=5),
        "added_cond_kwargs": {"resolution": None, "aspect_ratio": None},
    },
    {"diffusers.attention.attention_processor": 4, "diffusers.attention.mask_rows": 4},
)
QWEN_IMAGE = Architecture(
    "QwenImageTransformer2DModel",
    {
        "in_channels": 16,
        "out_channels": 4,
        "num_layers": 2,
        "attention_head_dim": 16,
        "num_attention_heads": 2,
        "joint_attention_dim": 12,
        "axes_dims_rope": (4, 4, 8),
    },
    lambda: {
        "hidden_states": normal(2, 16, 16),
        "encoder_hidden_states": normal(2, 5, 12),
        "encoder_hidden_states_mask": present(5, 5, length=5).bool(),
        "timestep": torch.tensor([0.3, 0.4]),
        "img_shapes": [[(1, 4, 4)], [(1, 4, 4)]],
        **({} if RELEASE >= (0, 37) else {"txt_seq_lens": [5, 5]}),
    },
    # before 0.37 its attention gets no mask
    {"diffusers.rms_norm": 9, **({} if RELEASE >= (0, 37) else {"diffusers.attention.dispatcher": 2})},
)
WAN = Architecture(
    "WanTransformer3DModel",
    {
        "num_attention_heads": 2,
        "attention_head_dim": 12,
        "in_channels": 4,
        "out_channels": 4,
        "text_dim": 12,
        "freq_dim": 16,
        "ffn_dim": 32,
        "num_layers": 2,
        "rope_max_seq_len": 16,
    },
    lambda: {
        "hidden_states": normal(1, 4, 2, 8, 8),
        "timestep": torch.tensor([3]),
        "encoder_hidden_states": normal(1, 5, 12),
    },
    {"diffusers.attention.dispatcher": 4},
)
LTX = Architecture(
    "LTXVideoTransformer3DModel",
    {
        "in_channels": 8,
        "out_channels": 8,
        "num_attention_heads": 2,
        "attention_head_dim": 8,
        "cross_attention_dim": 16,
        "num_layers": 2,
        "caption_channels": 12,
    },
    lambda: {
        "hidden_states": normal(2, 8, 8),
        "encoder_hidden_states": normal(2, 5, 12),
        "timestep": torch.tensor([3, 4]),
        "encoder_attention_mask": present(5, 2, length=5),
        "num_frames": 2,
        "height": 2,
        "width": 2,
    },
    {"diffusers.attention.dispatcher": 4, "diffusers.rms_norm": 4},
)
DIT = Architecture(
    "DiTTransformer2DModel",
    {
        "num_attention_heads": 2,
        "attention_head_dim": 8,
        "in_channels": 4,
        "out_channels": 8,
        "num_layers": 2,
        "sample_size": 8,
        "num_embeds_ada_norm": 10,
    },
    lambda: {
        "hidden_states": normal(2, 4, 8, 8),
        "timestep": torch.tensor([3, 4]),
        "class_labels": torch.tensor([1, 2]),
    },
    {"diffusers.attention.attention_processor": 2, "diffusers.attention.mask_rows": 2},
)
SANA = Architecture(
    "SanaTransformer2DModel",
    {
        "in_channels": 4,
        "out_channels": 4,
        "num_layers": 2,
        "num_attention_heads": 2,
        "attention_head_dim": 8,
        "num_cross_attention_heads": 2,
        "cross_attention_head_dim": 8,
        "cross_attention_dim": 16,
        "caption_channels": 12,
        "sample_size": 8,
    },
    lambda: {
        "hidden_states": normal(2, 4, 8, 8),
        "encoder_hidden_states": normal(2, 5, 12),
        "timestep": torch.tensor([3, 4]),
        "encoder_attention_mask": present(5, 2, length=5),
    },
    {"diffusers.attention.sana_transformer": 2, "diffusers.rms_norm": 1},
)
COGVIEW4 = Architecture(
    "CogView4Transformer2DModel",
    {
        "in_channels": 4,
        "out_channels": 4,
        "num_layers": 2,
        "attention_head_dim": 8,
        "num_attention_heads": 2,
        "text_embed_dim": 12,
        "time_embed_dim": 16,
        "condition_dim": 8,
        "pos_embed_max_size": 8,
        "sample_size": 8,
        "rope_axes_dim": (8, 8),
    },
    lambda: {
        "hidden_states": normal(2, 4, 8, 8),
        "encoder_hidden_states": normal(2, 5, 12),
        "timestep": torch.tensor([3, 4]),
        "original_size": torch.tensor([[8, 8], [8, 8]]),
        "target_size": torch.tensor([[8, 8], [8, 8]]),
        "crop_coords": torch.tensor([[0, 0], [0, 0]]),
        "attention_mask": present(5, 2, length=5),
    },
    {"diffusers.attention.transformer_cogview4": 2},
)
LUMINA2 = Architecture(
    "Lumina2Transformer2DModel",
    {
        "sample_size": 8,
        "in_channels": 4,
        "hidden_size": 24,
        "num_layers": 2,
        "num_refiner_layers": 1,
        "num_attention_heads": 3,
        "num_kv_heads": 1,
        "multiple_of": 8,
        "axes_dim_rope": (4, 2, 2),
        "axes_lens": (16, 16, 16),
        "cap_feat_dim": 12,
    },
    lambda: {
        "hidden_states": normal(2, 4, 8, 8),
        "timestep": torch.tensor([0.3, 0.4]),
        "encoder_hidden_states": normal(2, 5, 12),
        "encoder_attention_mask": present(5, 5, length=5).bool(),
    },
    {"diffusers.attention.transformer_lumina2": 3, "diffusers.rms_norm": 25},
)
AUTOENCODER_KL = Architecture(
    "AutoencoderKL",
    {
        "block_out_channels": (8, 16),
        "down_block_types": ("DownEncoderBlock2D", "DownEncoderBlock2D"),
        "up_block_types": ("UpDecoderBlock2D", "UpDecoderBlock2D"),
        "norm_num_groups": 4,
        "sample_size": 8,
    },
    lambda: {"sample": normal(2, 3, 8, 8)},
    # one head and no mask: torch_npu uses the kernel by itself, here and in the next
    {"diffusers.attention.mask_rows": 2},
)
AUTOENCODER_KL_WAN = Architecture(
    "AutoencoderKLWan",
    {
        "base_dim": 4,
        "z_dim": 4,
        "dim_mult": [1, 1, 1, 1],
        "num_res_blocks": 1,
        "temperal_downsample": [False, True, True],
    },
    lambda: {"sample": normal(1, 3, 5, 16, 16)},
    {},
)

ARCHITECTURES = (
    UNET_2D,
    UNET_2D_CONDITION,
    SD3,
    FLUX,
    PIXART,
    QWEN_IMAGE,
    WAN,
    LTX,
    DIT,
    SANA,
    COGVIEW4,
    LUMINA2,
    AUTOENCODER_KL,
    AUTOENCODER_KL_WAN,
)
