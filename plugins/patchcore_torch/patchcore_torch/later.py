"""What would break an import of torch that has not ended: it waits for the next call of a patched function of torch."""

from __future__ import annotations

from typing import Callable

from patchcore.objects.modules import executed_module

__all__ = ["catch_up", "do", "waiting"]

waiting: list[Callable[[], object]] = []


def do(action: Callable[[], object]) -> None:
    """Call ``action`` now if torch has been imported to the end, else later.

    Args:
        action: may be called after what it is for has gone again.
    """
    waiting.append(action)
    catch_up()


def catch_up() -> None:
    """Do what waits, if torch has been imported to the end."""
    if executed_module("torch") is not None:
        while waiting:
            waiting.pop(0)()
