"""The patcher of API 2.0: collects patches and changes of imports, applies them in order, logs a summary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Optional, Union

from mx_driving_compat.collecting import recipes
from mx_driving_compat.collecting.info import info_text
from mx_driving_compat.collecting.module_patches import add_module_patches
from mx_driving_compat.collecting.requests import TrainingRequests
from mx_driving_compat.collecting.selection import Chosen, PatchClass, Selection, how_to_choose
from mx_driving_compat.imports.control import ImportControl, Replacement
from mx_driving_compat.messages.logger import patcher_logger
from mx_driving_compat.messages.results import PatchResult, PatchStatus
from mx_driving_compat.patches.application import Outcome, Run, Unit
from mx_driving_compat.patches.base import BasePatch
from mx_driving_compat.predefined import catalogue, transfer
from mx_driving_compat.predefined.changes import units_of
from mx_driving_compat.predefined.classes import ALL, InternalFormat, TransferToNpu, torch_npu_transferred
from patchcore import Patcher as CorePatcher
from patchcore.plugin import APPLIED, SKIPPED

__all__ = ["Patcher", "replace_with"]


class _Told(BasePatch):
    """One line of the summary for several patches."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def apply(self) -> PatchResult:
        return PatchResult(PatchStatus.SKIPPED, self.name, self.module)


class _ReplaceWith:
    """The helper ``replace_with``, see :meth:`Patcher.replace_import`."""

    @staticmethod
    def module(base: Optional[str] = None, **exports: Any) -> Replacement:
        """Return the replacement of a module: another module, given names, or both.

        Args:
            base: dotted name of the other module.
            exports: values by name; they are used instead of those of ``base``.
        """
        return Replacement(base, exports)


replace_with = _ReplaceWith()


