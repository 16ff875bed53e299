"""The logger of the patcher: single events, and a summary after ``apply()``.

Four settings decide which messages appear:

- the *level* of the logger ``mx_driving.patcher`` (:func:`set_patcher_log_level`);
- the *action* for each kind of event: a level to log at, ``exception``, ``exit`` or ``silent``
  (:func:`configure_patcher_logging`);
- the *summary*: whether, at which level, and which sections (:meth:`PatcherLogger.configure_summary`);
- the *rank* of the process: success is logged by rank 0 only, failure by every rank.

The logger gets a handler, which writes to standard error, at its first record, unless it has one by then.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Optional

import patchcore
from mx_driving_compat.messages.summary import PatchInfo, SummaryConfig, summary_text
from patchcore.plugin import did_you_mean, process_rank

if TYPE_CHECKING:
    from logging import Logger

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

#: The reactions to an event.
LogAction = Literal["debug", "info", "warning", "error", "exception", "exit", "silent"]

LOGGER_NAME = "mx_driving.patcher"

# The levels of the module logging, which takes longer to import than all modules of this package.
_INFO = 20
_LEVELS = {"debug": 10, "info": _INFO, "warning": 30, "error": 40}
_ACTIONS = (*_LEVELS, "exception", "exit", "silent")


class PatchError(patchcore.PatchError):
    """Raised for an event whose action is ``exception``, such as a patch that failed."""


class EventPolicy(NamedTuple):
    """An action as its mode and its level.

    Args:
        mode: the action on failures.
        level: where it is to log, at which level of :mod:`logging`.
    """

    mode: Literal["log", "silent", "exception", "exit"] = "log"
    level: int = _INFO


class _StandardError:
    """Writes to the current ``sys.stderr``: tests and notebooks replace it after a handler was made."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


