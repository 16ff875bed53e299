"""The hook that this distribution brings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from patchcore import hookspec

if TYPE_CHECKING:
    from patchcore_torch.training.loops import TrainingLoop

__all__ = ["training_loops"]


@hookspec
def training_loops() -> Iterable[TrainingLoop]:  # type: ignore[empty-body]
    """Return the training loops whose steps profiling and brake count; called when a user selects one of them."""
