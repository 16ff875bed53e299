"""Count the operators that calls of a library run on the NPU, and the bytes of their inputs and results.

python -m fake_cann run tools/count_operators.py diffusers              # prints the table of docs/diffusers.md
python -m fake_cann run tools/count_operators.py transformers           # prints the table of docs/transformers.md
python -m fake_cann run tools/count_operators.py transformers --check   # exits with 1 where the page has another table

Each call is counted without and with the patches of the library, forward only, in float16. Views are no operators. The
bytes are those of the tensors that an operator gets and returns; what CANN copies inside is not seen.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import patchcore as pc

PAGES = Path(__file__).resolve().parent.parent / "docs"
START, END = "<!-- operators per call -->\n", "<!-- end -->"
HALF = torch.float16

Call = Callable[[], Any]


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


def layer(module: torch.nn.Module, *shapes: tuple[int, ...]) -> Call:
    """Return a call of a layer with inputs of these shapes."""
    module, inputs = module.to("npu", HALF), [torch.randn(shape, dtype=HALF).npu() for shape in shapes]
    return lambda: module(*inputs)


def calls_of_diffusers() -> dict[str, Call]:
    """Return calls, each with its sizes; the two layers run on kernels without the patches, too."""
    from diffusers.models.activations import GEGLU
    from diffusers.models.attention_dispatch import dispatch_attention_fn
    from diffusers.models.attention_processor import Attention, AttnProcessor2_0
    from diffusers.models.embeddings import AttentionPooling
    from diffusers.models.normalization import RMSNorm

    def attention(bias: bool) -> Call:
        """Return a call of ``AttnProcessor2_0`` without its projections, with or without a mask that is added."""
        module = Attention(query_dim=640, cross_attention_dim=768, heads=8, dim_head=80, processor=AttnProcessor2_0())
        module = module.to("npu", HALF)
        for name in ("to_q", "to_k", "to_v"):  # the projections are the same in both
            setattr(module, name, torch.nn.Identity())
        module.to_out[0] = torch.nn.Identity()
        image, text = (torch.randn(2, tokens, 640, dtype=HALF).npu() for tokens in (1024, 77))
        mask = torch.zeros(2, 1, 77, dtype=HALF).npu() if bias else None
        return lambda: module(image, encoder_hidden_states=text, attention_mask=mask)

    def dispatched(bias: bool) -> Call:
        """Return a call of the dispatcher, with or without a mask that is added."""
        query, key, value = (torch.randn(2, 1024, 24, 128, dtype=HALF).npu() for _ in range(3))
        mask = torch.zeros(2, 1, 1, 1024, dtype=HALF).npu() if bias else None
        return lambda: dispatch_attention_fn(query, key, value, attn_mask=mask).flatten(2, 3)

    return {
        "dispatcher, 2 x 1024 tokens, 24 heads of 128, no mask": dispatched(False),
        "dispatcher, the same with an added mask": dispatched(True),
        "`AttnProcessor2_0`, 2 x 1024 tokens to 77, 8 heads of 80, no mask": attention(False),
        "`AttnProcessor2_0`, the same with an added mask": attention(True),
        "`AttentionPooling`, 2 x 77 tokens, 16 heads of 64": layer(AttentionPooling(16, 1024), (2, 77, 1024)),
        "`GEGLU`, 2 x 1024 tokens, 640 to 2560": layer(GEGLU(640, 2560), (2, 1024, 640)),
        "`RMSNorm`, 2 x 1024 tokens of 3072": layer(RMSNorm(3072, eps=1e-6), (2, 1024, 3072)),
    }


def calls_of_transformers() -> dict[str, Call]:
    """Return calls, each with its sizes: 2 x 1024 tokens, 32 heads of 128 for queries and 8 for keys."""
    from transformers import DiaEncoderConfig, MixtralConfig
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    def modeling(model: str) -> Any:
        return importlib.import_module(f"transformers.models.{model}.modeling_{model}")

    def rotary(model: str, width: int = 128, name: str = "apply_rotary_pos_emb") -> Call:
        """Return a call of a function that gets cosines of ``width`` numbers, one for each position."""
        module = modeling(model)
        query, key = (torch.randn(2, heads, 1024, 128, dtype=HALF).npu() for heads in (32, 8))
        cos, sin = (torch.rand(1, 1024, width, dtype=HALF).npu() for _ in range(2))
        return lambda: getattr(module, name)(query, key, cos, sin)

    def attention(**options: Any) -> Call:
        """Return a call of the function that is registered for sdpa, with the layout that models have."""
        module = SimpleNamespace(num_key_value_groups=4, is_causal=True, training=False)
        query, key, value = (torch.randn(2, 1024, heads, 128, dtype=HALF).npu().transpose(1, 2) for heads in (32, 8, 8))
        given = {"attention_mask": None, **options}
        return lambda: ALL_ATTENTION_FUNCTIONS["sdpa"](module, query, key, value, scaling=0.1, **given)[0]

    def mlp() -> Call:
        """Return a call of an MLP with one projection for both halves, without its projections."""
        module = modeling("dia").DiaMLP(DiaEncoderConfig(hidden_act="silu"))
        module.gate_up_proj = module.down_proj = torch.nn.Identity()
        return layer(module, (2, 1024, 2 * 4096))

    def experts() -> Call:
        """Return a call of the experts of Mixtral; two of eight for each token."""
        config = MixtralConfig(hidden_size=256, intermediate_size=512, num_local_experts=8)
        config._experts_implementation = "grouped_mm"
        module = modeling("mixtral").MixtralExperts(config).to("npu", HALF)
        for parameter in module.parameters():
            torch.nn.init.normal_(parameter, std=0.02)
        x, weights = torch.randn(2048, 256, dtype=HALF).npu(), torch.full((2048, 2), 0.5, dtype=HALF).npu()
        chosen = torch.stack((torch.arange(2048) % 8, (torch.arange(2048) + 3) % 8), 1).npu()
        return lambda: module(x, chosen, weights)

    row, rows = torch.ones(2, 1, 1, 1024, dtype=torch.bool), torch.ones(1024, 1024, dtype=torch.bool)
    row[1, ..., :100] = False  # padded on the left
    padded = (row & rows.tril()).npu()
    window = rows.tril().triu(-255)[None, None].npu()
    hidden = torch.zeros(padded.shape, dtype=HALF).npu().masked_fill(~padded, torch.finfo(HALF).min)
    tokens = (2, 1024, 4096)
    return {
        "`LlamaRMSNorm`, 2 x 1024 tokens of 4096": layer(modeling("llama").LlamaRMSNorm(4096), tokens),
        "`GemmaRMSNorm`, 1 + weight, the same": layer(modeling("gemma").GemmaRMSNorm(4096), tokens),
        "`Qwen3NextRMSNormGated`, the same": layer(modeling("qwen3_next").Qwen3NextRMSNormGated(4096), tokens, tokens),
        "rotary of Llama, half, 2 x 1024 tokens, 32 and 8 heads of 128": rotary("llama"),
        "rotary of Bamba, half, partial: 64 of 128": rotary("bamba", 64),
        "rotary of ESM, half in float32": rotary("esm"),
        "rotary of Cohere, interleaved in float32": rotary("cohere"),
        "rotary of DeepSeek V3, halves of pairs": rotary("deepseek_v3", name="apply_rotary_pos_emb_interleave"),
        "`DiaMLP`, gate and up of 4096 in one tensor": mlp(),
        "attention, causal, 2 x 1024 tokens, 32 and 8 heads of 128": attention(),
        "attention, the same with padding": attention(attention_mask=padded),
        "attention, the same with a sliding window": attention(attention_mask=window),
        "attention, the same with a mask of numbers": attention(attention_mask=hidden),
        "`MixtralExperts`, 2048 tokens of 256, 2 of 8 experts of 512": experts(),
    }


#: By library, its calls and the plugin's module that lists the patches.
LIBRARIES = {
    "diffusers": (calls_of_diffusers, "diffusers_npu.plugin"),
    "transformers": (calls_of_transformers, "transformers_npu.plugin"),
}


def table(library: str) -> str:
    """Return the table of a library's page.

    Args:
        library: of ``LIBRARIES``.
    """
    calls, plugin = LIBRARIES[library]
    patches = importlib.import_module(plugin).register_patches()
    lines = ["| call | operators without | with | MiB without | with |", "|---|---|---|---|---|"]
    for name, call in calls().items():
        counts = []
        for applied in ((), patches):
            with pc.Patcher(applied), torch.no_grad():
                call()  # the causal mask of the kernel is made once
                with Counted() as counted:
                    call()
            counts.append(counted)
        operators = " | ".join(str(each.operators) for each in counts)
        lines.append(f"| {name} | {operators} | {' | '.join(f'{each.bytes / 2**20:.1f}' for each in counts)} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Print the table, or compare it with that of the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("library", choices=LIBRARIES, help="whose table")
    parser.add_argument("--check", action="store_true", help="exit with 1 where the page has another table")
    arguments = parser.parse_args()
    made = table(arguments.library)
    print(made, end="")
    if not arguments.check:
        return 0
    page = PAGES.joinpath(f"{arguments.library}.md").read_text(encoding="utf-8")
    return int(page.partition(START)[2].partition(END)[0] != made)


if __name__ == "__main__":
    raise SystemExit(main())
