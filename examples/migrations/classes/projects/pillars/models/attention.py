"""Self-attention by FlashAttention."""

import functools

import torch
from flash_attn import flash_attn_func
from torch import nn


def in_float32(apply_to=()):
    """Return a decorator of methods that makes named arguments float32."""

    def decorate(method):
        @functools.wraps(method)
        def convert(self, *args, **kwargs):
            names = method.__code__.co_varnames[1 : method.__code__.co_argcount]
            given = {**dict(zip(names, args)), **kwargs}
            return method(self, **{name: x.float() if name in apply_to else x for name, x in given.items()})

        return convert

    return decorate


class FlashAttention(nn.Module):
    """Scaled dot products; queries, keys and values of shape (n, length, heads, channels)."""

    @in_float32(apply_to=("query", "key", "value"))
    def forward(self, query, key, value):
        if query.is_cuda:
            return flash_attn_func(query.half(), key.half(), value.half()).float()
        scores = torch.einsum("nqhc,nkhc->nhqk", query, key) * query.shape[-1] ** -0.5
        return torch.einsum("nhqk,nkhc->nqhc", scores.softmax(-1), value)


class FlashMHA(nn.Module):
    """Multi-head self-attention of tensors of shape (n, length, dims)."""

    def __init__(self, dims, heads):
        super().__init__()
        self.heads = heads
        self.in_proj = nn.Linear(dims, 3 * dims)
        self.inner_attention = FlashAttention()
        self.out_proj = nn.Linear(dims, dims)

    def forward(self, x):
        heads = (part.unflatten(-1, (self.heads, -1)) for part in self.in_proj(x).chunk(3, dim=-1))
        return self.out_proj(self.inner_attention(*heads).flatten(-2))
