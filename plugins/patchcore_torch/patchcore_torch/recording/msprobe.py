"""Drives ``PrecisionDebugger`` of msprobe (mindstudio-probe on the package index), which then records in our place."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Mapping
from typing import Any, Callable, Optional

from patchcore.plugin import describe_error

__all__ = ["Msprobe"]

logger = logging.getLogger("patchcore")


class Msprobe:
    """Wrapper of :func:`patchcore_torch.training.steps.after_step` that starts, stops and steps the debugger.

    It starts with the first module that is called in a step, which is the argument that msprobe needs (msprobe 26.2,
    ``PrecisionDebugger.start(model)``). An error costs the recording, not the training.

    Args:
        options: arguments of ``PrecisionDebugger``.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = dict(options)
        self.begin()

    def begin(self) -> None:
        """Start with the next step: the patch is being applied."""
        self._debugger: Optional[Any] = None
        self._started = False
        self._failed = False

    def __call__(self, original: Callable[[], None]) -> None:
        original()
        if self._started:
            self._started = False
            self._guard(self._end_step)

    def enter_module(self, module: Any, args: Any) -> None:
        """Start the debugger: a hook of ``register_module_forward_pre_hook`` (torch 2.0 and later)."""
        if not self._started and not self._failed:
            self._started = True
            self._guard(self._begin_step, module)

    enter_module._torchdynamo_disable = True  # type: ignore[attr-defined]

    def _begin_step(self, module: Any) -> None:
        if self._debugger is None:
            self._debugger = importlib.import_module("msprobe.pytorch").PrecisionDebugger(**self.options)
        self._debugger.start(model=module)

    def _end_step(self) -> None:
        assert self._debugger is not None
        self._debugger.stop()
        self._debugger.step()

    def _guard(self, function: Callable[..., None], *arguments: Any) -> None:
        try:
            function(*arguments)
        except Exception as error:
            self._failed, self._started = True, False
            logger.warning("msprobe has failed, training goes on: %s", describe_error(error), exc_info=True)
