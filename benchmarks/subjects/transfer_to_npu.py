"""What ``torch_npu_patches.transfer_to_npu`` adds to a call of a function that makes tensors.

The wrapper is timed around functions of torch on the CPU: what the NPU itself takes is none of its business. Where an
argument is rewritten, the wrapped function leaves the device out, and so does its rival.
"""

from __future__ import annotations

from typing import Any

import patchcore as pc
from benchmarks.measure import interleave, statement
from benchmarks.rows import Budget, Row, compare, skipped
from benchmarks.subjects import missing

SUBJECT = "transfer-to-npu"
PLAIN = "the function itself"
#: Each call, and what is timed: it without the wrapper and with it.
CALLS = {
    "empty(2)": "no device",
    "empty(2, device='cpu')": "another device, a text",
    "empty(2, device=cpu)": "another device, a torch.device",
    "deviceless(2, device='cuda')": "rewritten and counted",
}


def rows(budget: Budget) -> list[Row]:
    """Time each call with and without the wrapper, in turn."""
    whats = {call: f"torch.empty, {what}" for call, what in CALLS.items()}
    why = missing("torch", "torch_npu_patches")
    if why is not None:
        return [skipped(SUBJECT, what, PLAIN, why) for what in whats.values()]
    import torch

    from torch_npu_patches.transfer_to_npu.wrappers import Argument, rewriting

    torch.set_num_threads(1)

    def deviceless(*size: int, device: Any = None) -> Any:
        return torch.empty(*size)

    def wrapped(function: Any) -> Any:
        return rewriting(function, (Argument("device"),), "benchmark", pc.Target.parse("torch:empty"))

    plain = {"empty": torch.empty, "deviceless": deviceless, "cpu": torch.device("cpu")}
    ours = {**plain, "empty": wrapped(torch.empty), "deviceless": wrapped(deviceless)}
    seconds = 1e-3 if budget.quick else 5e-3
    found: list[Row] = []
    for call, what in whats.items():
        timings = {"ours": statement(call, ours, seconds=seconds), PLAIN: statement(call, plain, seconds=seconds)}
        samples = interleave(timings, budget.rounds(40))
        found.append(compare(SUBJECT, what, PLAIN, samples["ours"], samples[PLAIN], budget=budget))
    return found
