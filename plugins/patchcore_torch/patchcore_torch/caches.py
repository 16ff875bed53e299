"""Switches off the cache of compiled graphs while a function of torch is patched.

torch stores compiled graphs on disk. The key is computed from the graph that dynamo traced (torch 2.13,
``torch/_functorch/_aot_autograd/autograd_cache.py``), and that graph contains functions of torch by name only. So a
process with a patch would load a graph that was compiled without it, and a later process without the patch would load
a graph that was compiled with it. The cache behind this one stays on: its key is computed from the operators that the
functions call.
"""

from __future__ import annotations

import weakref
from types import FunctionType
from typing import Any, Optional

from patchcore_torch import later, private_torch

__all__ = ["hold", "release"]

_held: weakref.WeakSet[FunctionType] = weakref.WeakSet()
#: The value of ``enable_autograd_cache`` before it was changed; ``None`` while it is unchanged.
_before: Optional[bool] = None


def hold(function: FunctionType) -> None:
    """Switch the cache off, because ``function`` stands for a function of torch.

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
