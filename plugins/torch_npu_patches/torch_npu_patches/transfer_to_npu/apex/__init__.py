"""Stands in for ``apex`` where that is not installed: ``apex.amp`` and nothing else of it."""

from __future__ import annotations

import sys

from torch_npu_patches.transfer_to_npu.apex import amp

__all__ = ["MODULE", "amp"]

#: This module, for a change to name.
MODULE = sys.modules[__name__]
