"""What indexing a tensor costs on its way past ``torch.tensor_index``, the patch that every ``x[0]`` goes through."""

from __future__ import annotations

from typing import Any, Callable

import patchcore as pc
from benchmarks.measure import interleave, statement
from benchmarks.patching import patched
from benchmarks.rows import Budget, Row, compare, skipped
from benchmarks.subjects import missing

SUBJECT = "tensor-index"
INDICES = ("x[0]", "x[1:3]", "x[mask]")
PLAIN = "plain torch"
#: What any Python function in this slot costs at least.
EMPTY = "an empty Python method"


def rows(budget: Budget) -> list[Row]:
    """Time each index on a tensor of another device than the patch is for, applied and reverted in turn."""
    whats = {index: f"Tensor.__getitem__, {index}" for index in INDICES}
    why = missing("torch", "torch_npu_patches")
    if why is not None:
        return [skipped(SUBJECT, what, rival, why) for what in whats.values() for rival in (PLAIN, EMPTY)]
    import torch

    from torch_npu_patches.tensor_index import make_getitem

    torch.set_num_threads(1)
    # without the patch's own needs=["torch_npu"], which only matters for applying it in earnest
    ours, empty = (
        pc.Patch(f"benchmark.{make.__name__}", [pc.Replace("torch:Tensor.__getitem__", factory=make)])
        for make in (make_getitem, _make_empty)
    )
    names = {"x": torch.arange(512.0).reshape(64, 8), "mask": torch.arange(64) % 2 == 0}
    found: list[Row] = []
    for index, what in whats.items():
        plain = statement(index, names, seconds=1e-3 if budget.quick else 5e-3)
        timings = {"ours": patched(ours, plain), PLAIN: plain, EMPTY: patched(empty, plain)}
        samples = interleave(timings, budget.rounds(40))
        found += (
            compare(SUBJECT, what, rival, samples["ours"], samples[rival], budget=budget) for rival in (PLAIN, EMPTY)
        )
    return found


def _make_empty(original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def __getitem__(self: Any, index: Any) -> Any:
        return original(self, index)

    return __getitem__
