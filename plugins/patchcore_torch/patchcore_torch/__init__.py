"""Support for torch that is no patch of a program. Importing this package imports no torch.

``training/`` counts training steps, profiles some of them and brakes; ``ranks/`` compares the ranks of a job;
``torchscript.py`` lets scripts call patched functions; ``tensors/`` runs and compares the calls of ``patchcore
verify``; ``support.py`` is the entry point.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from patchcore_torch.training.loops import TrainingLoop

__all__ = ["TrainingLoop"]


def __getattr__(name: str) -> Any:
    # each process of a run imports this package, and few count steps
    if name == "TrainingLoop":
        from patchcore_torch.training.loops import TrainingLoop

        return TrainingLoop
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
