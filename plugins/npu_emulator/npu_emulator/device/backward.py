"""Runs backward passes in the thread that starts them.

torch's autograd engine has a thread for every device of an accelerator. Here they would compute nothing in parallel,
and at the interpreter's exit one that still holds objects of Python aborts the process now and then.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from npu_emulator import private_torch

__all__ = ["register"]


def register() -> None:
    """Keep the engine from using threads of its own. Once per process.

    ``torch.autograd.set_multithreading_enabled(False)`` would do so for the current thread only, so every entry of
    Python into the engine switches it off for the time of the run.
    """
    run = private_torch.engine_run_backward

    @functools.wraps(run)
    def run_in_this_thread(*args: Any, **kwargs: Any) -> Any:
        before = private_torch.is_multithreading_enabled()
        private_torch.set_multithreading_enabled(False)
        try:
            return run(*args, **kwargs)
        finally:
            private_torch.set_multithreading_enabled(before)

    # torch.autograd has a reference of its own, which is the one that backward() and grad() use.
    torch.autograd.graph._engine_run_backward = run_in_this_thread
    torch.autograd._engine_run_backward = run_in_this_thread
