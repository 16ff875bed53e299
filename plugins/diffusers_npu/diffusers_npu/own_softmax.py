"""The six classes of diffusers that compute an attention with a softmax of their own, with the operator instead.

Each forward here is that of the class with ``softmax(q k) v`` as one call of ``scaled_dot_product_attention``, which
torch_npu runs on the fused kernel. The fingerprints of this distribution say for which releases the forwards were
compared; their code is the same in diffusers 0.35.0 to 0.42.1.
"""

from __future__ import annotations

from typing import Any

import patchcore as pc
from diffusers_npu.declared import LEGACY_NAMES, UP_TO
from diffusers_npu.derivatives import once

__all__ = ["PATCHES"]


def _attend(query: Any, key: Any, value: Any, heads: int, scale: float, patched: str) -> Any:
    """Attend from tokens to tokens, (batch, tokens, heads * size), in the patch of a class."""
    import torch

    split = (each.unflatten(2, (heads, -1)).transpose(1, 2) for each in (query, key, value))
    attended = torch.nn.functional.scaled_dot_product_attention(*split, scale=scale)
    return once(attended, f"diffusers.softmax.{patched}").transpose(1, 2).flatten(2)


def _on_npu(self: Any, x: Any, *rest: Any, **named: Any) -> bool:
    return bool(x.device.type == "npu")


def _perceives_on_npu(self: Any, image_embeds: Any, *rest: Any, **named: Any) -> bool:
    return bool(image_embeds.device.type == "npu")


def _attends_on_npu(self: Any, hidden_states: Any) -> bool:
    return bool(hidden_states.device.type == "npu")


def attention_pooling(self: Any, x: Any) -> Any:
    """Do ``AttentionPooling.forward``: the mean of the tokens attends to it and to them."""
    import torch

    first = x.mean(dim=1, keepdim=True) + self.positional_embedding.to(x.dtype)
    x = torch.cat([first, x], dim=1)
    scale = self.dim_per_head**-0.5
    query, key, value = self.q_proj(first), self.k_proj(x), self.v_proj(x)
    return _attend(query, key, value, self.num_heads, scale, "AttentionPooling")[:, 0, :]


def time_projection(self: Any, x: Any, latents: Any, timestep_emb: Any) -> Any:
    """Do ``IPAdapterTimeImageProjectionBlock.forward``."""
    import torch

    emb = self.adaln_proj(self.adaln_silu(timestep_emb))
    shift_msa, scale_msa, shift_mlp, scale_mlp = emb.chunk(4, dim=1)
    residual = latents
    x = self.ln0(x)
    latents = self.ln1(latents) * (1 + scale_msa[:, None]) + shift_msa[:, None]
    query = self.attn.to_q(latents)
    key, value = self.attn.to_kv(torch.cat((x, latents), dim=-2)).chunk(2, dim=-1)
    scale = self.attn.scale**2  # the class scales both factors
    latents = _attend(query, key, value, self.attn.heads, scale, "IPAdapterTimeImageProjectionBlock")
    latents = self.attn.to_out[1](self.attn.to_out[0](latents)) + residual
    residual = latents
    latents = self.adaln_norm(latents) * (1 + scale_mlp[:, None]) + shift_mlp[:, None]
    return self.ff(latents) + residual


def perceiver(self: Any, image_embeds: Any, latents: Any) -> Any:
    """Do ``PerceiverAttention.forward``: latents attend to the image and to themselves."""
    import torch

    image_embeds, latents = self.norm1(image_embeds), self.norm2(latents)
    key, value = self.to_kv(torch.cat((image_embeds, latents), dim=-2)).chunk(2, dim=-1)
    scale = self.dim_head**-0.5
    return self.to_out(_attend(self.to_q(latents), key, value, self.heads, scale, "PerceiverAttention"))


def perceiver_cross(self: Any, image_embeds: Any, hidden_states: Any) -> Any:
    """Do ``PerceiverCrossAttention.forward``: hidden states attend to the image."""
    key, value = self.to_kv(self.norm1(image_embeds)).chunk(2, dim=-1)
    query, scale = self.to_q(self.norm2(hidden_states)), self.dim_head**-0.5
    return self.to_out(_attend(query, key, value, self.heads, scale, "PerceiverCrossAttention"))


def self_attention_1d(self: Any, hidden_states: Any) -> Any:
    """Do ``SelfAttention1d.forward``, (batch, channels, tokens)."""
    tokens = self.group_norm(hidden_states).transpose(1, 2)
    scale = (self.channels // self.num_heads) ** -0.5
    query, key, value = self.query(tokens), self.key(tokens), self.value(tokens)
    attended = _attend(query, key, value, self.num_heads, scale, "SelfAttention1d")
    return self.dropout(self.proj_attn(attended).transpose(1, 2)) + hidden_states


def audio_block(self: Any, x: Any) -> Any:
    """Do ``LTX2AudioAttnBlock.forward``: one head, (batch, channels, height, width)."""
    normalized = self.norm(x)
    query, key, value = (each(normalized).flatten(2).transpose(1, 2) for each in (self.q, self.k, self.v))
    attended = _attend(query, key, value, 1, x.shape[1] ** -0.5, "LTX2AudioAttnBlock")
    return x + self.proj_out(attended.transpose(1, 2).reshape(x.shape))


def _patch(target: str, replacement: str, on_npu: Any, first: str = "0.35") -> pc.Patch:
    module, _, name = target.partition(":")
    return pc.Patch(
        f"diffusers.softmax.{name}",
        pc.Replace(f"{target}.forward", f"diffusers_npu.own_softmax:{replacement}", when_call=on_npu),
        summary=f"{name}: one operator instead of two products and a softmax",
        requires=[f"diffusers>={first},<{UP_TO}", "torch>=2.4"],
        needs=["torch_npu", module],
        legacy_names=LEGACY_NAMES,
        checks=pc.Check(
            f"diffusers_npu.checks_of_softmax:{replacement}",
            dtypes={"float32": 1e-5, "float16": 1e-2, "bfloat16": 1.5e-1},
        ),
    )


PATCHES = (
    _patch("diffusers.models.embeddings:AttentionPooling", "attention_pooling", _on_npu),
    _patch("diffusers.models.embeddings:IPAdapterTimeImageProjectionBlock", "time_projection", _on_npu),
    _patch("diffusers.models.transformers.consisid_transformer_3d:PerceiverAttention", "perceiver", _perceives_on_npu),
    _patch(
        "diffusers.models.transformers.consisid_transformer_3d:PerceiverCrossAttention",
        "perceiver_cross",
        _perceives_on_npu,
    ),
    _patch("diffusers.models.unets.unet_1d_blocks:SelfAttention1d", "self_attention_1d", _attends_on_npu),
    _patch(
        "diffusers.models.autoencoders.autoencoder_kl_ltx2_audio:LTX2AudioAttnBlock", "audio_block", _on_npu, "0.37"
    ),
)
