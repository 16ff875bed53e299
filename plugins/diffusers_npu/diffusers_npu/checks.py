"""Random calls of what the patches replace, for ``patchcore verify``.

The library's own GEGLU and RMSNorm call kernels of the NPU for tensors on the CPU, too, where torch_npu is installed.
So the reference of these is the formula.
"""

from __future__ import annotations

import random
from typing import Any, Callable

import patchcore as pc


def geglu(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw a call of GEGLU, with or without a bias."""
    import torch
    from diffusers.models.activations import GEGLU

    inner, outer = (size.draw(rng, small=(1, 20), typical=(64, 320)) for _ in range(2))
    module = GEGLU(inner, outer, bias=rng.random() < 0.5)

    def formula(x: Any, weight: Any, bias: Any = None) -> Any:
        left, gate = torch.nn.functional.linear(x, weight, bias).chunk(2, dim=-1)
        return left * torch.nn.functional.gelu(gate)

    parameters = [_random(rng, each.shape).requires_grad_() for each in module.parameters()]
    return pc.Case(_of_parameters(module), [_input(rng, size, inner), *parameters], reference=formula)


def rms_norm(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw a call of RMSNorm, with or without weight and bias."""
    import torch
    from diffusers.models.normalization import RMSNorm

    width = size.draw(rng, small=(1, 20), typical=(64, 320))
    module = RMSNorm(width, eps=1e-5, elementwise_affine=rng.random() < 0.8, bias=rng.random() < 0.3)

    def formula(x: Any, weight: Any = None, bias: Any = None) -> Any:
        result = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + module.eps)
        result = result if weight is None else result * weight
        return (result if bias is None else result + bias).to(x.dtype)

    parameters = [_random(rng, each.shape).requires_grad_() for each in module.parameters()]
    return pc.Case(_of_parameters(module), [_input(rng, size, width), *parameters], reference=formula)


