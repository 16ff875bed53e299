"""Second derivatives: an error that names the patch where a kernel has none, and right without the patch."""

from __future__ import annotations

import copy
import importlib
import random
import re
from typing import Any, Callable

import pytest
import torch
from diffusers.models.activations import GEGLU
from diffusers.models.attention_dispatch import dispatch_attention_fn
from diffusers.models.attention_processor import Attention, AttnProcessor2_0
from diffusers.models.normalization import RMSNorm
from diffusion_models import RELEASE
from torch.nn.attention import SDPBackend, sdpa_kernel

import patchcore as pc
from diffusers_npu import checks_of_softmax
from diffusers_npu.attention import MODULES
from diffusers_npu.plugin import PATCHES

MASK = torch.linspace(-1, 1, 7).reshape(1, 1, 1, 7)


def of_layer(module: torch.nn.Module, *shape: int) -> tuple[Callable[..., Any], list[torch.Tensor]]:
    """Return a call of a layer that draws nothing, and its inputs."""
    return lambda x: copy.deepcopy(module).to(x.device)(x), [torch.randn(shape)]


def dispatched(mask: Any) -> tuple[Callable[..., Any], list[torch.Tensor]]:
    def call(query: Any, key: Any, value: Any) -> Any:
        return dispatch_attention_fn(query, key, value, attn_mask=None if mask is None else mask.to(query.device))

    return call, [torch.randn(2, 7, 3, 8) for _ in range(3)]


def processed() -> tuple[Callable[..., Any], list[torch.Tensor]]:
    module = Attention(query_dim=16, heads=2, dim_head=8, processor=AttnProcessor2_0())
    for name in ("to_q", "to_k", "to_v"):
        setattr(module, name, torch.nn.Identity())

    def call(x: torch.Tensor) -> Any:
        return copy.deepcopy(module).to(x.device)(x, attention_mask=MASK[0].expand(2, 1, 7).to(x.device))

    return call, [torch.randn(2, 7, 16)]


def of_class(name: str) -> tuple[Callable[..., Any], list[torch.Tensor]]:
    """Return a call of a class with a softmax of its own, as the check of its patch draws it."""
    case = getattr(checks_of_softmax, name)(random.Random(1))
    inputs = [each.detach() for each in case.args]
    return lambda *tensors: copy.deepcopy(case.call).to(tensors[0].device)(*tensors), inputs


#: Each by the name of its patch; for a module that calls scaled_dot_product_attention, the names of all of these.
CALLS = {
    "diffusers.geglu": lambda: of_layer(GEGLU(8, 6), 2, 3, 8),
    "diffusers.rms_norm": lambda: of_layer(RMSNorm(8, eps=1e-6), 2, 3, 8),
    "diffusers.attention.dispatcher": lambda: dispatched(MASK),
    ",".join(each.name for each in MODULES): processed,
    "diffusers.softmax.AttentionPooling": lambda: of_class("attention_pooling"),
    "diffusers.softmax.IPAdapterTimeImageProjectionBlock": lambda: of_class("time_projection"),
    "diffusers.softmax.PerceiverAttention": lambda: of_class("perceiver"),
    "diffusers.softmax.PerceiverCrossAttention": lambda: of_class("perceiver_cross"),
    "diffusers.softmax.SelfAttention1d": lambda: of_class("self_attention_1d"),
    "diffusers.softmax.LTX2AudioAttnBlock": lambda: of_class("audio_block"),
}
if RELEASE < (0, 37):
    del CALLS["diffusers.softmax.LTX2AudioAttnBlock"]


def second_derivatives(call: Callable[..., Any], tensors: list[torch.Tensor], device: str) -> list[torch.Tensor]:
    """Return the gradients of the squares of the gradients of a call; of each tensor that it gets."""
    inputs = [each.to(device).requires_grad_() for each in tensors]
    first = torch.autograd.grad(call(*inputs).pow(3).sum(), inputs, create_graph=True)
    second = torch.autograd.grad(sum(each.pow(2).sum() for each in first), inputs)
    return [each.cpu() for each in second]


@pytest.mark.parametrize("patches", CALLS)
def test_refused_with_the_patch_and_right_without_it(patches: str, by_formula: None) -> None:
    torch.manual_seed(0)
    call, tensors = CALLS[patches]()
    with sdpa_kernel(SDPBackend.MATH):  # the CPU's fused kernel has no second derivative either
        expected = second_derivatives(call, tensors, "cpu")
    message = re.escape(f"PATCHCORE_DISABLE={patches}") + "(;|$)"
    with pc.Patcher(PATCHES), pytest.raises(RuntimeError, match=f"create_graph=True.*{message}"):
        second_derivatives(call, tensors, "npu")
    with pc.Patcher(PATCHES, disable=patches.split(",")):
        found = second_derivatives(call, tensors, "npu")
    for one, right in zip(found, expected):
        assert ((one - right).abs().max() / right.abs().max()).item() < 1e-4


@pytest.mark.parametrize("layer", [GEGLU(8, 6), RMSNorm(8, eps=1e-6)], ids=["geglu", "rms_norm"])
def test_the_message_has_the_line_that_makes_diffusers_use_its_formula(layer: torch.nn.Module) -> None:
    call, tensors = of_layer(layer, 2, 3, 8)
    with pc.Patcher(PATCHES), pytest.raises(RuntimeError) as error:
        second_derivatives(call, tensors, "npu")
    line = re.search(r"set diffusers\.models\.(\w+)\.is_torch_npu_available = lambda: False$", str(error.value))
    assert line
    module = importlib.import_module(f"diffusers.models.{line[1]}")
    assert module.is_torch_npu_available.__name__ == "is_torch_npu_available"


def test_without_a_mask_torch_npu_itself_has_none() -> None:
    call, tensors = dispatched(None)
    with (
        pc.Patcher(PATCHES),
        pytest.raises(RuntimeError, match=r"torch_npu itself calls such a kernel$"),
    ):
        second_derivatives(call, tensors, "npu")
    with pytest.raises(RuntimeError, match="dimensional"):
        second_derivatives(call, tensors, "npu")


@pytest.mark.parametrize("patches", CALLS)
def test_first_derivatives_are_not_refused(patches: str) -> None:
    torch.manual_seed(0)
    call, tensors = CALLS[patches]()
    inputs = [each.to("npu").requires_grad_() for each in tensors]
    with pc.Patcher(PATCHES):
        call(*inputs).pow(3).sum().backward()
    assert all(each.grad is not None and each.grad.abs().sum() > 0 for each in inputs)
