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

from patchcore_torch import later, private_torch

__all__ = ["hold", "release"]

_held: weakref.WeakSet[FunctionType] = weakref.WeakSet()
#: What the configuration said before; ``None`` where it has not been changed.
_before: Optional[bool] = None


def hold(function: FunctionType) -> None:
    """Switch the cache off: ``function`` stands for one of torch.

    Args:
        function: a wrapper, or a function whose body is written.
    """
    _held.add(function)
    later.do(_switch_off)


def release(function: Optional[FunctionType]) -> None:
    """Switch the cache on again, if ``function`` was the last one.

    Args:
        function: as for :func:`hold`; ``None`` if it is gone.
    """
    global _before
    if function is not None:
        _held.discard(function)
    if not _held:
        if _before is not None:
            private_torch.functorch_config.enable_autograd_cache = _before
        _before = None


def _switch_off() -> None:
    global _before
    if _held and _before is None:
        config: Any = getattr(private_torch, "functorch_config", None)  # since torch 2.0, the cache since 2.4
        _before = getattr(config, "enable_autograd_cache", None)
        if _before is not None:
            config.enable_autograd_cache = False
