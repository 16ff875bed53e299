"""Count the operators that calls of diffusers run on the NPU, and the bytes of their inputs and results.

python -m fake_cann run tools/count_diffusers_operators.py           # prints the table of docs/diffusers.md
python -m fake_cann run tools/count_diffusers_operators.py --check   # exits with 1 where the page has another table

Each call is counted without and with the patches of diffusers-npu-patches, forward only, in float16. Views are no
operators. The bytes are those of the tensors that an operator gets and returns; what CANN copies inside is not seen.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from diffusers.models.activations import GEGLU
from diffusers.models.attention_dispatch import dispatch_attention_fn
from diffusers.models.attention_processor import Attention, AttnProcessor2_0
from diffusers.models.embeddings import AttentionPooling
from diffusers.models.normalization import RMSNorm
from torch.utils._python_dispatch import TorchDispatchMode

import patchcore as pc
from diffusers_npu.plugin import PATCHES

PAGE = Path(__file__).resolve().parent.parent / "docs" / "diffusers.md"
START, END = "<!-- operators per call -->\n", "<!-- end -->"
HALF = torch.float16


class Counted(TorchDispatchMode):
    """Counts operators, and the bytes that they get and return."""

    def __init__(self) -> None:
        super().__init__()
        self.operators = self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        if not func.is_view:
            self.operators += 1
            tensors = torch.utils._pytree.tree_leaves([args, kwargs, results])
            self.bytes += sum(size_of(each) for each in tensors if isinstance(each, torch.Tensor))
        return results


def size_of(tensor: torch.Tensor) -> int:
    """Bytes of the numbers of a tensor; an expanded one has those of one copy."""
    return min(tensor.nbytes, tensor.untyped_storage().nbytes())


def attention(bias: bool) -> Callable[[], Any]:
    """Return a call of ``AttnProcessor2_0`` without its projections, with or without a mask that is added."""
    module = Attention(query_dim=640, cross_attention_dim=768, heads=8, dim_head=80, processor=AttnProcessor2_0())
    module = module.to("npu", HALF)
    for name in ("to_q", "to_k", "to_v"):  # the projections are the same in both
        setattr(module, name, torch.nn.Identity())
    module.to_out[0] = torch.nn.Identity()
    image, text = (torch.randn(2, tokens, 640, dtype=HALF).npu() for tokens in (1024, 77))
    mask = torch.zeros(2, 1, 77, dtype=HALF).npu() if bias else None
    return lambda: module(image, encoder_hidden_states=text, attention_mask=mask)


def dispatched(bias: bool) -> Callable[[], Any]:
    """Return a call of the dispatcher, with or without a mask that is added."""
    query, key, value = (torch.randn(2, 1024, 24, 128, dtype=HALF).npu() for _ in range(3))
    mask = torch.zeros(2, 1, 1, 1024, dtype=HALF).npu() if bias else None
    return lambda: dispatch_attention_fn(query, key, value, attn_mask=mask).flatten(2, 3)


def layer(module: torch.nn.Module, *shape: int) -> Callable[[], Any]:
    """Return a call of a layer with an input of this shape."""
    module, x = module.to("npu", HALF), torch.randn(shape, dtype=HALF).npu()
    return lambda: module(x)


#: Each with its sizes; the two layers run on kernels without the patches, too.
CALLS = {
    "dispatcher, 2 x 1024 tokens, 24 heads of 128, no mask": dispatched(False),
    "dispatcher, the same with an added mask": dispatched(True),
    "`AttnProcessor2_0`, 2 x 1024 tokens to 77, 8 heads of 80, no mask": attention(False),
    "`AttnProcessor2_0`, the same with an added mask": attention(True),
    "`AttentionPooling`, 2 x 77 tokens, 16 heads of 64": layer(AttentionPooling(16, 1024), 2, 77, 1024),
    "`GEGLU`, 2 x 1024 tokens, 640 to 2560": layer(GEGLU(640, 2560), 2, 1024, 640),
    "`RMSNorm`, 2 x 1024 tokens of 3072": layer(RMSNorm(3072, eps=1e-6), 2, 1024, 3072),
}


def table() -> str:
    """Return the table of the page."""
    lines = ["| call | operators without | with | MiB without | with |", "|---|---|---|---|---|"]
    for name, call in CALLS.items():
        counts = []
        for patches in ((), PATCHES):
            with pc.Patcher(patches), torch.no_grad(), Counted() as counted:
                call()
            counts.append(counted)
        operators = " | ".join(str(each.operators) for each in counts)
        lines.append(f"| {name} | {operators} | {' | '.join(f'{each.bytes / 2**20:.1f}' for each in counts)} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Print the table, or compare it with that of the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="exit with 1 where the page has another table")
    made = table()
    print(made, end="")
    if not parser.parse_args().check:
        return 0
    found = PAGE.read_text(encoding="utf-8").partition(START)[2].partition(END)[0]
    return int(found != made)


if __name__ == "__main__":
    raise SystemExit(main())
