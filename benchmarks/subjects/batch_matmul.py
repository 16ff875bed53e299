"""What multiplying matrices costs on its way past ``torch.batch_matmul``, which every ``a @ b`` goes through."""

from __future__ import annotations

from typing import Any, Callable

import patchcore as pc
from benchmarks.measure import interleave, statement
from benchmarks.patching import patched
from benchmarks.rows import Budget, RatioLimit, Row, compare, skipped
from benchmarks.subjects import missing

SUBJECT = "batch-matmul"
#: The two smallest multiplications of a model, and one that asks all questions: attention has rank 4.
PRODUCTS = {
    "torch.matmul, 8 x 8": "torch.matmul(a, b)",
    "a @ b, 8 x 8": "a @ b",
    "a @ b, attention of 2 heads, 8 x 8": "q @ k",
    "a @ b, 256 x 256": "large @ large",
}
PLAIN = "plain torch"
#: What any Python function in these slots costs at least.
EMPTY = "an empty Python function"
#: The questions asked may cost this much of the smallest multiplication.
QUESTIONS = RatioLimit(1.15)


def rows(budget: Budget) -> list[Row]:
    """Time each product of tensors on another device than the patch is for, applied and reverted in turn."""
    why = missing("torch", "torch_npu_patches")
    if why is not None:
        return [skipped(SUBJECT, what, rival, why) for what in PRODUCTS for rival in (PLAIN, EMPTY)]
    import torch

    from torch_npu_patches.batch_matmul import make_matmul, make_method

    torch.set_num_threads(1)
    # without the patch's own needs, which only matter for applying it in earnest
    ours, empty = _patch("ours", make_matmul, make_method), _patch("empty", _make_empty, _make_empty)
    head = torch.randn(1, 2, 8, 8)
    names = {
        "torch": torch,
        "a": torch.randn(8, 8),
        "b": torch.randn(8, 8),
        "q": head,
        "k": head.mT,
        "large": torch.randn(256, 256),
    }
    found: list[Row] = []
    for what, source in PRODUCTS.items():
        plain = statement(source, names, seconds=1e-3 if budget.quick else 5e-3)
        timings = {"ours": patched(ours, plain), PLAIN: plain, EMPTY: patched(empty, plain)}
        samples = interleave(timings, budget.rounds(40))
        found += (
            compare(SUBJECT, what, rival, samples["ours"], samples[rival], budget=budget, limit=limit)
            for rival, limit in ((PLAIN, None), (EMPTY, QUESTIONS))
        )
    return found


def _patch(name: str, make_matmul: Callable[[Any], Any], make_method: Callable[[Any], Any]) -> pc.Patch:
    changes = [
        pc.Replace("torch:matmul", factory=make_matmul),
        pc.Replace("torch:Tensor.matmul", factory=make_method),
        pc.Replace("torch:Tensor.__matmul__", factory=make_method),
    ]
    return pc.Patch(f"benchmark.batch_matmul_{name}", changes)


def _make_empty(original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def matmul(a: Any, b: Any) -> Any:
        return original(a, b)

    return matmul
