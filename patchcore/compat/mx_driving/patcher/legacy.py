"""API 1.0: functions that patch by hand, wrapped and collected by a builder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Callable, Optional, Union

from patchcore.compat.mx_driving.defaults import DEFAULT
from patchcore.compat.mx_driving.patcher.patch import LegacyPatch
from patchcore.compat.mx_driving.patcher.patcher import Patcher
from patchcore.compat.mx_driving.patcher.patcher_logger import patcher_logger
from patchcore.compat.mx_driving.predefined import function_of, patch_of
from patchcore.errors import DeclarationError

__all__ = ["LegacyPatchWrapper", "LegacyPatcherBuilder", "PatcherBuilder", "default_patcher_builder"]


class LegacyPatchWrapper:
    """A function ``func(module, options)`` that patches by hand, or one of the predefined ones.

    Args:
        func: the function.
        options: its second argument.
        priority: among the patches of a module, lower goes first.
        patch_failure_warning: whether a failure is told.

    Raises:
        DeclarationError: ``func`` cannot be called.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        options: Optional[Mapping[str, Any]] = None,
        priority: int = 0,
        patch_failure_warning: bool = True,
    ) -> None:
        if not callable(func):
            raise DeclarationError(f"Patch({func!r}): expected a function of (module, options)")
        self.func = func
        self.name: str = getattr(func, "__name__", type(func).__name__)
        self.options = options if options is not None else {}
        self.priority = priority
        self.is_applied = False
        self.patch_failure_warning = patch_failure_warning

    def __getstate__(self) -> dict[str, Any]:
        """Return what a process needs that has not applied it."""
        return {**self.__dict__, "is_applied": False}

    def __lt__(self, other: LegacyPatchWrapper) -> bool:
        return self.priority < other.priority

    def __repr__(self) -> str:
        return f"Patch({self.name})"


ModulePatches = Mapping[str, Union[LegacyPatchWrapper, Sequence[LegacyPatchWrapper]]]


def add_module_patches(patcher: Patcher, module_patches: ModulePatches, blacklist: Iterable[str] = ()) -> None:
    """Add the patches of each module to a patcher, by priority; those of the blacklist are left out.

    A predefined function is its predefined patch, whichever module it was added for; a function that merely has the
    name of one is itself.

    Args:
        patcher: gets them.
        module_patches: by the name of the module that functions are given.
        blacklist: names of functions.
    """
    left_out = set(blacklist)
    for module, wrappers in module_patches.items():
        listed = [wrappers] if isinstance(wrappers, LegacyPatchWrapper) else wrappers
        for wrapper in sorted(listed):
            if wrapper.name in left_out:
                patcher.selection.pass_over(wrapper.name)
                continue
            predefined = patch_of(wrapper.func)
            if predefined is not None:
                rival = patcher.selection.add(predefined, wrapper.options or None)
                if rival is not None:  # of functions that overwrite each other the last one counts
                    patcher_logger.warning(f"Patch '{predefined.name}' takes the place of '{rival.name}'.")
                    patcher.disable(rival)
            else:
                patcher.add(_WrappedPatch(wrapper, module))
    patcher.disable(*left_out)


