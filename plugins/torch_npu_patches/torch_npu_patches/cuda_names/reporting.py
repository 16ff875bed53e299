"""The parts of reports and of the last line of a run about lines that compare with ``"cuda"``."""

from __future__ import annotations

from collections.abc import Iterator

import patchcore as pc
from patchcore.plugin import counted
from torch_npu_patches.cuda_names.lines import found, rows
from torch_npu_patches.cuda_names.unedited import comparisons

__all__ = ["describe", "sections"]


def sections() -> Iterator[pc.Section]:
    """Yield up to three sections of a report.

    Comparisons with CUDA in code that no patch can edit; lines that check for CUDA, ran, and got false; lines that
    compare with CUDA. The last section has all such lines of the program, and those of installed packages that ran; it
    counts the other lines of installed packages.
    """
    missed = comparisons()
    if missed:
        data = [each._asdict() for each in missed]
        yield pc.Section('Comparisons with "cuda" that could not be edited', tuple(map(str, missed)), data=data)
    hiding = [line for line in found() if line.hides and line.runs]
    if hiding:
        yield pc.Section("Lines that find no CUDA, for the branch for NPUs", tuple(map(str, hiding)), data=rows(hiding))
    lines = [line for line in found() if not line.hides]
    if not lines:
        return
    shown = [line for line in lines if line.runs or not line.installed]
    texts = [str(line) for line in shown]
    if len(lines) > len(shown):
        others = [line for line in lines if line not in shown]
        left = sum(bool(line.why) for line in others)
        texts.append(
            f"in installed packages besides: {counted(len(others) - left, 'line')} edited that did not run, "
            f"{counted(left, 'line')} left alone"
        )
    yield pc.Section('Lines that compare with "cuda"', tuple(texts), data=rows(shown))


def describe() -> Iterator[str]:
    """Yield how many lines ran, for the last line of a run: one text for each kind."""
    ran = [line for line in found() if line.runs and not line.hides]
    if ran:
        yield f'{counted(len(ran), "line compares", "lines compare")} with "cuda" and held for NPUs, too'
    hiding = [line for line in found() if line.runs and line.hides]
    if hiding:
        yield f"{counted(len(hiding), 'line')} of libraries found no CUDA, for their branch for NPUs"
    missed = comparisons()
    if missed:
        yield f'{counted(len(missed), "comparison")} with "cuda" could not be edited'
