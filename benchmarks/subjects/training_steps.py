"""What a brake costs each training step that it lets pass, against the same loop without it.

The steps are as small as steps of real training never are: what is added is a fixed time per step.
"""

from __future__ import annotations

import sys
from types import ModuleType

import patchcore as pc
from benchmarks.measure import Timing, interleave, statement
from benchmarks.rows import Budget, Row, compare, skipped
from benchmarks.subjects import missing

SUBJECT = "training-steps"
BARE = "the same loop without a brake"
NAMED = "a brake, per call of a named loop that does nothing"
PLAIN = "a brake, per step of a 64x64 layer with SGD, found by Optimizer.step"
#: A step that is never reached.
NEVER = 10**9

_LOOP = "benchmark_training_loop"


def rows(budget: Budget) -> list[Row]:
    """Time steps with a brake applied and reverted in turn."""
    return [_named_row(budget), _plain_row(budget)]


def _named_row(budget: Budget) -> Row:
    module = sys.modules[_LOOP] = ModuleType(_LOOP)
    exec("def train_step(data):\n    return data\n", module.__dict__)
    bare = statement("module.train_step(1)", {"module": module}, seconds=_seconds(budget))
    return _row(NAMED, bare, pc.Patcher().with_settings(brake=NEVER, step=f"{_LOOP}:train_step"), budget)


def _plain_row(budget: Budget) -> Row:
    why = missing("torch")
    if why is not None:
        return skipped(SUBJECT, PLAIN, BARE, why)
    import torch

    torch.set_num_threads(1)
    layer = torch.nn.Linear(64, 64)
    optimizer = torch.optim.SGD(layer.parameters(), lr=1e-6)
    data = torch.ones(16, 64)

    def step() -> None:
        optimizer.zero_grad()
        layer(data).sum().backward()
        optimizer.step()

    bare = statement("step()", {"step": step}, seconds=_seconds(budget))
    return _row(PLAIN, bare, pc.Patcher().with_settings(brake=NEVER), budget)


def _row(what: str, bare: Timing, patcher: pc.Patcher, budget: Budget) -> Row:
    samples = interleave({"ours": _braked(patcher, bare), BARE: bare}, budget.rounds(40))
    return compare(SUBJECT, what, BARE, samples["ours"], samples[BARE], budget=budget)


def _braked(patcher: pc.Patcher, bare: Timing) -> Timing:
    def timing() -> float:
        with patcher:
            return bare()

    return timing


def _seconds(budget: Budget) -> float:
    return 1e-3 if budget.quick else 2e-2
