"""``AtomicPatch``: one attribute replaced or wrapped."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import CellType
from typing import Any, Optional

from mx_driving_compat.patches.application import Unit
from mx_driving_compat.patches.base import SinglePatch, agrees, core_patch
from mx_driving_compat.patches.changes import SetAttribute
from mx_driving_compat.patches.paths import Libraries, import_module, is_there, object_at
from patchcore import DeclarationError, Skip, TargetNotFound
from patchcore.plugin import executed_module

__all__ = ["AtomicPatch"]


class AtomicPatch(SinglePatch):
    """Replaces one attribute, or wraps it.

    Args:
        target: dotted path of the replaced object, ``"mmcv.ops.deform_conv.deform_conv2d"``.
        replacement: the object, or the dotted path of one that is imported when the patch is applied.
        aliases: further paths that get the same; names bound to the target by value are found without.
        precheck: called when it is the patch's turn; false skips it. It may take ``target``, ``replacement``,
            ``replacement_wrapper``, ``target_wrapper`` and ``aliases`` by these names, or nothing.
        runtime_check: called with the arguments of each call; where it is false or raises, the original is called.
        replacement_wrapper: called with the replacement, returns the object to write.
        target_wrapper: called with the original, returns the object to write; without ``replacement`` only.

    Raises:
        ValueError: neither a replacement nor a wrapper of the target is given.
    """

    def __init__(
        self,
        target: str,
        replacement: Any = None,
        *,
        aliases: Optional[list[str]] = None,
        precheck: Optional[Callable[..., bool]] = None,
        runtime_check: Optional[Callable[..., bool]] = None,
        replacement_wrapper: Optional[Callable[[Any], Any]] = None,
        target_wrapper: Optional[Callable[[Any], Any]] = None,
    ) -> None:
        super().__init__()
        if replacement is None and target_wrapper is None:
            raise ValueError(f"AtomicPatch({target!r}): give either a replacement or target_wrapper=")
        self.target = target
        self.aliases = list(aliases or [])
        self.precheck = precheck
        self.runtime_check = runtime_check
        # The search for names that hold an object ends when it has found all references to it. In a tuple and in a cell
        # that the change has, too, it recognizes those of this patch.
        self._given = (replacement,)
        self._seen = CellType(None)
        self._replacement_wrapper = replacement_wrapper
        self._target_wrapper = target_wrapper

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_seen"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _seen=CellType(None))

    @property
    def name(self) -> str:
        return self.target

    @property
    def _replacement(self) -> Any:
        return self._given[0]

    @property
    def _original(self) -> Any:
        """The original object of the target, ``None`` before this patch was applied."""
        return self._seen.cell_contents

    @property
    def replacement(self) -> Any:
        """The replacement; one given by its path is imported, ``None`` if that is not possible."""
        if not isinstance(self._replacement, str):
            return self._replacement
        try:
            found = object_at(self._replacement)
        except (ImportError, TargetNotFound):
            return None
        return found.__func__ if isinstance(found, staticmethod) else found

    def unit(self, libraries: Optional[Libraries] = None) -> Unit:
        libraries = libraries or Libraries()
        root = self.target.partition(".")[0]
        if not _has_dot(self.target) or not libraries.is_there(root):
            # A path without a dot is no target, and nothing may be imported for a library that is not installed.
            return Unit(core_patch(self.name), [self], prepare=lambda: self._misfit(root))
        paths = [self.target, *(path for path in self.aliases if libraries.is_there(path.partition(".")[0]))]
        changes = [self._change(path, libraries) for path in paths]
        modules = list(dict.fromkeys([change.target.module for change in changes]))
        patch = core_patch(self.name, *changes)
        if self._calls_nothing and None not in map(executed_module, modules):
            return Unit(patch, [self], plain=True)

        def prepare() -> Optional[Skip]:
            if self.precheck is not None and not self._agrees(self.precheck):
                return Skip("precheck failed")
            problems = [import_module(name) for name in modules]
            return Skip(problems[0]) if problems[0] is not None else None

        return Unit(patch, [self], prepare=prepare)

    def misfit(self) -> str:
        root = self.target.partition(".")[0]
        return "" if is_there(root) else f"module not found: {root}"

    def get_info(self, show_diff: bool = False) -> str:
        replacement = self.replacement if self._replacement is not None else self._target_wrapper
        info = f"{self.target}: {_called(self._original, '<missing>')} -> {_called(replacement, '<None>')}"
        diff = _difference(self._original, replacement) if show_diff else ""
        return f"{info}\n{diff}" if diff else info

    def __repr__(self) -> str:
        return f"AtomicPatch({self.target})"

    def _agrees(self, precheck: Callable[..., bool]) -> bool:
        arguments = {
            "target": self.target,
            "replacement": self._replacement,
            "replacement_wrapper": self._replacement_wrapper,
            "target_wrapper": self._target_wrapper,
            "aliases": self.aliases,
        }
        return agrees(precheck, arguments)

    @property
    def _calls_nothing(self) -> bool:
        """True if no code of the migration runs while it is applied: no import, no precheck and no wrapper."""
        functions = self.precheck, self._target_wrapper, self._replacement_wrapper
        return not isinstance(self._replacement, str) and all(function is None for function in functions)

    def _change(self, path: str, libraries: Libraries) -> SetAttribute:
        return SetAttribute(
            libraries.target_of(path),
            self._given,
            target_wrapper=self._target_wrapper,
            replacement_wrapper=self._replacement_wrapper,
            runtime_check=self.runtime_check,
            seen=self._seen if path == self.target else None,  # an alias held the same object as the target
        )

    def _misfit(self, root: str) -> Optional[Skip]:
        if not _has_dot(self.target):
            raise DeclarationError(f"invalid target path {self.target!r}; write 'package.module.attribute'")
        return Skip(f"module not found: {root}")


def _has_dot(path: str) -> bool:
    return "." in path.strip(".")


def _called(obj: Any, none: str) -> str:
    if obj is None:
        return none
    return getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None) or type(obj).__name__


def _difference(original: Any, replacement: Any) -> str:
    """Return the difference between the sources of two callables, empty if one has no source."""
    import difflib

    try:
        old, new = inspect.getsource(original), inspect.getsource(replacement)
    except (OSError, TypeError):
        return ""
    names = (f"original: {_called(original, '')}", f"replacement: {_called(replacement, '')}")
    return "\n".join(difflib.unified_diff(old.splitlines(), new.splitlines(), *names, lineterm=""))
