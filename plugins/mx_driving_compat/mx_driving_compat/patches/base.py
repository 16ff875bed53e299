"""What all patches of the API have in common."""

from __future__ import annotations

import functools
import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Optional

from mx_driving_compat.messages.results import PatchResult, PatchStatus
from mx_driving_compat.patches.application import Outcome, Run, Unit
from mx_driving_compat.patches.mentions import mentioned_packages
from mx_driving_compat.patches.paths import is_there
from patchcore.declare.changes import Call
from patchcore.declare.patch import Patch as CorePatch
from patchcore.errors import DeclarationError, PatchcoreError, describe_error
from patchcore.report import APPLIED, PENDING

__all__ = ["BasePatch", "SinglePatch", "agrees", "core_name", "result_of", "unit_of"]


class BasePatch(ABC):
    """What a patcher can apply. A class of one's own gives ``name`` and :meth:`apply`."""

    #: Whether it is in force.
    is_applied = False

    @property
    @abstractmethod
    def name(self) -> str:
        """What it is called in ``disable`` and in messages."""

    @property
    def module(self) -> str:
        """The top-level package it is for, empty when the name does not say."""
        return self.name.partition(".")[0] if "." in self.name else ""

    @abstractmethod
    def apply(self) -> PatchResult:
        """Apply this patch alone."""

    def get_info(self, show_diff: bool = False) -> str:
        """Return a line about it; with ``show_diff`` also what it changes, where that is known."""
        return self.name

    def misfit(self) -> str:
        """Return why it does not fit here, as far as that shows without importing anything; ``""`` where nothing does.

        Not in mx_driving.patcher.
        """
        return ""

    def unit(self) -> Unit:
        """Return the patch of the core that stands for it; one of a foreign class is its :meth:`apply`, run by hand."""

        def run(module: Any, options: Any) -> None:
            result = self.apply()
            if isinstance(result, PatchResult) and result.status is not PatchStatus.APPLIED:
                kind = _Skipped if result.status is PatchStatus.SKIPPED else _Failed
                raise kind(result.reason or result.status.value)

        module = self.module if self.module and is_there(self.module) else "sys"
        call = Call(run, module=module, roots=mentioned_packages(type(self).apply))
        return Unit(CorePatch(core_name(self.name), [call]), [self], skips=(_Skipped,))


class _Skipped(PatchcoreError):
    """A patch of a foreign class has said that it does not fit."""


class _Failed(PatchcoreError):
    """A patch of a foreign class has said that it failed."""


class SinglePatch(BasePatch):
    """A patch that is one patch of the core."""

    def __init__(self) -> None:
        self._run: Optional[Run] = None

    def __getstate__(self) -> dict[str, Any]:
        """Return what a process needs that has not applied it."""
        state = {name: value for name, value in self.__dict__.items() if name != "is_applied"}
        return {**state, "_run": None, "_original": None}

    def apply(self) -> PatchResult:
        """Apply this patch alone; it stays applied until :meth:`revert`. Again, it changes nothing."""
        if self.is_applied:
            return result_of(self, Outcome(PatchStatus.APPLIED))
        self.revert()  # what was done to aliases of a target that was not there
        run = self._run = Run([unit_of(self)])
        ((_, outcome),) = run.apply()
        self.is_applied = outcome.status is PatchStatus.APPLIED
        if not any(change.status in (APPLIED, PENDING) for record in run.records() for change in record.changes):
            self.revert()
        return result_of(self, outcome)

    def revert(self) -> None:
        """Restore what :meth:`apply` has changed. Not in mx_driving.patcher."""
        if self._run is not None:
            self._run.revert()
        self._run, self.is_applied = None, False


def result_of(patch: BasePatch, outcome: Outcome) -> PatchResult:
    """Return what became of a patch as the API has it."""
    return PatchResult(outcome.status, patch.name, patch.module, outcome.reason or None)


def unit_of(patch: BasePatch) -> Unit:
    """Return the unit of a patch; one that fails where none can be made of it."""
    try:
        return patch.unit()
    except DeclarationError as error:
        return Unit(CorePatch(core_name(patch.name)), [patch], prepare=functools.partial(_fail, error))


def _fail(error: Exception) -> None:
    raise error


def agrees(precheck: Optional[Callable[..., bool]], arguments: Mapping[str, Any]) -> bool:
    """Call a ``precheck`` with those of the arguments that it takes by name; true where there is none.

    Raises:
        DeclarationError: it raises; that is a bug in it, not a reason to skip the patch.
    """
    if precheck is None:
        return True
    try:
        taken = {name: arguments[name] for name in inspect.signature(precheck).parameters if name in arguments}
        return bool(precheck(**taken))
    except Exception as error:
        raise DeclarationError(f"precheck error: {describe_error(error)}") from error


def core_name(text: str) -> str:
    """Return a name for a patch of the core."""
    return re.sub(r"[^\w.+-]+", "_", text) or "patch"
