"""``torch_npu.distributed``: the names for process groups of NPUs.

Process groups themselves are made by ``torch.distributed.init_process_group("hccl")``.
"""

from __future__ import annotations

from typing import NoReturn

from npu_emulator.device.hccl import is_available
from npu_emulator.torch_npu.distributed import distributed_c10d
from npu_emulator.torch_npu.distributed.distributed_c10d import is_hccl_available
from npu_emulator.torch_npu.npu._refusals import missing_name

__all__ = ["distributed_c10d", "is_available", "is_hccl_available"]


def __getattr__(name: str) -> NoReturn:
    raise missing_name("torch_npu.distributed", name)