class LegacyPatcherBuilder:
    """Collects patches, and what else a patcher is to do; :meth:`build` makes the patcher."""

    def __init__(self) -> None:
        self._module_patches: dict[str, list[LegacyPatchWrapper]] = {}
        self._blacklist: set[str] = set()
        self._profiling_options: Optional[dict[str, Any]] = None
        self._brake_step: Optional[int] = None

    def add_module_patch(self, module_name: str, *patches: LegacyPatchWrapper) -> LegacyPatcherBuilder:
        """Add patches; return the builder.

        Args:
            module_name: dotted name of the module that their functions are given, ``"mmcv"`` or ``"mmcv.ops"``.
            patches: ``Patch(function)`` each.

        Raises:
            DeclarationError: something else is among them.
        """
        for patch in patches:
            if not isinstance(patch, LegacyPatchWrapper):
                name = getattr(patch, "__name__", repr(patch))
                raise DeclarationError(
                    f"add_module_patch({module_name!r}): expected Patch(function), got {patch!r}; write "
                    f"add_module_patch({module_name!r}, Patch({name})), or Patcher().add({name}) for API 2.0"
                )
        self._module_patches.setdefault(module_name, []).extend(patches)
        return self

    def disable_patches(self, *patch_names: str) -> LegacyPatcherBuilder:
        """Leave out patches by the names of their functions; return the builder."""
        self._blacklist.update(patch_names)
        return self

    def with_profiling(
        self,
        path: str,
        level: int = 0,
        skip_first: int = 20,
        wait: int = 1,
        warmup: int = 1,
        active: int = 1,
        repeat: int = 1,
    ) -> LegacyPatcherBuilder:
        """Record training steps; return the builder. Arguments: see :meth:`patchcore.Patcher.with_profiling`."""
        steps = {"skip_first": skip_first, "wait": wait, "warmup": warmup, "active": active, "repeat": repeat}
        self._profiling_options = {"path": path, "level": level, **steps}
        return self

    def brake_at(self, brake_step: int) -> LegacyPatcherBuilder:
        """End the program, with exit code 0, after training step ``brake_step``; return the builder."""
        self._brake_step = brake_step
        return self

    with_brake = brake_at

    def with_precision_debugger(
        self,
        config_path: Optional[str] = None,
        seed: Optional[int] = None,
        seed_mode: bool = True,
        **config_kwargs: Any,
    ) -> LegacyPatcherBuilder:
        """Raise :class:`patchcore.SettingsError`: msprobe is not driven from here."""
        Patcher().with_precision_debugger()
        return self

    def build(self, allow_internal_format: bool = False) -> _LegacyPatcher:
        """Return the patcher, not applied.

        Args:
            allow_internal_format: whether torch_npu may keep tensors in private formats.
        """
        patcher = Patcher()
        add_module_patches(patcher, self._module_patches, self._blacklist)
        if self._profiling_options is not None:
            patcher.with_profiling(**self._profiling_options)
        if self._brake_step is not None:
            patcher.brake_at(self._brake_step)
        return _LegacyPatcher(patcher.allow_internal_format(allow_internal_format))


#: As API 1.0 calls it.
PatcherBuilder = LegacyPatcherBuilder


class _WrappedPatch(LegacyPatch):
    """A function of a migration in a patcher; its wrapper learns whether it was applied."""

    def __init__(self, wrapper: LegacyPatchWrapper, module: str) -> None:
        self._wrapper = wrapper
        super().__init__(wrapper.func, options=wrapper.options, target_module=module)

    @property
    def is_applied(self) -> bool:
        return self._wrapper.is_applied

    @is_applied.setter
    def is_applied(self, value: bool) -> None:
        self._wrapper.is_applied = value

    @property
    def is_quiet(self) -> bool:
        """True when nobody wants to hear of its failure."""
        return not self._wrapper.patch_failure_warning


class _LegacyPatcher:
    """What a builder makes: a patcher with the calls of API 1.0. A context manager that restores everything at the end.

    Args:
        patcher: of API 2.0.
    """

    def __init__(self, patcher: Patcher) -> None:
        self._patcher = patcher

    @property
    def is_applied(self) -> bool:
        """Whether it is in force."""
        return self._patcher.is_applied

    def transfer_to_npu(self) -> None:
        """Do nothing: what asks for CUDA gets the NPU by :meth:`apply`."""

    def apply(self) -> None:
        """Apply the patches; see :meth:`patchcore.compat.mx_driving.patcher.patcher.Patcher.apply`."""
        self._patcher.apply()

    def revert(self) -> None:
        """Restore everything. Not in mx_driving.patcher."""
        self._patcher.revert()

    def __enter__(self) -> _LegacyPatcher:
        self.apply()
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.revert()


class _DefaultPatcherBuilder(LegacyPatcherBuilder):
    """A builder with the default patches to start with."""

    def __init__(self) -> None:
        super().__init__()
        for patch in DEFAULT:
            self.add_module_patch(patch.target_module, LegacyPatchWrapper(function_of(patch)))

    def __repr__(self) -> str:
        return "<default_patcher_builder>"


#: With the default patches.
default_patcher_builder = _DefaultPatcherBuilder()
