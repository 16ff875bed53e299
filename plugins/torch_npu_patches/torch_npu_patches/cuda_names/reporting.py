"""The parts of reports and of the last line of a run about lines that compare with ``"cuda"``."""

from __future__ import annotations

from collections.abc import Iterator

import patchcore as pc
from patchcore.plugin import counted
from torch_npu_patches.cuda_names.lines import found, rows
from torch_npu_patches.cuda_names.unedited import comparisons

__all__ = ["describe", "sections"]


def sections() -> Iterator[pc.Section]:
    """Yield sections for lines that look for CUDA and find none, that compare with it, and that were not edited.

    The first has the lines that ran. The second has the lines that ran, and lines of the program that did not or were
    left alone; other lines of installed packages are counted. The third has comparisons in code that no patch
    can edit.
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
    """Yield how many lines took the branch of CUDA's, or of NPUs, for the last line of a run."""
    ran = [line for line in found() if line.runs and not line.hides]
    if ran:
        yield f'{counted(len(ran), "line compares", "lines compare")} with "cuda" and held for NPUs, too'
    hiding = [line for line in found() if line.runs and line.hides]
    if hiding:
        yield f"{counted(len(hiding), 'line')} of libraries found no CUDA, for their branch for NPUs"
    missed = comparisons()
    if missed:
        yield f'{counted(len(missed), "comparison")} with "cuda" could not be edited'
