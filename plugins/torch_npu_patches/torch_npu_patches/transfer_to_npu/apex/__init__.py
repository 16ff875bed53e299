"""Stands in for ``apex`` where that is not installed: ``apex.amp`` and nothing else of it."""

from __future__ import annotations

import sys
from typing import Any

from torch_npu_patches.transfer_to_npu.apex import amp

__all__ = ["MODULE", "amp"]

#: This module, for a change to name.
MODULE = sys.modules[__name__]


#: The modules of apex without a counterpart (apex 0.1, https://github.com/NVIDIA/apex).
_MISSING = (
    "contrib",
    "fp16_utils",
    "fused_dense",
    "mlp",
    "multi_tensor_apply",
    "normalization",
    "optimizers",
    "parallel",
    "pyprof",
    "reparameterization",
    "transformer",
    "RNN",
)


def __getattr__(name: str) -> Any:
    """Raise the error of an import for a name that apex has and the stand-in lacks.

    Programs look at all modules for an attribute (``hasattr(module, "_check_balance")``, mmcv 1.7.2): any other name
    is an attribute that a module lacks.

    Raises:
        ModuleNotFoundError: for a part of apex.
        AttributeError: for any other name.
    """
    if name not in _MISSING:
        raise AttributeError(f"module 'apex' has no attribute {name!r}")
    missing = f"apex.{name}"
    raise ModuleNotFoundError(f"No module named {missing!r}: only apex.amp is stood in for", name=missing)
