"""Stands in for ``apex`` where that is not installed: ``apex.amp`` and nothing else of it."""

from __future__ import annotations

import sys
from typing import Any

from torch_npu_patches.transfer_to_npu.apex import amp

__all__ = ["MODULE", "amp"]

#: This module, for a change to name.
MODULE = sys.modules[__name__]


def __getattr__(name: str) -> Any:
    """Raise the error of an import for what apex has and the stand-in lacks.

    Raises:
        ModuleNotFoundError: for every name but special ones.
    """
    if name.startswith("__"):
        raise AttributeError(f"module 'apex' has no attribute {name!r}")
    missing = f"apex.{name}"
    raise ModuleNotFoundError(f"No module named {missing!r}: only apex.amp is stood in for", name=missing)
