"""What reports and the last line of a run have about lines that compare with ``"cuda"``."""

from __future__ import annotations

from collections.abc import Iterator

import patchcore as pc
from patchcore.objects.printable import counted
from torch_npu_patches.cuda_names.lines import found, rows

__all__ = ["describe", "sections"]


def sections() -> Iterator[pc.Section]:
    """Yield one section: lines that ran, and lines of the program that did not or were left alone.

    Other lines of installed packages are counted.
    """
    lines = found()
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
    """Yield how many lines took the branch of CUDA's, for the last line of a run."""
    ran = [line for line in found() if line.runs]
    if ran:
        yield f'{counted(len(ran), "line compares", "lines compare")} with "cuda" and held for NPUs, too'
