"""The ``TorchDispatchMode`` that shows each operator of a module to the recorder."""

from __future__ import annotations

from typing import Any, Callable

from patchcore_torch.private_torch import TorchDispatchMode

__all__ = ["OperatorMode"]


class OperatorMode(TorchDispatchMode):
    """Runs every operator as it is, and then calls a function with its name and result.

    Args:
        saw: the function.
    """

    def __init__(self, saw: Callable[[str, Any], None]) -> None:
        super().__init__()
        self._saw = saw

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self._saw(func.name(), result)
        return result
