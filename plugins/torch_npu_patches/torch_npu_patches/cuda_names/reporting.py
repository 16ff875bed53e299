"""The section of reports about lines that compare with ``"cuda"``."""

from __future__ import annotations

from collections.abc import Iterator

import patchcore as pc
from torch_npu_patches.cuda_names.lines import Line, found, rows

__all__ = ["sections"]


def sections() -> Iterator[pc.Section]:
    """Yield one section: the lines that ran, and the program's own that were left alone; the others are counted."""
    lines = found()
    if not lines:
        return
    edited = [line for line in lines if not line.why]
    ran = [line for line in edited if line.count]
    left = [line for line in lines if line.why]
    own = [line for line in left if not line.installed]
    texts = [str(line) for line in [*ran, *own]]
    if len(edited) > len(ran):
        texts.append(f"edited and not run: {_counted(len(edited) - len(ran))}")
    if len(left) > len(own):
        texts.append(f"left alone in installed packages: {_counted(len(left) - len(own))}")
    yield pc.Section('Lines that compare with "cuda"', tuple(texts), data=rows(lines))


def _counted(number: int) -> str:
    return f"{number} line{'' if number == 1 else 's'}"
