"""What markers cost a training step of a transformer, beside torch's profiler with shapes and stacks.

Each variant of a round trains the same model for some steps, of whose times the median counts; the first step is left
out: it is where names and lines are looked up, and where a profiler gets its memory. A profile is dropped, not written.
"""

from __future__ import annotations

import contextlib
import statistics
import tempfile
from collections.abc import Mapping
from typing import Any, Callable, NamedTuple

from benchmarks.measure import Timing, interleave, wall
from benchmarks.rows import Budget, RatioLimit, Row, compare, skipped
from benchmarks.subjects import missing

SUBJECT = "markers"
BARE = "the same step unmarked"
PROFILED = "torch.profiler with shapes and stacks"

#: Variants by name: the backend, the level, and whether torch's profiler runs, without shapes and stacks of its own.
VARIANTS: Mapping[str, tuple[str, str, bool]] = {
    "module markers, recorded by trace": ("trace", "modules", False),
    "module markers, itt": ("itt", "modules", False),
    "all markers, recorded by trace": ("trace", "all", False),
    "all markers, itt": ("itt", "all", False),
    "all markers, record_function, while nobody profiles": ("record_function", "all", False),
    "all markers, record_function, in a profile": ("record_function", "all", True),
}
LIMITS = {"modules": RatioLimit(1.2), "all": RatioLimit(3.0)}


class Size(NamedTuple):
    """A transformer encoder and its batch.

    Args:
        name: how rows call it.
        layers, width, heads, hidden: of the encoder.
        batch, length: of its input.
    """

    name: str
    layers: int
    width: int
    heads: int
    hidden: int
    batch: int
    length: int


SIZES = (
    Size("tiny transformer (2 layers, 64 wide, 4 x 16 tokens)", 2, 64, 4, 128, 4, 16),
    Size("small transformer (2 layers, 128 wide, 8 x 32 tokens)", 2, 128, 4, 512, 8, 32),
)


def rows(budget: Budget) -> list[Row]:
    """Time training steps with and without markers, in turn."""
    found: list[Row] = []
    why = missing("torch", "torch_npu_patches")
    for size in SIZES:
        names = [*VARIANTS, PROFILED]
        if why is not None:
            found += (skipped(SUBJECT, f"{size.name}: {name}", BARE, why) for name in names)
            continue
        with tempfile.TemporaryDirectory(prefix="patchcore-markers-") as folder:
            samples = interleave(_timings(size, budget, folder), budget.rounds(12))
        for name in names:
            limit = LIMITS[VARIANTS[name][1]] if name in VARIANTS else None
            found.append(
                compare(SUBJECT, f"{size.name}: {name}", BARE, samples[name], samples[BARE], budget=budget, limit=limit)
            )
    return found


def _timings(size: Size, budget: Budget, folder: str) -> dict[str, Timing]:
    import torch

    from torch_npu_patches import markers

    torch.set_num_threads(1)
    step = _training_step(size)
    steps = 2 if budget.quick else 25

    def profiling(**details: bool) -> Any:
        return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **details)

    def timing(enter: Callable[[contextlib.ExitStack], Any]) -> Timing:
        def run() -> float:
            with contextlib.ExitStack() as stack:
                enter(stack)
                step()
                return statistics.median(wall(step) for _ in range(steps))

        return run

    def marked(backend: str, level: str, profiled: bool) -> Timing:
        def enter(stack: contextlib.ExitStack) -> None:
            stack.enter_context(markers.start(backend, level=level, directory=folder))
            if profiled:
                stack.enter_context(profiling())

        return timing(enter)

    timings = {BARE: timing(lambda stack: None)}
    timings.update({name: marked(*variant) for name, variant in VARIANTS.items()})
    timings[PROFILED] = timing(lambda stack: stack.enter_context(profiling(record_shapes=True, with_stack=True)))
    return timings


def _training_step(size: Size) -> Callable[[], None]:
    """Return one step: forward, loss, backward, AdamW."""
    import torch

    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(size.width, size.heads, size.hidden, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, size.layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randn(size.batch, size.length, size.width)

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(tokens), tokens).backward()
        optimizer.step()

    return step
