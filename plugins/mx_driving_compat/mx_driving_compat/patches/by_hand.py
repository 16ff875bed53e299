"""Functions that patch by hand: ``LegacyPatch`` of API 2.0, and ``Patch(function)`` of API 1.0."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Optional

from mx_driving_compat.patches.application import Unit
from mx_driving_compat.patches.base import SinglePatch, core_patch
from mx_driving_compat.patches.mentions import mentioned_packages
from mx_driving_compat.patches.paths import Libraries, import_module, is_there
from patchcore import Call, DeclarationError, Skip

__all__ = ["LegacyPatch", "LegacyPatchWrapper", "WrappedPatch"]


class LegacyPatch(SinglePatch):
    """Runs a function that patches by hand, ``func(module, options)``; finds its changes, and can revert them.

    Args:
        func: the function. ``AttributeError`` means that it does not fit, anything else that it fails.
        options: its second argument.
        target_module: dotted name of the module that is its first argument.

    Raises:
        ValueError: there is no target module.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        options: Optional[Mapping[str, Any]] = None,
        target_module: Optional[str] = None,
    ) -> None:
        super().__init__()
        if target_module is None:
            name = getattr(func, "__name__", repr(func))
            raise ValueError(f"LegacyPatch lacks target_module; write LegacyPatch({name}, target_module='mmcv')")
        self.func = func
        self.options = options or {}
        self.target_module: str = target_module

    @property
    def name(self) -> str:
        explicit = getattr(self.func, "__patch_name__", None)
        own = str(explicit or getattr(self.func, "__name__", "legacy_patch"))
        return own if explicit or own != "_apply" else _outer_name(self.func)

    @property
    def module(self) -> str:
        return self.target_module

    def unit(self, libraries: Optional[Libraries] = None) -> Unit:
        if not (libraries or Libraries()).is_there(self.target_module.partition(".")[0]):
            return Unit(core_patch(self.name), [self], prepare=lambda: Skip("module not found"))
        call = Call(self.func, module=self.target_module, options=self.options, roots=mentioned_packages(self.func))

        def prepare() -> Optional[Skip]:
            problem = import_module(self.target_module)
            return None if problem is None else Skip(problem)

        return Unit(core_patch(self.name, call), [self], prepare=prepare, skips=(AttributeError,))

    def misfit(self) -> str:
        root = self.target_module.partition(".")[0]
        return "" if is_there(root) else f"module not found: {root}"

    def __repr__(self) -> str:
        return f"LegacyPatch({self.name})"


class LegacyPatchWrapper:
    """``Patch(function)`` of API 1.0: a function ``func(module, options)`` that patches by hand, or a predefined one.

    Args:
        func: the function.
        options: its second argument.
        priority: among the patches of a module, lower goes first.
        patch_failure_warning: whether a failure is reported.

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
        """Return the state for another process, in which the patch is not applied."""
        return {**self.__dict__, "is_applied": False}

    def __lt__(self, other: LegacyPatchWrapper) -> bool:
        return self.priority < other.priority

    def __repr__(self) -> str:
        return f"Patch({self.name})"


class WrappedPatch(LegacyPatch):
    """A ``Patch(function)`` in a patcher; the two share ``is_applied``."""

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
        """True if its failure is not to be reported."""
        return not self._wrapper.patch_failure_warning


def _outer_name(function: Callable[..., Any]) -> str:
    """Return a name for a function ``_apply``: that of the function ``build_..._patch`` that made it."""
    parts = [part for part in function.__qualname__.split(".") if part != "<locals>"]
    outer = parts[-2] if len(parts) > 1 else parts[-1]
    if not outer.endswith("_patch"):
        return function.__name__
    return outer[: -len("_patch")][len("build_") if outer.startswith("build_") else 0 :]
