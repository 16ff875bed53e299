"""Tiny models with random weights, on the NPU with patches beside the CPU with eager attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, NamedTuple, Optional

import torch
import transformers

import patchcore as pc

RELEASE = tuple(int(part) for part in transformers.__version__.split(".")[:2])
MAJOR = RELEASE[0]
VOCABULARY = 64
#: The largest difference that is allowed, as a share of the largest value.
TOLERANCES = {torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 5e-2}

SMALL = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}


class Result(NamedTuple):
    """What a training step of a model gives, on the CPU in float32."""

    logits: torch.Tensor
    gradients: dict[str, torch.Tensor]


def tiny(
    name: str, model: str = "ForCausalLM", without: Sequence[str] = (), config: str = "", **options: Any
) -> Callable[[], Any]:
    """Return a factory of a tiny model: ``tiny("Llama")()``; ``without`` are options that it does not have."""
    small = {key: value for key, value in SMALL.items() if key not in without}

    def make(**how: Any) -> Any:
        made = getattr(transformers, config or f"{name}Config")(**{**small, **options})
        torch.manual_seed(0)
        return getattr(transformers, f"{name}{model}")._from_config(made, **how)

    return make


def padded_batch(left: int = 3, length: int = 9) -> dict[str, torch.Tensor]:
    """Return two sequences, the first padded on the left; no padding counts for the loss, nor does the first token."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(1, VOCABULARY, (2, length), generator=generator)
    mask = torch.ones_like(ids)
    mask[0, :left] = 0
    labels = ids.masked_fill((mask == 0) | (mask.cumsum(1) == 1), -100)
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def step(model: Any, batch: dict[str, torch.Tensor], device: str, dtype: torch.dtype) -> Result:
    """Return the logits where the mask is 1, and the gradients of a step."""
    model = model.to(dtype).to(device).train()
    out = model(**{name: value.to(device) for name, value in batch.items()})
    loss = getattr(out, "loss", None)
    (out[0].float().pow(2).mean() if loss is None else loss).backward()
    logits = (out[0] if loss is None else out.logits).detach().float().cpu()
    if "attention_mask" in batch and batch["attention_mask"].dim() == 2:
        logits = logits[batch["attention_mask"].bool()]
    named = {name: p.grad.float().cpu() for name, p in model.named_parameters() if p.grad is not None}
    return Result(logits, named)


def assert_equal(got: Result, expected: Result, dtype: torch.dtype, tolerance: Optional[float] = None) -> None:
    """Compare logits, and all gradients by the largest one."""
    tolerance = TOLERANCES[dtype] if tolerance is None else tolerance
    close(got.logits, expected.logits, tolerance)
    assert got.gradients.keys() == expected.gradients.keys()
    largest = max(float(g.abs().max()) for g in expected.gradients.values())
    for name, gradient in expected.gradients.items():
        assert float((got.gradients[name] - gradient).abs().max()) <= tolerance * largest, name


def close(got: torch.Tensor, expected: torch.Tensor, tolerance: float) -> None:
    """Compare two tensors by the largest value that is expected."""
    assert got.shape == expected.shape
    error = float((got - expected).abs().max())
    assert error <= tolerance * float(expected.abs().max()), error


def hits(patcher: pc.Patcher, patch: str) -> tuple[int, int]:
    """Return how many calls came to the target of a patch, and how many of them the replacement got."""
    change = patcher.report()[patch].changes[0]
    return change.calls or 0, change.replaced or 0
