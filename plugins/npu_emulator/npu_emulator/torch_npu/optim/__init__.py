"""``torch_npu.optim``: optimizers that update all parameters at once on the hardware.

Those that compute the same as one of torch's have its arithmetic here, on combined tensors. The others have no
counterpart to be checked against, and raise :class:`npu_emulator.errors.NotEmulated` when they are made.
"""

from __future__ import annotations

from npu_emulator.torch_npu.npu._refusals import refusing_class
from npu_emulator.torch_npu.optim._fused import NpuFusedOptimizerBase
from npu_emulator.torch_npu.optim._optimizers import (
    NpuFusedAdadelta,
    NpuFusedAdam,
    NpuFusedAdamW,
    NpuFusedRMSprop,
    NpuFusedSGD,
)

__all__ = [
    "NpuFusedAdadelta",
    "NpuFusedAdam",
    "NpuFusedAdamP",
    "NpuFusedAdamW",
    "NpuFusedBertAdam",
    "NpuFusedLamb",
    "NpuFusedOptimizerBase",
    "NpuFusedRMSprop",
    "NpuFusedRMSpropTF",
    "NpuFusedSGD",
]

_NO_COUNTERPART = "torch has no optimizer that computes the same, so an emulated one could not be tested"

NpuFusedAdamP = refusing_class("torch_npu.optim.NpuFusedAdamP", _NO_COUNTERPART)
NpuFusedBertAdam = refusing_class("torch_npu.optim.NpuFusedBertAdam", _NO_COUNTERPART)
NpuFusedLamb = refusing_class("torch_npu.optim.NpuFusedLamb", _NO_COUNTERPART)
NpuFusedRMSpropTF = refusing_class("torch_npu.optim.NpuFusedRMSpropTF", _NO_COUNTERPART)
