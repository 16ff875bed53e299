"""What a recording of ``patchcore run --record`` adds to a training step: statistics, tensors, operators."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.measure import Timing, interleave
from benchmarks.processes import environment, run
from benchmarks.rows import Budget, Row, compare, skipped
from benchmarks.subjects import missing

SUBJECT = "record"
STEPS = 6
PLAIN = "the same step, not recorded"
#: Options of ``patchcore run`` besides the folder and the steps.
RECORDINGS: Mapping[str, Sequence[str]] = {
    "a step, statistics of modules": (),
    "a step, statistics of modules and operators": ("--record-operators",),
    "a step, tensors of modules": ("--record-tensors",),
    "a step that is left out of the recording": ("--record-steps", "1000"),
}
#: A transformer of two layers, 1.6 million parameters: it prints the seconds of a step, without the first one.
_PROGRAM = """\
import time
import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
layer = nn.TransformerEncoderLayer(256, 4, 512, batch_first=True)
model = nn.Sequential(nn.Linear(64, 256), nn.TransformerEncoder(layer, 2), nn.Linear(256, 64))
optimizer = torch.optim.AdamW(model.parameters())
times = []
for step in range(STEPS):
    start = time.perf_counter()
    loss = model(torch.ones(16, 64, 64)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    times.append(time.perf_counter() - start)
print(sum(times[1:]) / (STEPS - 1))
"""


def rows(budget: Budget) -> list[Row]:
    """Time the steps of a program in fresh interpreters."""
    why = missing("torch", "patchcore_torch")
    if why:
        return [skipped(SUBJECT, what, PLAIN, why) for what in RECORDINGS]
    with tempfile.TemporaryDirectory(prefix="patchcore-benchmark-") as name:
        folder = Path(name)
        (folder / "program.py").write_text(_PROGRAM.replace("STEPS", str(STEPS)), encoding="utf-8")
        env = environment()
        timings = {PLAIN: _running(folder, None, env)}
        timings.update((what, _running(folder, options, env)) for what, options in RECORDINGS.items())
        samples = interleave(timings, budget.rounds(3))
    return [compare(SUBJECT, what, PLAIN, samples[what], samples[PLAIN], budget=budget) for what in RECORDINGS]


def _running(folder: Path, options: Sequence[str] | None, env: Mapping[str, str]) -> Timing:
    def seconds() -> float:
        records = folder / "records"
        shutil.rmtree(records, ignore_errors=True)
        recording = [] if options is None else ["--record", str(records)]
        if options is not None and "--record-steps" not in options:
            recording += ["--record-steps", f"1-{STEPS}", "--record-limit", "8192"]
        command = ["-m", "patchcore", "run", "-q", "--disable", "*", *recording, *(options or ())]
        return float(run([*command, str(folder / "program.py")], env).split()[-1])

    return seconds
