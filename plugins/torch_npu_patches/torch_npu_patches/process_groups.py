"""Advice on a process group that has no backend for NPU tensors, such as one of gloo."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torch_npu_patches.transfer_to_npu.devices import NPU
from torch_npu_patches.transfer_to_npu.groups import PREFIX

if TYPE_CHECKING:
    from patchcore import Plan

__all__ = ["describe_missing_backend"]

#: The message of ``ProcessGroup::getBackend`` in torch/csrc/distributed/c10d/ProcessGroup.hpp.
_MESSAGE = f"No backend type associated with device type {NPU}"


def describe_missing_backend(plan: Plan) -> Iterator[str]:
    """Yield which backend serves NPU tensors, if a collective without one has ended the program.

    gloo serves tensors of GPUs, so a program that runs on GPUs meets this error on NPUs only. An error in a process of
    ``torch.multiprocessing.spawn`` ends the program with an exception that quotes it.

    Args:
        plan: the plan that was applied.
    """
    error = getattr(sys, "last_value", None)  # of the program, which Python has shown
    if not isinstance(error, Exception) or _MESSAGE not in str(error):
        return
    is_moved = any(entry.verdict == "apply" for entry in plan if entry.patch.name == f"{PREFIX}.distributed")
    transfer = ', or "nccl", which the transfer maps to hccl' if is_moved else ""
    yield (
        "the process group has no backend for NPU tensors, and gloo cannot be one: "
        f'init_process_group("hccl"){transfer}'
        f' ("cpu:gloo,{NPU}:hccl" serves CPU tensors too)'
    )
