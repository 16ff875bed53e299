"""Actions that have to wait until torch has been imported.

Importing further modules of torch while ``import torch`` is running breaks that import. Actions that need such modules
run when the next patch of torch is marked, or at the next call of a patched function of torch.
"""

from __future__ import annotations

from typing import Callable

from patchcore.plugin import executed_module

__all__ = ["catch_up", "do", "waiting"]

waiting: list[Callable[[], object]] = []


def do(action: Callable[[], object]) -> None:
    """Call ``action`` now if the import of torch has finished, else later.

    Args:
        action: may be called after the patch that it belongs to was reverted.
    """
    waiting.append(action)
    catch_up()


def catch_up() -> None:
    """Call the actions that wait, if the import of torch has finished."""
    if executed_module("torch") is not None:
        while waiting:
            waiting.pop(0)()
