"""The profilers that steps are recorded with: torch_npu's where it can be imported, else torch's.

Both have one interface: ``torch.profiler`` (torch 1.8.1 and later) and ``torch_npu.profiler``, which mirrors it but for
the names of its activities, its experimental configuration and where its handler writes.
"""

from __future__ import annotations

import importlib
import logging
import os
from typing import Any

from patchcore.plugin import describe_error, find_module, print_message, process_rank
from patchcore_torch.training.options import ProfilingOptions

__all__ = ["Recorder", "make_recorder"]

logger = logging.getLogger("patchcore")


class Recorder:
    """A profiler that records one cycle: its warm-up steps, then its active ones.

    Args:
        profile: of ``torch.profiler`` or ``torch_npu.profiler``, with a schedule of one cycle.
        place: where it writes, for messages.
    """

    def __init__(self, profile: Any, place: str) -> None:
        self.profile = profile
        self.place = place

    def start(self) -> None:
        """Begin with the next step."""
        self.profile.start()

    def step(self) -> None:
        """Note that a step has ended; the last one of the cycle writes the trace."""
        self.profile.step()

    def stop(self) -> None:
        """End, and write the records that are not written."""
        self.profile.stop()


def make_recorder(options: ProfilingOptions, worker: str, first_step: int) -> Recorder:
    """Return a recorder for one cycle.

    Args:
        options: of the recording.
        worker: names this process among those that write to the same directory.
        first_step: number of the first step that is recorded.
    """
    torch_npu = _torch_npu()
    if torch_npu is not None:
        return _npu_recorder(torch_npu.profiler, options, worker)
    return _torch_recorder(options, worker, first_step)


def _torch_npu() -> Any:
    """Return torch_npu, real or emulated, ``None`` where it cannot be imported."""
    if not find_module("torch_npu"):
        return None
    try:
        importlib.import_module("torch_npu.profiler")
        return importlib.import_module("torch_npu")
    except Exception as error:  # it is installed, and the libraries of the device are not
        logger.warning("torch_npu cannot be imported, torch.profiler is used: %s", describe_error(error))
        return None


def _npu_recorder(profiler: Any, options: ProfilingOptions, worker: str) -> Recorder:
    activities = [profiler.ProfilerActivity.NPU]
    if options.level:
        activities.append(profiler.ProfilerActivity.CPU)
    level = getattr(profiler.ProfilerLevel, f"Level{options.level}")
    profile = profiler.profile(
        activities=activities,
        experimental_config=profiler._ExperimentalConfig(profiler_level=level),
        # torch_npu's documentation allows no other callables than these
        schedule=profiler.schedule(wait=0, warmup=options.warmup, active=options.active, repeat=1),
        on_trace_ready=profiler.tensorboard_trace_handler(options.path, worker_name=worker),
        **_details(options),
    )
    return Recorder(profile, os.path.join(options.path, f"{worker}_*_ascend_pt"))


def _torch_recorder(options: ProfilingOptions, worker: str, first_step: int) -> Recorder:
    from torch import profiler

    accelerators = _accelerators(profiler.ProfilerActivity)
    activities = list(accelerators)
    if options.level or not accelerators:
        activities.append(profiler.ProfilerActivity.CPU)
    if not accelerators and not process_rank():
        print_message("profiling: there is no accelerator here, the CPU is profiled")
    # TensorBoard's plugin takes the number for that of a recording of this worker
    place = os.path.join(options.path, f"{worker}.{first_step}.pt.trace.json")

    def write(profile: Any) -> None:
        os.makedirs(options.path, exist_ok=True)
        profile.export_chrome_trace(place)

    profile = profiler.profile(
        activities=activities,
        schedule=profiler.schedule(wait=0, warmup=options.warmup, active=options.active, repeat=1),
        on_trace_ready=write,
        **_details(options),
    )
    return Recorder(profile, place)


def _details(options: ProfilingOptions) -> dict[str, bool]:
    return {
        "record_shapes": options.level >= 1,
        "with_stack": options.level >= 2,
        "profile_memory": options.level >= 2,
    }


def _accelerators(activity: Any) -> list[Any]:
    """Return the activities of the devices that are there."""
    import torch

    kinds = (("CUDA", "cuda"), ("XPU", "xpu"))
    found = []
    for name, module in kinds:
        device = getattr(torch, module, None)
        if hasattr(activity, name) and device is not None and device.is_available():
            found.append(getattr(activity, name))
    return found
