"""DistributedDataParallel: refuse at the start a configuration that would fail in the first backward pass.

With ``find_unused_parameters`` or ``static_graph`` the reducer allocates pinned memory for its map of used parameters
(``Reducer::all_reduce_local_used_map`` in ``torch/csrc/distributed/c10d/reducer.cpp``, torch 2.13), see :mod:`.pinned`.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from npu_emulator.errors import NotEmulated
from patchcore.plugin import signature_of

__all__ = ["install"]

_REFUSED = ("find_unused_parameters", "static_graph")


def install() -> None:
    """Let the constructor refuse modules on the NPU with options that the reducer cannot serve."""
    original = DistributedDataParallel.__init__
    signature = signature_of(original)

    @functools.wraps(original)
    def __init__(self: Any, module: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
        given = signature.bind(self, module, *args, **kwargs).arguments
        refused = [name for name in _REFUSED if given.get(name)]
        if refused and any(parameter.device.type == "npu" for parameter in module.parameters()):
            raise NotEmulated(
                f"npu_emulator: DistributedDataParallel({refused[0]}=True) needs pinned memory that the Python core "
                "cannot allocate. Use the compiled core: python -m npu_emulator build."
            )
        original(self, module, *args, **kwargs)

    DistributedDataParallel.__init__ = __init__
