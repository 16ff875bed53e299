"""What is to happen when this process ends by itself."""

from __future__ import annotations

import sys
from typing import Any, Callable

__all__ = ["at_end", "leave_process_groups"]


def at_end(function: Callable[[], Any]) -> None:
    """Call ``function`` once when this process ends, also a child of multiprocessing, which runs no ``atexit``.

    Args:
        function: not called in processes that this one forks.
    """
    from multiprocessing.util import Finalize  # for processes that make steps only

    # multiprocessing ends what it has started after calling its finalizers
    Finalize(None, function, exitpriority=100)


def leave_process_groups() -> None:
    """Destroy torch's process groups, if there are any: where they outlive the program, torch complains."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()