class PatcherLogger:
    """Logs the outcome of patches; its configuration holds for every ``Patcher`` of the process.

    Methods that configure return the logger, so that they can be chained.
    """

    def __init__(self) -> None:
        self._policies = dict.fromkeys(("on_apply", "on_skip"), EventPolicy("log", _INFO))
        self._policies.update(dict.fromkeys(("on_fail", "on_error"), EventPolicy("log", _LEVELS["warning"])))
        self._summary = SummaryConfig()
        self._rank: Optional[int] = None  # None: read the environment each time, as a launcher may set it late
        self._buffered = True
        self._events = _no_events()
        self._is_set_up = False
        self._lock = threading.Lock()

    @property
    def rank(self) -> int:
        """The rank that was set, else the one in RANK, LOCAL_RANK or a variable of MPI or Slurm, else 0."""
        return process_rank() if self._rank is None else self._rank

    @property
    def is_main_process(self) -> bool:
        """True if this is rank 0, the only one that logs success."""
        return self.rank == 0

    def set_rank(self, rank: int) -> PatcherLogger:
        """Set the rank of this process, whatever the environment says."""
        self._rank = rank
        return self

    def set_rank_from_env(self) -> PatcherLogger:
        """Use the rank in the environment again."""
        self._rank = None
        return self

    def configure(
        self,
        on_apply: Optional[LogAction] = None,
        on_skip: Optional[LogAction] = None,
        on_fail: Optional[LogAction] = None,
        on_error: Optional[LogAction] = None,
    ) -> PatcherLogger:
        """Set the actions for events; ``None`` leaves an action as it is.

        Applied and skipped patches are kept for the summary, for which only ``silent`` matters, unless
        :meth:`set_buffer_enabled` turns it off.

        Args:
            on_apply: a patch was applied.
            on_skip: a patch was skipped.
            on_fail: a patch failed.
            on_error: something else went wrong.

        Raises:
            SettingsError: an action is unknown; none is set then.
        """
        given = {"on_apply": on_apply, "on_skip": on_skip, "on_fail": on_fail, "on_error": on_error}
        policies = {event: _policy(event, action) for event, action in given.items() if action is not None}
        self._policies.update(policies)
        return self

    def configure_summary(
        self,
        enabled: Optional[bool] = None,
        level: Optional[int] = None,
        show_applied: Optional[bool] = None,
        show_skipped: Optional[bool] = None,
        show_failed: Optional[bool] = None,
        show_import_events: Optional[bool] = None,
    ) -> PatcherLogger:
        """Set the content of the summary; ``None`` leaves a setting as it is. See :class:`SummaryConfig`."""
        given = (enabled, level, show_applied, show_skipped, show_failed, show_import_events)
        pairs = zip(self._summary, given)
        self._summary = SummaryConfig._make(before if value is None else value for before, value in pairs)
        return self

    def set_level(self, level: int) -> PatcherLogger:
        """Set the level of the logger, for events and the summary."""
        _standard_logger().setLevel(level)
        return self

    def set_buffer_enabled(self, enabled: bool) -> PatcherLogger:
        """Keep outcomes of patches for the summary, or log each at once."""
        self._buffered = enabled
        return self

    # --- events -------------------------------------------------------------------------------------------------------

    def applied(
        self, target: str, package: str = "", patch_name: str = "", extra_info: str = "", reason: str = ""
    ) -> None:
        """Record that a patch was applied. See :class:`PatchInfo` for the arguments."""
        if self._buffered:
            self._keep("applied", PatchInfo(target, package, patch_name, reason, extra_info))
        else:
            self._act("on_apply", _line("Applied", target, reason))

    def skipped(
        self, target: str, reason: str = "", package: str = "", patch_name: str = "", extra_info: str = ""
    ) -> None:
        """Record that a patch was skipped. See :class:`PatchInfo` for the arguments."""
        if self._buffered:
            self._keep("skipped", PatchInfo(target, package, patch_name, reason, extra_info))
        else:
            self._act("on_skip", _line("Skipped", target, reason))

    def failed(
        self, target: str, reason: str = "", package: str = "", patch_name: str = "", extra_info: str = ""
    ) -> None:
        """Record that a patch failed. See :class:`PatchInfo` for the arguments.

        Raises:
            PatchError: the action is ``exception``.
            SystemExit: the action is ``exit``.
        """
        if self._buffered and self._policies["on_fail"].mode not in ("exception", "exit"):
            self._keep("failed", PatchInfo(target, package, patch_name, reason, extra_info))
        else:
            self.failed_now(target, reason)

    def failed_now(self, target: str, reason: str = "") -> None:
        """Record that a patch failed after the summary, in the import that it waited for.

        Raises:
            PatchError: the action is ``exception``.
            SystemExit: the action is ``exit``.
        """
        self._act("on_fail", _line("Failed", target, reason), on_every_rank=True)

    def add_skipped_module(self, module_name: str) -> None:
        """Record that a module was replaced by a stub."""
        self._keep("skipped_modules", module_name)

    def add_injected_import(self, import_path: str) -> None:
        """Record that a name was added to a module."""
        self._keep("injected", import_path)

    def add_replaced_import(self, desc: str) -> None:
        """Record that a module was replaced by another."""
        self._keep("replaced", desc)

    def error(self, message: str) -> None:
        """Report an error on every rank, with the action ``on_error``."""
        self._act("on_error", message, on_every_rank=True)

    def debug(self, message: str) -> None:
        """Log a message on rank 0."""
        self._log_on_main_process("debug", message)

    def info(self, message: str) -> None:
        """Log a message on rank 0."""
        self._log_on_main_process("info", message)

    def warning(self, message: str) -> None:
        """Log a message on rank 0."""
        self._log_on_main_process("warning", message)

    def flush_summary(self) -> None:
        """Log the summary on rank 0, and a line for each failed patch on the others; forget the events."""
        with self._lock:
            events, self._events = self._events, _no_events()
        summary = self._summary
        if not summary.enabled:
            return
        shown = {
            "applied": self._shows("on_apply", summary.show_applied),
            "skipped": self._shows("on_skip", summary.show_skipped),
            "failed": self._shows("on_fail", summary.show_failed),
            "imports": summary.show_import_events,
        }
        if not self.is_main_process:
            level = self._policies["on_fail"].level
            for info in events["failed"] if shown["failed"] else ():
                self._logger().log(level, self._named(_line("Failed", info.target, info.reason)))
        elif self._logger().isEnabledFor(summary.level):
            text = summary_text(events, shown)
            if text:
                self._logger().log(summary.level, text)

    def _shows(self, event: str, chosen: Optional[bool]) -> bool:
        return self._policies[event].mode != "silent" if chosen is None else chosen

    def _keep(self, kind: str, entry: Any) -> None:
        with self._lock:  # an import in another thread may apply a patch
            self._events[kind].append(entry)

    def _act(self, event: str, message: str, *, on_every_rank: bool = False) -> None:
        policy = self._policies[event]
        if policy.mode == "exception":
            raise PatchError(self._named(message))
        if policy.mode == "exit":
            self._logger().error(self._named(message))  # on every rank: each of them ends
            sys.exit(1)
        if policy.mode == "log" and (on_every_rank or self.is_main_process):
            self._logger().log(policy.level, self._named(message))

    def _log_on_main_process(self, level: str, message: str) -> None:
        if self.is_main_process:
            self._logger().log(_LEVELS[level], message)

    def _named(self, message: str) -> str:
        rank = self.rank
        return message if rank == 0 else f"rank {rank}: {message}"

    def _logger(self) -> Logger:
        """Return the logger; give it a handler and a level before its first record, as a user may change it later."""
        logger = _standard_logger()
        with self._lock:
            if not self._is_set_up:
                import logging

                self._is_set_up = True
                if not logger.handlers:
                    handler = logging.StreamHandler(_StandardError())
                    handler.setFormatter(logging.Formatter("[Patcher] %(levelname)s: %(message)s"))
                    logger.addHandler(handler)
                logger.setLevel(logger.level or logging.INFO)
                logger.propagate = False
        return logger


