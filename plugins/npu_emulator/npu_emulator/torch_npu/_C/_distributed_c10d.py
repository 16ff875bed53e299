"""``torch_npu._C._distributed_c10d``: the back end of process groups, for code that names it or its options."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NoReturn, Optional, Union

import torch.distributed as dist
from torch.distributed.constants import default_pg_timeout

from npu_emulator.private_torch import Backend
from npu_emulator.torch_npu.npu._refusals import missing_name, refuse

__all__ = ["ProcessGroupHCCL"]


class _Options(Backend.Options):
    """Options of :class:`ProcessGroupHCCL`, which tune communication between NPUs and change nothing here.

    The attributes are those of torch_npu 2.6 (``torch_npu/csrc/distributed/Init.cpp``).
    """

    def __init__(self) -> None:
        super().__init__("hccl", default_pg_timeout)
        self.op_timeout = default_pg_timeout
        self.is_high_priority_stream = False
        self.global_ranks_in_group: list[int] = []
        self.hccl_config: dict[str, Any] = {}
        self.group_id = ""


class ProcessGroupHCCL(dist.ProcessGroupGloo):
    """A back end for process groups, gloo in truth.

    ``init_process_group("hccl")`` takes ``pg_options=ProcessGroupHCCL.Options()``. The back end of its groups is
    ``torch.distributed.ProcessGroupGloo`` itself.

    Args:
        store: where the processes find each other.
        rank: of this process.
        size: how many processes there are.
        timeout: how long to wait for the others; or options, which have a timeout.
    """

    Options = _Options

    def __init__(
        self, store: dist.Store, rank: int, size: int, timeout: Optional[Union[timedelta, _Options]] = None
    ) -> None:
        if isinstance(timeout, _Options):
            timeout = timeout._timeout
        super().__init__(store, rank, size, timeout or default_pg_timeout)

    def get_hccl_comm_name(self, rankid: int, init_comm: bool = True) -> NoReturn:
        """Raise: see below.

        Raises:
            NotEmulated: always: there is no communicator of HCCL that could have a name.
        """
        refuse("ProcessGroupHCCL.get_hccl_comm_name", "gloo has no communicator of HCCL")


def __getattr__(name: str) -> NoReturn:
    raise missing_name("torch_npu._C._distributed_c10d", name)
