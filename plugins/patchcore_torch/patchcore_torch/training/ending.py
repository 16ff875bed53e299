"""Functions that run when this process ends by itself."""

from __future__ import annotations

import atexit
import sys
from typing import Any, Callable

__all__ = ["at_end", "complain_without_steps", "leave_process_groups"]


def complain_without_steps() -> None:
    """Warn at the end of this process of a run if it was to make training steps and has made none."""
    atexit.register(_complain_without_steps)


def _complain_without_steps() -> None:
    from patchcore.plugin import print_message, process_rank, run_role
    from patchcore_torch.training.steps import STEPS

    if not STEPS.finished and not process_rank() and run_role() in ("main", "rank"):
        print_message(
            "this process has counted no training step, neither of a training loop that a plugin knows nor of torch's "
            "Optimizer.step; if its children have none either, name the function that makes a step: "
            "--step my.module:function"
        )


def at_end(function: Callable[[], Any]) -> None:
    """Call ``function`` once when this process ends, also a child of multiprocessing, which runs no ``atexit``.

    Args:
        function: not called in processes that this one forks.
    """
    from multiprocessing.util import Finalize  # for processes that make steps only

    # multiprocessing ends its children after calling its finalizers
    Finalize(None, function, exitpriority=100)


def leave_process_groups() -> None:
    """Destroy torch's process groups, if there are any: where they outlive the program, torch complains."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()
