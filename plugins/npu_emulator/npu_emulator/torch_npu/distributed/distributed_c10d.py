"""``torch_npu.distributed.distributed_c10d``, where libraries look for the question whether there is HCCL."""

from __future__ import annotations

from typing import NoReturn

from npu_emulator.device.hccl import is_available
from npu_emulator.torch_npu.npu._refusals import missing_name

__all__ = ["is_hccl_available"]


def is_hccl_available() -> bool:
    """Return whether processes can communicate over the emulated HCCL, as ``torch.distributed.is_hccl_available``."""
    return is_available()


def __getattr__(name: str) -> NoReturn:
    raise missing_name("torch_npu.distributed.distributed_c10d", name)
