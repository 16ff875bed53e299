"""The base classes of all patches of the API."""

from __future__ import annotations

import functools
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Optional

from mx_driving_compat.messages.results import PatchResult, PatchStatus
from mx_driving_compat.patches.application import Ordered, Outcome, Run, Unit
from mx_driving_compat.patches.mentions import mentioned_packages
from mx_driving_compat.patches.paths import Libraries
from patchcore import Call, DeclarationError, PatchcoreError
from patchcore import Patch as CorePatch
from patchcore.plugin import APPLIED, PENDING, Change, describe_error, signature_of

__all__ = ["BasePatch", "SinglePatch", "agrees", "core_patch", "result_of", "unit_of"]


_UNUSABLE = re.compile(r"[^\w.+-]+")
#: A patch that declares nothing but its place in a run. A copy of it is not checked again.
_BLANK = Ordered.of(CorePatch("patch"))


class BasePatch(ABC):
    """A patch that a patcher can apply. A subclass of a migration defines ``name`` and :meth:`apply`."""

    #: Whether it is in force.
    is_applied = False

    @property
    @abstractmethod
    def name(self) -> str:
        """Its name in ``disable`` and in messages."""

    @property
    def module(self) -> str:
        """The top-level package that it changes; empty if the name does not contain it."""
        return self.name.partition(".")[0] if "." in self.name else ""

    @abstractmethod
    def apply(self) -> PatchResult:
        """Apply this patch alone."""

    def get_info(self, show_diff: bool = False) -> str:
        """Return a line about it; with ``show_diff`` also the difference to the original, if that is known."""
        return self.name

    def misfit(self) -> str:
        """Return why it does not fit here, empty if nothing is known against it; nothing is imported to find out.

        Not in mx_driving.patcher.
        """
        return ""

    def unit(self, libraries: Optional[Libraries] = None) -> Unit:
        """Return the patch of patchcore that stands for it. By default that calls :meth:`apply`.

        Args:
            libraries: answers that other patches of the same run have got.
        """
        libraries = libraries or Libraries()

        def run(module: Any, options: Any) -> None:
            result = self.apply()
            if isinstance(result, PatchResult) and result.status is not PatchStatus.APPLIED:
                kind = _Skipped if result.status is PatchStatus.SKIPPED else _Failed
                raise kind(result.reason or result.status.value)

        module = self.module if self.module and libraries.is_there(self.module) else "sys"
        call = Call(run, module=module, roots=mentioned_packages(type(self).apply))
        return Unit(core_patch(self.name, call), [self], skips=(_Skipped,))


class _Skipped(PatchcoreError):
    """Raised if a migration's own class of patch returns that it was skipped."""


class _Failed(PatchcoreError):
    """Raised if a migration's own class of patch returns that it failed."""


class SinglePatch(BasePatch):
    """A patch that becomes one patch of patchcore."""

    def __init__(self) -> None:
        self._run: Optional[Run] = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for another process, in which the patch is not applied."""
        state = {name: value for name, value in self.__dict__.items() if name != "is_applied"}
        return {**state, "_run": None}

    def apply(self) -> PatchResult:
        """Apply this patch alone, until :meth:`revert`; a second call changes nothing."""
        if self.is_applied:
            return result_of(self, Outcome(APPLIED))
        self.revert()  # aliases may have been changed although the target does not exist
        run = self._run = Run([unit_of(self)])
        ((_, outcome),) = run.apply()
        self.is_applied = outcome.status == APPLIED
        if not any(change.status in (APPLIED, PENDING) for record in run.records() for change in record.changes):
            self.revert()
        return result_of(self, outcome)

    def revert(self) -> None:
        """Undo the changes of :meth:`apply`. Not in mx_driving.patcher."""
        if self._run is not None:
            self._run.revert()
        self._run, self.is_applied = None, False


def result_of(patch: BasePatch, outcome: Outcome) -> PatchResult:
    """Return the outcome of a patch in the form of the API."""
    return PatchResult(PatchStatus(outcome.status), patch.name, patch.module, outcome.reason or None)


def unit_of(patch: BasePatch, libraries: Optional[Libraries] = None) -> Unit:
    """Return the unit of a patch; if it is declared wrongly, a unit that fails with the reason.

    Args:
        patch: the patch.
        libraries: answers that other patches of the same run have got.
    """
    try:
        return patch.unit(libraries)
    except DeclarationError as error:
        return Unit(core_patch(patch.name), [patch], prepare=functools.partial(_fail, error))


def _fail(error: Exception) -> None:
    raise error


def agrees(precheck: Optional[Callable[..., bool]], arguments: Mapping[str, Any]) -> bool:
    """Call a ``precheck`` with the arguments that it takes by name; return true if there is none.

    Raises:
        DeclarationError: it raises; that is a bug in it, not a reason to skip the patch.
    """
    if precheck is None:
        return True
    try:
        taken = {name: arguments[name] for name in signature_of(precheck).parameters if name in arguments}
        return bool(precheck(**taken))
    except Exception as error:
        raise DeclarationError(f"precheck error: {describe_error(error)}") from error


def core_patch(name: str, *changes: Change) -> CorePatch:
    """Return the patch of patchcore for a patch of the migration, which declares nothing but its changes.

    Args:
        name: of the migration's patch; characters that a name of patchcore cannot have are replaced.
        changes: none of them stands for several.
    """
    return _BLANK.evolve(name=_UNUSABLE.sub("_", name) or "patch", changes=changes)
