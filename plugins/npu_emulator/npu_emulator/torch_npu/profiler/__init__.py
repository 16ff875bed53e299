"""``torch_npu.profiler``: torch's profiler, which records the CPU, on which the emulated device runs.

Traces say so: they hold the key ``npu_emulator``. There are no times of NPU kernels to be had, and no metrics of its
cores: options that ask for them are recorded and change nothing.
"""

from __future__ import annotations

from npu_emulator.torch_npu.profiler.experimental_config import (
    AiCMetrics,
    ExportType,
    HostSystem,
    ProfilerLevel,
    _ExperimentalConfig,
    supported_ai_core_metrics,
    supported_export_type,
    supported_profiler_level,
)
from npu_emulator.torch_npu.profiler.profiler import (
    ProfilerAction,
    ProfilerActivity,
    _KinetoProfile,
    profile,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)

__all__ = [
    "AiCMetrics",
    "ExportType",
    "HostSystem",
    "ProfilerAction",
    "ProfilerActivity",
    "ProfilerLevel",
    "_ExperimentalConfig",
    "_KinetoProfile",
    "profile",
    "schedule",
    "supported_activities",
    "supported_ai_core_metrics",
    "supported_export_type",
    "supported_profiler_level",
    "tensorboard_trace_handler",
]