def dispatched(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw a call of the dispatcher, with each kind of mask and without one."""
    from diffusers.models.attention_dispatch import dispatch_attention_fn

    arguments, shape = _arguments(rng, size)
    mask = _mask(rng, (shape[0], rng.choice((1, shape[2])), rng.choice((1, shape[1])), arguments[1].shape[1]))
    scale = rng.choice((None, 0.3))

    def call(query: Any, key: Any, value: Any, mask: Any) -> Any:
        return dispatch_attention_fn(query, key, value, attn_mask=mask, scale=scale)

    return pc.Case(call, [*arguments, mask])


def attention_processor(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw a call of ``AttnProcessor2_0``, with an added mask or none."""
    from diffusers.models.attention_processor import AttnProcessor2_0

    return _attention(rng, size, AttnProcessor2_0())


def masked_by_truth_values(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw a call of ``AttnProcessor2_0`` with a mask of truth values for all queries."""
    from diffusers.models.attention_processor import AttnProcessor2_0

    module, image, text = _attention_of_tokens(rng, size, AttnProcessor2_0())
    there = _random(rng, (image.shape[0], 1, text.shape[1])) > 0
    there[..., :2] = True  # see _tokens

    def call(module: Any, image: Any, text: Any) -> Any:
        # prepare_attention_mask repeats the mask for each head
        return module(image, encoder_hidden_states=text, attention_mask=there.to(image.device))

    return pc.Case(_calling(call, module), [image, text])


def sana_transformer(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw a call of Sana's attention, with an added mask or none."""
    from diffusers.models.transformers.sana_transformer import SanaAttnProcessor2_0

    return _attention(rng, size, SanaAttnProcessor2_0())


def transformer_cogview4(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw a call of CogView4's attention, with a mask of the text's tokens or none."""
    from diffusers.models.transformers.transformer_cogview4 import CogView4AttnProcessor

    module, image, text = _attention_of_tokens(rng, size, CogView4AttnProcessor())
    mask = (_random(rng, text.shape[:2]) > 0).float() if rng.random() < 0.5 else None

    def call(module: Any, image: Any, text: Any) -> Any:
        there = None if mask is None else mask.to(image.device)
        return module(image, encoder_hidden_states=text, attention_mask=there)

    return pc.Case(_calling(call, module), [image, text])


def transformer_hidream_image(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw a call of HiDream's attention without text of its own."""
    import torch
    from diffusers.models.transformers.transformer_hidream_image import HiDreamAttention, HiDreamAttnProcessor

    heads, width = rng.randint(2, 4), 2 * rng.randint(2, 8)
    module = HiDreamAttention(
        query_dim=heads * width, heads=heads, dim_head=width, single=True, processor=HiDreamAttnProcessor()
    )
    for name in ("to_q", "to_k", "to_v", "to_out", "q_rms_norm", "k_rms_norm"):
        setattr(module, name, torch.nn.Identity())
    image = _tokens(rng, size, heads * width)
    angles = _random(rng, (*image.shape[:2], 1, width // 2))
    turns = torch.stack([angles.cos(), -angles.sin(), angles.sin(), angles.cos()], -1).unflatten(-1, (2, 2))

    def call(module: Any, image: Any) -> Any:
        return module(image, image_rotary_emb=turns.to(image.device))

    return pc.Case(_calling(call, module), [image])


def transformer_lumina2(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw a call of Lumina 2's attention."""
    from diffusers.models.transformers.transformer_lumina2 import Lumina2AttnProcessor2_0

    module, image, text = _attention_of_tokens(rng, size, Lumina2AttnProcessor2_0())
    return pc.Case(
        _calling(lambda module, image, text: module(image, encoder_hidden_states=text), module), [image, text]
    )


def _attention(rng: random.Random, size: pc.Size, processor: Any) -> pc.Case:
    module, image, text = _attention_of_tokens(rng, size, processor)
    cross = rng.random() < 0.5
    keys = (text if cross else image).shape[1]
    bias = None
    if rng.random() < 0.7:
        bias = (_random(rng, (image.shape[0], 1, keys)) > 0.5).float() * -10000.0
        bias[..., :2] = 0.0  # see _tokens

    def call(module: Any, image: Any, text: Any) -> Any:
        mask = None if bias is None else bias.to(image.device, image.dtype)
        return module(image, encoder_hidden_states=text if cross else None, attention_mask=mask)

    return pc.Case(_calling(call, module), [image, text])


def _attention_of_tokens(rng: random.Random, size: pc.Size, processor: Any) -> tuple[Any, Any, Any]:
    """Draw an ``Attention`` without projections, tokens of an image and of a text.

    The projections' own rounding in 16 bits would hide differences of the attention.
    """
    import torch
    from diffusers.models.attention_processor import Attention

    heads, width = rng.randint(2, 4), 2 * rng.randint(2, 8)
    module = Attention(query_dim=heads * width, heads=heads, dim_head=width, processor=processor)
    for name in ("to_q", "to_k", "to_v"):
        setattr(module, name, torch.nn.Identity())
    module.to_out[0] = torch.nn.Identity()
    image = _tokens(rng, size, heads * width)
    return module, image, _random(rng, (image.shape[0], rng.randint(2, 9), heads * width)).requires_grad_()


def _tokens(rng: random.Random, size: pc.Size, width: int) -> Any:
    # At least two: the gradient of the softmax of one number is zero, and its rounding errors cannot be compared.
    count = size.draw(rng, small=(2, 12), typical=(64, 200))
    return _random(rng, (rng.randint(1, 3), count, width)).requires_grad_()


def _calling(call: Callable[..., Any], module: Any) -> Any:
    """Return a module that calls ``call(module, ...)``, so that parameters of ``module`` are among those compared."""
    import torch

    class Calls(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, *arguments: Any) -> Any:
            return call(self.module, *arguments)

    return Calls()


def _of_parameters(module: Any) -> Callable[..., Any]:
    """Return a function that calls ``module`` with an input and, behind it, the parameters in their order."""
    import torch

    names = [name for name, _ in module.named_parameters()]

    def call(x: Any, *parameters: Any) -> Any:
        return torch.func.functional_call(module, dict(zip(names, parameters)), (x,))

    return call


def _arguments(rng: random.Random, size: pc.Size) -> tuple[list[Any], tuple[int, ...]]:
    batch, heads, width = rng.randint(1, 3), rng.randint(2, 4), rng.choice((4, 16, 40, 64))
    queries, keys = (size.draw(rng, small=(2, 12), typical=(64, 200)) for _ in range(2))
    shapes = [(batch, count, heads, width) for count in (queries, keys, keys)]
    return [_random(rng, shape).requires_grad_() for shape in shapes], (batch, queries, heads, width)


def _mask(rng: random.Random, shape: tuple[int, ...]) -> Any:
    kind = rng.choice(("none", "numbers", "hidden", "lowest", "infinite"))
    if kind == "none":
        return None
    numbers = _random(rng, shape)
    if kind == "numbers":
        return numbers
    lowest = {"hidden": -10000.0, "lowest": -65504.0, "infinite": float("-inf")}[kind]
    return numbers.masked_fill(numbers > 0, lowest).masked_fill(numbers <= 0, 0.0)


def _input(rng: random.Random, size: pc.Size, width: int) -> Any:
    count = size.draw(rng, small=(1, 12), typical=(64, 200))
    shape = (rng.randint(1, 3), count, width) if rng.random() < 0.7 else (count, width)
    return _random(rng, shape).requires_grad_()


def _random(rng: random.Random, shape: Any) -> Any:
    import torch

    generator = torch.Generator().manual_seed(rng.randrange(2**31))
    return torch.randn(tuple(shape), generator=generator)
