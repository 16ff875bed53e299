"""The options of measurements on hardware, which are only recorded here. Names and values are torch_npu's (2.6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional, Union

__all__ = [
    "AiCMetrics",
    "ExportType",
    "HostSystem",
    "ProfilerLevel",
    "_ExperimentalConfig",
    "supported_ai_core_metrics",
    "supported_export_type",
    "supported_profiler_level",
]


class ProfilerLevel:
    """How much to measure."""

    Level0 = "Level0"
    Level1 = "Level1"
    Level2 = "Level2"
    Level_none = "Level_none"


class AiCMetrics:
    """The measurements of the cores."""

    PipeUtilization = "ACL_AICORE_PIPE_UTILIZATION"
    ArithmeticUtilization = "ACL_AICORE_ARITHMETIC_UTILIZATION"
    Memory = "ACL_AICORE_MEMORY_BANDWIDTH"
    MemoryL0 = "ACL_AICORE_L0B_AND_WIDTH"
    MemoryUB = "ACL_AICORE_MEMORY_UB"
    ResourceConflictRatio = "ACL_AICORE_RESOURCE_CONFLICT_RATIO"
    L2Cache = "ACL_AICORE_L2_CACHE"
    MemoryAccess = "ACL_AICORE_MEMORY_ACCESS"
    AiCoreNone = "ACL_AICORE_NONE"


class ExportType:
    """The files to write."""

    Db = "db"
    Text = "text"


class HostSystem:
    """The measurements of the host."""

    CPU = "cpu"
    MEM = "mem"
    DISK = "disk"
    NETWORK = "network"
    OSRT = "osrt"


def _values(names: type) -> set[str]:
    return {value for name, value in vars(names).items() if not name.startswith("__")}


def supported_profiler_level() -> set[str]:
    """Return the values of :class:`ProfilerLevel`."""
    return _values(ProfilerLevel)


def supported_ai_core_metrics() -> set[str]:
    """Return the values of :class:`AiCMetrics`."""
    return _values(AiCMetrics)


def supported_export_type() -> set[str]:
    """Return the values of :class:`ExportType`."""
    return _values(ExportType)


class _ExperimentalConfig:
    """Options of the measurement; only ``export_type`` is more than recorded here.

    Args:
        profiler_level: of :class:`ProfilerLevel`.
        aic_metrics: of :class:`AiCMetrics`.
        l2_cache: whether to measure the cache.
        msprof_tx: whether to take marks of ``torch.npu.mstx``; they always are.
        data_simplification: whether to delete raw data; there are none.
        record_op_args: whether to take arguments of operators.
        op_attr: whether to take attributes of operators.
        gc_detect_threshold: from how many milliseconds on to take Python's garbage collections.
        export_type: of :class:`ExportType`, or several.
        host_sys: of :class:`HostSystem`, several.
        mstx_domain_include: domains of marks to take.
        mstx_domain_exclude: domains of marks to leave out.
        sys_io: whether to measure network and bus.
        sys_interconnection: whether to measure connections between devices.

    Raises:
        ValueError: level, metrics or type of export do not exist (torch_npu prints a warning and takes the default).
    """

    def __init__(
        self,
        profiler_level: str = ProfilerLevel.Level0,
        aic_metrics: str = AiCMetrics.AiCoreNone,
        l2_cache: bool = False,
        msprof_tx: bool = False,
        data_simplification: Optional[bool] = True,
        record_op_args: bool = False,
        op_attr: bool = False,
        gc_detect_threshold: Optional[float] = None,
        export_type: Union[str, Sequence[str], None] = None,
        host_sys: Optional[Sequence[str]] = None,
        mstx_domain_include: Optional[Sequence[str]] = None,
        mstx_domain_exclude: Optional[Sequence[str]] = None,
        sys_io: bool = False,
        sys_interconnection: bool = False,
    ) -> None:
        if isinstance(export_type, str):
            export_type = [export_type]
        self.profiler_level = profiler_level
        self.aic_metrics = aic_metrics
        self.l2_cache = l2_cache
        self.msprof_tx = msprof_tx
        self.data_simplification = data_simplification
        self.record_op_args = record_op_args
        self.op_attr = op_attr
        self.gc_detect_threshold = gc_detect_threshold
        self.export_type = list(export_type or [ExportType.Text])
        self.host_sys = list(host_sys or [])
        self.mstx_domain_include = list(mstx_domain_include or [])
        self.mstx_domain_exclude = list(mstx_domain_exclude or [])
        self.sys_io = sys_io
        self.sys_interconnection = sys_interconnection
        self._check()

    def _check(self) -> None:
        wanted = [
            ("profiler_level", [self.profiler_level], supported_profiler_level()),
            ("aic_metrics", [self.aic_metrics], supported_ai_core_metrics()),
            ("export_type", self.export_type, supported_export_type()),
        ]
        for name, values, supported in wanted:
            for value in values:
                if value not in supported:
                    raise ValueError(f"_ExperimentalConfig: {name} is one of {sorted(supported)}, found {value!r}")
