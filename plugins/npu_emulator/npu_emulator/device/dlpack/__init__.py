"""The core in pure Python: NPU tensors are CPU memory that DLPack relabels, and operators run on relabelled aliases.

It needs nothing compiled. In exchange it uses private functions of torch, costs some microseconds per operator, and
cannot resize storages, allocate pinned memory in C++, or let the CPU refuse an NPU's generator.
"""

from __future__ import annotations

from npu_emulator.device.dlpack.core import DlpackCore

__all__ = ["DlpackCore"]
