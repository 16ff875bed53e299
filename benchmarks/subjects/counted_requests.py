"""What counting the requests for CUDA costs where the NPU is emulated: one call, and a whole training step.

``torch.cuda.current_device()`` is ``torch.npu.current_device()`` and the count, so a call is timed next to that of
torch.npu. A training step that names CUDA is timed with the patches of ``transfer_to_npu``, and with the same patches
whose counters count nothing.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Callable
from unittest import mock

import patchcore as pc
from benchmarks.measure import Timing, interleave, statement, wall
from benchmarks.rows import Budget, RatioLimit, Row, compare, skipped
from benchmarks.subjects import missing

if TYPE_CHECKING:
    from torch import Tensor, nn

SUBJECT = "counted-requests"
UNCOUNTED = "without the count"
#: What is timed, counted and not counted.
CALLS = {
    "torch.cuda.is_available()": ("cuda.is_available()", "npu.is_available()"),
    "torch.cuda.current_device()": ("cuda.current_device()", "npu.current_device()"),
    "torch.cuda.memory_allocated()": ("cuda.memory_allocated()", "npu.memory_allocated()"),
    "x.is_cuda": ("x.is_cuda", "x.is_cuda_uncounted"),
}
TINY, MIDDLE = "training step, tiny MLP", "training step, MLP of width 512 on 64 rows"
WHATS = (*CALLS, TINY, MIDDLE)
CALL_LIMIT, STEP_LIMIT = 3.5, 1.02


def rows(budget: Budget) -> list[Row]:
    """Time calls with the patches applied, and steps with the patches applied and reverted in every round."""
    why = missing("torch", "npu_emulator", "torch_npu_patches")
    if why is not None:
        return [skipped(SUBJECT, what, UNCOUNTED, why) for what in WHATS]
    import npu_emulator

    npu_emulator.install()
    import torch

    from torch_npu_patches.transfer_to_npu import TRANSFER_TO_NPU

    torch.set_num_threads(1)
    patcher = pc.Patcher(TRANSFER_TO_NPU, strict=True)
    with patcher:
        found = _calls(budget)
    for what, steps in ((TINY, 40), (MIDDLE, 10)):
        step = _training(what, steps=budget.size(steps) or 1)
        timings = {"ours": _applied(patcher, step), UNCOUNTED: _applied(patcher, step, uncounted=True)}
        samples = interleave(timings, budget.rounds(40))
        limit = RatioLimit(STEP_LIMIT)
        found.append(compare(SUBJECT, what, UNCOUNTED, samples["ours"], samples[UNCOUNTED], budget=budget, limit=limit))
    return found


def _calls(budget: Budget) -> list[Row]:
    import torch

    torch.Tensor.is_cuda_uncounted = property(lambda self: self.device.type in ("cuda", "npu"))
    names = {"cuda": torch.cuda, "npu": torch.npu, "x": torch.ones(2, device="npu")}
    seconds = 1e-3 if budget.quick else 5e-3
    found: list[Row] = []
    for what, (counted, plain) in CALLS.items():
        timings = {
            "ours": statement(counted, names, seconds=seconds),
            UNCOUNTED: statement(plain, names, seconds=seconds),
        }
        samples = interleave(timings, budget.rounds(40))
        limit = RatioLimit(CALL_LIMIT)
        found.append(compare(SUBJECT, what, UNCOUNTED, samples["ours"], samples[UNCOUNTED], budget=budget, limit=limit))
    return found


def _applied(patcher: pc.Patcher, timing: Timing, *, uncounted: bool = False) -> Timing:
    """Return a timing with the patches applied; ``uncounted``: their counters count nothing."""
    from torch_npu_patches.transfer_to_npu import audit

    def timed() -> float:
        with ExitStack() as stack:
            if uncounted:  # patches ask for their counters when they are applied
                stack.enter_context(mock.patch.object(audit, "_counters", {}))
                stack.enter_context(mock.patch.object(audit.Counter, "_noting", return_value=_count_nothing))
            patcher.apply()
        try:
            return timing()
        finally:
            patcher.revert()

    return timed


def _count_nothing(*_: Any) -> None:
    pass


def _training(what: str, *, steps: int) -> Timing:
    """Return a timing of one step as a CUDA script has it: copy, forward, backward, Adam, synchronize, memory."""
    import torch

    torch.manual_seed(0)
    width, rows = (32, 8) if what == TINY else (512, 64)
    model = _mlp(width).to("npu")
    images: Tensor = torch.randn(rows, width)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def train() -> None:
        for _ in range(steps):
            x = images.to("cuda", non_blocking=True)
            y = torch.zeros(rows, width, device="cuda")
            optimizer.zero_grad()
            (model(x) - y).square().mean().backward()
            optimizer.step()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            torch.cuda.memory_allocated()

    return lambda: wall(train) / steps


def _mlp(width: int) -> nn.Module:
    from torch import nn

    layers: list[Callable[[Any], Any]] = []
    for _ in range(3):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers)
