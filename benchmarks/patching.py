"""Variants that are timed while a patch is applied."""

from __future__ import annotations

import patchcore as pc
from benchmarks.measure import Timing

__all__ = ["patched"]


def patched(patch: pc.Patch, plain: Timing) -> Timing:
    """Return a variant that applies ``patch`` for each round of ``plain``, which does not count as work of it."""

    def timing() -> float:
        with pc.Patcher([patch], strict=True) as patcher:
            assert patcher.report()[patch.name].status == "applied"
            return plain()

    return timing
