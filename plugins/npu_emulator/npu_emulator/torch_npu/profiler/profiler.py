"""The profiler itself."""

from __future__ import annotations

import enum
import json
import os
import socket
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Callable, Optional

# By name: torch.profiler's own attributes may become those of this module (torch_npu.contrib.transfer_to_npu).
from torch.profiler import ProfilerAction
from torch.profiler import ProfilerActivity as TorchActivity
from torch.profiler import profile as torch_profile
from torch.profiler import schedule as torch_schedule

from npu_emulator.private_torch import KinetoProfile as TorchKinetoProfile
from npu_emulator.torch_npu.npu._refusals import refuse
from npu_emulator.torch_npu.profiler.experimental_config import ExportType, _ExperimentalConfig
from patchcore.plugin import write_whole

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "_KinetoProfile",
    "analyse",
    "profile",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]

#: Where CANN's tools write by default.
WORK_PATH = "ASCEND_WORK_PATH"
#: The key in every trace that says where it comes from.
SOURCE = "npu_emulator"
EMULATED = "the NPU is emulated: all times are the CPU's"


class ProfilerActivity(enum.Enum):
    """The activities whose times are taken."""

    CPU = "CPU"
    NPU = "NPU"


def supported_activities() -> set[ProfilerActivity]:
    """Return the supported values; times of the NPU are those that the CPU needs for its work."""
    return set(ProfilerActivity)


def schedule(
    wait: int, active: int, warmup: int = 0, repeat: int = 0, skip_first: int = 0
) -> Callable[[int], ProfilerAction]:
    """Return the schedule for :class:`profile`: ``torch.profiler.schedule`` with torch_npu's order of arguments.

    Args:
        wait: how many steps to do nothing.
        active: how many to record, after that.
        warmup: how many to throw away, between the two.
        repeat: how often; 0 to the end.
        skip_first: how many steps to leave out at first.
    """
    return torch_schedule(wait=wait, warmup=warmup, active=active, repeat=repeat, skip_first=skip_first)


class _Emulated(TorchKinetoProfile):
    """The differences of both profilers to torch's."""

    def __init__(
        self,
        *,
        activities: Optional[Iterable[ProfilerActivity]] = None,
        experimental_config: Optional[_ExperimentalConfig] = None,
        **options: Any,
    ) -> None:
        unknown = set(activities or ()) - supported_activities()
        if unknown:
            names = ", ".join(map(str, unknown))
            raise ValueError(
                f"torch_npu.profiler: activities are of torch_npu.profiler.ProfilerActivity, found {names}"
            )
        self.npu_config = experimental_config or _ExperimentalConfig()
        super().__init__(activities=[TorchActivity.CPU], **options)

    def start_trace(self) -> None:
        super().start_trace()
        self.add_metadata(SOURCE, EMULATED)


class _KinetoProfile(_Emulated):
    """Profiler without steps: ``torch.profiler._KinetoProfile`` on the CPU.

    Args:
        activities: of :class:`ProfilerActivity`.
        experimental_config: the measurements to take on the hardware.
        options: as ``torch.profiler._KinetoProfile`` takes them.
    """


class profile(_Emulated, torch_profile):
    """Profiler: ``torch.profiler.profile`` on the CPU.

    Args:
        activities: of :class:`ProfilerActivity`.
        schedule: gives the action of each step, see :func:`schedule`.
        on_trace_ready: called with this object when a trace is recorded, such as :func:`tensorboard_trace_handler`.
        experimental_config: the measurements to take on the hardware.
        options: as ``torch.profiler.profile`` takes them: ``record_shapes``, ``profile_memory``, ``with_stack``, ...
    """


def tensorboard_trace_handler(
    dir_name: Optional[str] = None,
    worker_name: Optional[str] = None,
    analyse_flag: bool = True,
    async_mode: bool = False,
) -> Callable[[profile], None]:
    """Return the function that writes each trace to a folder of its own, laid out as torch_npu does it.

    That is ``<dir_name>/<worker_name>_<time>_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json``, a trace in Chrome's
    format, beside ``profiler_metadata.json``.

    Args:
        dir_name: the directory; ``$ASCEND_WORK_PATH/profiling_data``, else the current one by default.
        worker_name: host and process by default.
        analyse_flag: whether to write the trace, and not only torch_npu's raw data, of which there are none.
        async_mode: whether to write in another process; it is always done in this one.

    Raises:
        NotEmulated: when called for a profiler that exports nothing but databases.
    """

    def write(profiler: profile) -> None:
        if not analyse_flag:
            return
        if ExportType.Text not in profiler.npu_config.export_type:
            refuse("torch_npu.profiler.ExportType.Db", "databases hold measurements of the hardware")
        folder = _new_folder(_output_directory(dir_name), worker_name or _worker())
        output = folder / "ASCEND_PROFILER_OUTPUT"
        output.mkdir()
        profiler.export_chrome_trace(str(output / "trace_view.json"))
        write_whole(folder / "profiler_metadata.json", json.dumps({SOURCE: EMULATED}))

    return write


def _output_directory(dir_name: Optional[str]) -> Path:
    if dir_name is not None:
        return Path(dir_name)
    work_path = os.environ.get(WORK_PATH)
    return Path(work_path) / "profiling_data" if work_path else Path.cwd()


def _worker() -> str:
    return f"{socket.gethostname()}_{os.getpid()}"


def _new_folder(directory: Path, worker: str) -> Path:
    """Make a folder named by the time to the millisecond, as torch_npu names it.

    Two short cycles may end within one millisecond: the second one takes the next free one.
    """
    now = time.time_ns() // 1_000_000
    while True:
        stamp = time.strftime("%Y%m%d%H%M%S", time.localtime(now // 1000)) + f"{now % 1000:03d}"
        folder = directory / f"{worker}_{stamp}_ascend_pt"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            now += 1
        else:
            return folder


def analyse(profiler_path: str, max_process_number: int = 1) -> None:
    """Raise: there are no raw data to make a trace of.

    Raises:
        NotEmulated: always.
    """
    refuse("torch_npu.profiler.profiler.analyse", "the emulated profiler writes traces directly and keeps no raw data")