class Patcher(TrainingRequests):
    """Applies patches in the order in which they were added.

    ``with patcher:`` applies at entry and restores everything at exit; :meth:`apply` alone leaves them applied.

    Args:
        module_patches: patches of API 1.0, by the name of the module that they are for.
        blacklist: names of patches to disable.
        allow_internal_format: see :meth:`allow_internal_format`.
    """

    def __init__(
        self,
        module_patches: Optional[Mapping[str, Any]] = None,
        blacklist: Iterable[str] = (),
        allow_internal_format: Optional[bool] = None,
    ) -> None:
        super().__init__()
        self.selection = Selection()
        self._allow_internal_format = allow_internal_format
        self.imports = ImportControl()
        self._runs: list[Run] = []
        self._format: Optional[Run] = None  # whether private formats of tensors are allowed
        self._counting: Optional[CorePatcher] = None
        self._applied = False
        if module_patches:
            add_module_patches(self.selection, module_patches, blacklist)
        self.disable(*blacklist)

    @property
    def is_applied(self) -> bool:
        """True if the patches were applied, and not reverted since."""
        return self._applied

    def add(self, *items: Union[PatchClass, BasePatch], options: Optional[Mapping[str, Any]] = None) -> Patcher:
        """Add patches; return the patcher.

        Args:
            items: subclasses of ``Patch``, or patches.
            options: passed to ``patches(options)`` of the classes.

        Raises:
            TypeError: something else is among them.
        """
        for item in items:
            rival = self.selection.add(item, options)
            if rival is not None:
                assert isinstance(item, type)
                patcher_logger.warning(
                    f"Patch '{item.name}' conflicts with already-enabled patch '{rival.name}'.\n"
                    f"{how_to_choose(item, rival)}"
                )
        return self

    def disable(self, *names: Union[str, PatchClass, BasePatch]) -> Patcher:
        """Disable patches; return the patcher.

        Args:
            names: of patches (also those of API 1.0, and of plugins' patches), targets, classes or patches.

        Raises:
            TypeError: something else is among them.
        """
        self.selection.disable(*names)
        return self

    def skip_import(self, *module_paths: str) -> Patcher:
        """Make modules importable that are not installed, from now on; return the patcher.

        Using a name that is imported from them raises :class:`patchcore.StubError`. Installed modules are never hidden.

        Args:
            module_paths: dotted names.
        """
        for name in module_paths:
            reason = self.imports.skip(name)
            if reason:
                patcher_logger.debug(f"skip_import({name!r}) has no effect: {reason}")
            else:
                patcher_logger.add_skipped_module(name)
        return self

    def inject_import(self, source_module: str, class_name: str, target_module: str) -> Patcher:
        """Add a name to a module that lacks it, when the module is imported; return the patcher.

        Args:
            source_module: dotted name of the module that has it.
            class_name: the name.
            target_module: dotted name of the module that gets it.
        """
        reason = self.imports.inject(source_module, class_name, target_module)
        if reason:
            patcher_logger.debug(f"inject_import of {target_module}.{class_name} has no effect: {reason}")
        else:
            patcher_logger.add_injected_import(f"{target_module}.{class_name}")
        return self

    def replace_import(
        self,
        module_path: str,
        replacement: Union[str, Replacement, None] = None,
        *,
        base_module: Optional[str] = None,
        exports: Optional[Mapping[str, Any]] = None,
        **attrs: Any,
    ) -> Patcher:
        """Make the import of a module return another one, from now on; return the patcher.

        Args:
            module_path: dotted name of the module that is replaced.
            replacement: dotted name of the other module, or ``replace_with.module(...)``.
            base_module: the same, by its name.
            exports: names with their objects; they win over those of the other module.
            attrs: the same, as keywords.

        Raises:
            ValueError: both ``replacement`` and ``base_module`` name a module, or a name is exported twice.
        """
        chosen = Replacement.of(module_path, replacement, base_module, exports, attrs)
        reason = self.imports.replace(module_path, chosen)
        if reason:
            patcher_logger.warning(f"replace_import({module_path!r}) has no effect: {reason}")
        else:
            patcher_logger.add_replaced_import(f"{module_path} -> {chosen.base}" if chosen.base else module_path)
        return self

    @property
    def precision_debugger(self) -> None:
        """``None``: steps of training drive the debugger; ``msprobe.pytorch.PrecisionDebugger()`` returns it."""
        return None

    def allow_internal_format(self, allow: bool = True) -> Patcher:
        """Set whether torch_npu may keep tensors in private formats; return the patcher.

        Args:
            allow: whether it may. Without this call it may not. After :meth:`apply`, the setting takes effect at once.
        """
        self._allow_internal_format = allow
        if self._applied:
            self._set_internal_format()
        return self

    def disallow_internal_format(self) -> Patcher:
        """Forbid private formats, which is the default; return the patcher."""
        return self.allow_internal_format(False)

    def print_info(self, diff: bool = False) -> Patcher:
        """Log the patches by library, each with its status; return the patcher.

        An ``[applied]`` patch is in force, a ``[pending]`` one waits for :meth:`apply` or for the import of its
        library, a ``[skipped]`` one does not fit this environment. Reasons follow.

        Args:
            diff: also show the differences to the originals, where their sources are known.
        """
        outcomes = {id(patch): outcome for run in self._runs for patch, outcome in run.outcomes()}
        patcher_logger.info(info_text(self.selection, outcomes, diff=diff))
        return self

    def apply(self, allow_internal_format: Optional[bool] = None) -> Patcher:
        """Apply the patches, in the order in which they were added; return the patcher.

        A patch that does not fit is skipped, one that fails is undone alone, and a summary lists both. Patches of the
        migration import the libraries that they are for, where those are installed and ``precheck`` agrees; predefined
        patches are applied when their library is imported.

        Args:
            allow_internal_format: see the method of this name.

        Raises:
            DeclarationError: two patches that cannot be applied together are.
            PatchError: a patch failed, and logging is configured to raise. Nothing stays applied then, nor if a class
                raises instead of listing its patches.
        """
        if self._applied:
            patcher_logger.warning("Patches already applied")
            return self
        if allow_internal_format is not None:
            self._allow_internal_format = allow_internal_format
        self.put_in_force()
        patcher_logger.flush_summary()
        recipes.leave(self)
        return self

    def put_in_force(self, *, tell: bool = True) -> None:
        """Apply the patches without logging a summary. Not in mx_driving.patcher.

        Args:
            tell: true to log each patch, for a summary.

        Raises:
            DeclarationError, PatchError: see :meth:`apply`.
        """
        self.selection.refuse_conflicts()
        self._applied = True
        try:
            for patch, parent, outcome in self._apply():
                if tell:
                    self._tell(patch, parent, outcome)
        except BaseException:
            self._take_back()
            raise

    @property
    def internal_format(self) -> Optional[bool]:
        """The setting of :meth:`allow_internal_format`, ``None`` if it was not called. Not in mx_driving.patcher."""
        return self._allow_internal_format

    def applied_patches(self) -> Iterator[BasePatch]:
        """Yield the patches that are in force, also those that classes list. Not in mx_driving.patcher."""
        return (patch for patch, _ in self.selection.patches() if patch.is_applied)

    def revert(self) -> Patcher:
        """Undo :meth:`apply` and all changes of imports; return the patcher.

        Not in mx_driving.patcher, where patches stay to the end of the process.
        """
        if self._applied:
            recipes.take_back(self)
            transfer.revert_all()
        self._take_back()
        return self

    def __enter__(self) -> Patcher:
        return self.apply()

    def __exit__(self, *error: object) -> None:
        self.revert()

    def _take_back(self) -> None:
        if self._counting is not None:
            self._counting.revert()
        self._counting = None
        while self._runs:
            self._runs.pop().revert()
        if self._format is not None:
            self._format.revert()
        self._format = None
        if self._applied:
            for patch in self.selection.listed():
                patch.is_applied = False
        self._applied = False
        self.imports.revert()

    def _apply(self) -> Iterator[tuple[BasePatch, str, Outcome]]:
        """Apply everything in order; yield each patch, the name of its class, and its outcome."""
        known = catalogue.load()
        self.imports.enforce()
        self._set_internal_format()
        yield from self._transfer_to_npu(known)
        self._counting = self.training.patcher()
        if self._counting is not None:
            self._counting.apply()
        early = [pair for pair in self.selection.patches(early=True) if not self.selection.is_disabled(pair[0])]
        yield from self._apply_patches(early, known)
        everything = self.selection.patches()
        for message in self.selection.unknown_names(_known_names()):
            patcher_logger.warning(message)
        yield from (
            (patch, parent, Outcome(SKIPPED, "disabled"))
            for patch, parent in everything
            if self.selection.is_disabled(patch)
        )
        done = {id(patch) for patch, _ in early}
        later = [pair for pair in everything if not self.selection.is_disabled(pair[0]) and id(pair[0]) not in done]
        yield from self._apply_patches(later, known)

    def _apply_patches(
        self, patches: Sequence[Chosen], known: catalogue.Catalogue
    ) -> Iterator[tuple[BasePatch, str, Outcome]]:
        if not patches:  # the early ones, mostly
            return
        parents = {id(patch): parent for patch, parent in patches}
        for patch, outcome in self._apply_units(units_of([patch for patch, _ in patches]), known):
            patch.is_applied = outcome.status == APPLIED
            yield patch, parents[id(patch)], outcome

    def _apply_units(self, units: Sequence[Unit], known: catalogue.Catalogue) -> list[tuple[Any, Outcome]]:
        run = Run(units, known.settings)
        self._runs.append(run)
        return run.apply()

    def _transfer_to_npu(self, known: catalogue.Catalogue) -> Iterator[tuple[BasePatch, str, Outcome]]:
        """Make calls for CUDA use the NPU, unless that was done already; the summary shows it as one patch."""
        if TransferToNpu.name in self.selection.disabled or torch_npu_transferred():
            return
        outcomes = [outcome for _, outcome in self._apply_units(TransferToNpu.units(), known)]
        # Applied if one of them is; that others wait for parts of torch is of no interest in the summary.
        told = min(outcomes, key=lambda outcome: (outcome.status != APPLIED, outcome.reason))
        yield _Told("torch.cuda"), TransferToNpu.name, told

    def _set_internal_format(self) -> None:
        if self._format is not None:
            self._format.revert()
        self._format = Run(units_of(InternalFormat.patches({"allow": bool(self._allow_internal_format)})))
        self._format.apply()

    @staticmethod
    def _tell(patch: BasePatch, parent: str, outcome: Outcome) -> None:
        told = {"package": patch.module, "patch_name": parent, "reason": outcome.reason}
        if outcome.status == APPLIED:
            patcher_logger.applied(patch.name, **told)
        elif outcome.status == SKIPPED:
            patcher_logger.skipped(patch.name, **told)
        elif getattr(patch, "is_quiet", False):
            patcher_logger.debug(f"Failed: {patch.name} ({outcome.reason})")
        else:
            patcher_logger.failed(patch.name, **told)


def _known_names() -> Iterator[str]:
    """Yield the names of all predefined patches: disabling one that was not added is no mistake."""
    yield TransferToNpu.name
    for patch_class in ALL:
        yield from (patch_class.name, patch_class.legacy_name)
