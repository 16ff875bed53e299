"""``LegacyPatch``: a function that patches by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Optional

from patchcore.builtin.call.change import Call
from patchcore.compat.mx_driving.application import Unit
from patchcore.compat.mx_driving.base import SinglePatch, core_name
from patchcore.compat.mx_driving.mentions import mentioned_packages
from patchcore.compat.mx_driving.paths import import_module, is_there
from patchcore.declare.changes import Skip
from patchcore.declare.patch import Patch as CorePatch

__all__ = ["LegacyPatch"]


class LegacyPatch(SinglePatch):
    """Runs a function that patches by hand, ``func(module, options)``; what it changes is found out, and reverted.

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

    def unit(self) -> Unit:
        if not is_there(self.target_module.partition(".")[0]):
            return Unit(CorePatch(core_name(self.name)), [self], prepare=lambda: Skip("module not found"))
        call = Call(self.func, module=self.target_module, options=self.options, roots=mentioned_packages(self.func))

        def prepare() -> Optional[Skip]:
            problem = import_module(self.target_module)
            return None if problem is None else Skip(problem)

        return Unit(CorePatch(core_name(self.name), [call]), [self], prepare=prepare, skips=(AttributeError,))

    def misfit(self) -> str:
        root = self.target_module.partition(".")[0]
        return "" if is_there(root) else f"module not found: {root}"

    def __repr__(self) -> str:
        return f"LegacyPatch({self.name})"


def _outer_name(function: Callable[..., Any]) -> str:
    """Name a function ``_apply`` after the function ``build_..._patch`` that has made it."""
    parts = [part for part in function.__qualname__.split(".") if part != "<locals>"]
    outer = parts[-2] if len(parts) > 1 else parts[-1]
    if not outer.endswith("_patch"):
        return function.__name__
    return outer[: -len("_patch")][len("build_") if outer.startswith("build_") else 0 :]
