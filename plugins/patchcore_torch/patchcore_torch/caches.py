"""No compiled graph with a patched function of torch is kept for later, nor taken from before.

torch keeps what it has compiled on disk, under a key made of the graph that dynamo has traced (torch 2.13,
``torch/_functorch/_aot_autograd/autograd_cache.py``). Functions of torch are in that graph by name, whatever they do: a
patched one would run as what was compiled of the original, and the original, in a later process, as what was compiled
of the patch. That cache is off as long as one is patched. The next one, of what autograd has made of the graph, stays.
"""

from __future__ import annotations

import weakref
from types import FunctionType
from typing import Any, Optional

from patchcore.objects.modules import executed_module
from patchcore_torch import private_torch

__all__ = ["hold", "release", "settle"]

_held: weakref.WeakSet[FunctionType] = weakref.WeakSet()
#: What the configuration said before; ``None`` where it has not been changed.
_before: Optional[bool] = None
#: Whether it is still to be changed: importing it breaks an import of torch that has not ended.
is_pending = False


def hold(function: FunctionType) -> None:
    """Switch the cache off: ``function`` stands for one of torch.

    Args:
        function: a wrapper, or a function whose body is written.
    """
    global is_pending
    _held.add(function)
    is_pending = _before is None
    settle()


def release(function: Optional[FunctionType]) -> None:
    """Switch the cache on again, if ``function`` was the last one.

    Args:
        function: as for :func:`hold`; ``None`` if it is gone.
    """
    global _before, is_pending
    if function is not None:
        _held.discard(function)
    if not _held:
        if _before is not None:
            private_torch.functorch_config.enable_autograd_cache = _before
        _before, is_pending = None, False


def settle() -> None:
    """Change the configuration, if that is pending and torch has been imported to the end."""
    global _before, is_pending
    if is_pending and executed_module("torch") is not None:
        config: Any = private_torch.functorch_config
        _before = getattr(config, "enable_autograd_cache", None)  # since torch 2.4
        if _before is not None:
            config.enable_autograd_cache = False
        is_pending = False
