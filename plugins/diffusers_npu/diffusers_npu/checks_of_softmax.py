"""Random calls of the classes with a softmax of their own, for ``patchcore verify``."""

from __future__ import annotations

import random
from typing import Any

import patchcore as pc


def attention_pooling(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw an ``AttentionPooling``."""
    from diffusers.models.embeddings import AttentionPooling

    heads, width = _heads(rng)
    module = AttentionPooling(heads, heads * width)
    return pc.Case(_without_zero_gradient(module, module.k_proj), [_tokens(rng, size, heads * width)])


def time_projection(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw an ``IPAdapterTimeImageProjectionBlock``."""
    from diffusers.models.embeddings import IPAdapterTimeImageProjectionBlock

    heads, width = _heads(rng)
    both = heads * width
    module = IPAdapterTimeImageProjectionBlock(hidden_dim=both, dim_head=width, heads=heads)
    image = _tokens(rng, size, both)
    batch = image.shape[0]
    return pc.Case(module, [image, _random(rng, (batch, 5, both)), _random(rng, (batch, both))])


def perceiver(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw a ``PerceiverAttention``."""
    from diffusers.models.transformers.consisid_transformer_3d import PerceiverAttention

    heads, width = _heads(rng)
    image = _tokens(rng, size, 12)
    module = PerceiverAttention(dim=12, dim_head=width, heads=heads)
    return pc.Case(module, [image, _random(rng, (image.shape[0], 5, 12))])


def perceiver_cross(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw a ``PerceiverCrossAttention``."""
    from diffusers.models.transformers.consisid_transformer_3d import PerceiverCrossAttention

    heads, width = _heads(rng)
    image = _tokens(rng, size, 10)
    module = PerceiverCrossAttention(dim=12, dim_head=width, heads=heads, kv_dim=10)
    return pc.Case(module, [image, _random(rng, (image.shape[0], 5, 12))])


def self_attention_1d(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw a ``SelfAttention1d``."""
    from diffusers.models.unets.unet_1d_blocks import SelfAttention1d

    heads, width = _heads(rng)
    shape = (2, heads * width, size.draw(rng, small=(2, 12), typical=(64, 200)))
    module = SelfAttention1d(heads * width, n_head=heads)
    return pc.Case(_without_zero_gradient(module, module.key), [_random(rng, shape)])


def audio_block(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw an ``LTX2AudioAttnBlock``."""
    from diffusers.models.autoencoders.autoencoder_kl_ltx2_audio import LTX2AudioAttnBlock

    channels = 32 * _heads(rng)[0]
    shape = (2, channels, rng.randint(2, 4), size.draw(rng, small=(2, 6), typical=(16, 40)))
    module = LTX2AudioAttnBlock(channels, norm_type=rng.choice(("group", "pixel")))
    return pc.Case(_without_zero_gradient(module, module.k), [_random(rng, shape)])


def _without_zero_gradient(module: Any, keys: Any) -> Any:
    """Return ``module``, in which the bias of ``keys`` gets no gradient.

    A softmax does not change if all of its scores do by the same number, which is what that bias does. So its gradient
    is zero, and the rounding errors that stand there cannot be compared.
    """
    keys.bias.requires_grad_(False)
    return module


def _heads(rng: random.Random) -> tuple[int, int]:
    import torch

    torch.manual_seed(rng.randrange(2**31))  # of the parameters of the module that is made next
    return rng.randint(1, 3), 4 * rng.randint(1, 4)


def _tokens(rng: random.Random, size: pc.Size, width: int) -> Any:
    return _random(rng, (rng.randint(1, 3), size.draw(rng, small=(2, 12), typical=(64, 200)), width))


def _random(rng: random.Random, shape: tuple[int, ...]) -> Any:
    import torch

    generator = torch.Generator().manual_seed(rng.randrange(2**31))
    return torch.randn(shape, generator=generator).requires_grad_()
