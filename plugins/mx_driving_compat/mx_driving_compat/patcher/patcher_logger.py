"""What the patcher says, and how it is configured."""

from mx_driving_compat.messages.logger import (
    EventPolicy,
    LogAction,
    PatcherLogger,
    PatchError,
    PatchInfo,
    SummaryConfig,
    configure_patcher_logging,
    patcher_logger,
    set_patcher_log_level,
)

__all__ = [
    "EventPolicy",
    "LogAction",
    "PatchError",
    "PatchInfo",
    "PatcherLogger",
    "SummaryConfig",
    "configure_patcher_logging",
    "patcher_logger",
    "set_patcher_log_level",
]