def _standard_logger() -> Logger:
    import logging

    return logging.getLogger(LOGGER_NAME)


def _no_events() -> dict[str, list[Any]]:
    return {kind: [] for kind in ("skipped_modules", "injected", "replaced", "applied", "skipped", "failed")}


def _policy(event: str, action: str) -> EventPolicy:
    if action not in _ACTIONS:
        raise patchcore.SettingsError(
            f"{event}={action!r} is not an action{did_you_mean(str(action), _ACTIONS)}; "
            f"expected one of {', '.join(_ACTIONS)}"
        )
    # the modes besides "log" have the names of their actions
    return EventPolicy("log", _LEVELS[action]) if action in _LEVELS else EventPolicy(action)  # type: ignore[arg-type]


def _line(event: str, target: str, reason: str) -> str:
    return f"{event}: {target}" + (f" ({reason})" if reason else "")


#: The logger of the process.
patcher_logger = PatcherLogger()


def configure_patcher_logging(
    on_apply: Optional[LogAction] = None,
    on_skip: Optional[LogAction] = None,
    on_fail: Optional[LogAction] = None,
    on_error: Optional[LogAction] = None,
) -> PatcherLogger:
    """Set the actions for events; see :meth:`PatcherLogger.configure`.

    ::

        configure_patcher_logging(on_skip="silent", on_fail="exception")
    """
    return patcher_logger.configure(on_apply=on_apply, on_skip=on_skip, on_fail=on_fail, on_error=on_error)


def set_patcher_log_level(level: int) -> None:
    """Set the level of the logger, ``logging.WARNING`` for instance."""
    patcher_logger.set_level(level)
