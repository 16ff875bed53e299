"""Functions that look at the frame of their caller: behind a wrapper they find the frame of the wrapper.

``Registry.infer_scope`` of mmengine takes the name of the module that calls ``Registry(...)`` for the scope. Told from
code and sources, which are not run; a function that calls one of its own module or class to look is found too.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterable, Sequence
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Optional

from patchcore.declare.slots import Slot, find_slot
from patchcore.declare.target import Target
from patchcore.engine.engine import ENGINE
from patchcore.errors import TargetError, TargetNotFound, Unseen
from patchcore.objects.binding import wrapped_callable
from patchcore.objects.modules import is_class, mro_lookup
from patchcore.report import Remark

if TYPE_CHECKING:
    from patchcore.builtin.drift.definitions import Sources
    from patchcore.planning.plan import PlannedPatch

__all__ = ["Callers", "look_of", "remark", "remarks_on"]

#: What gives a frame, or all of them, by the names in the code that calls it.
_LOOKS = {
    "_getframe": "sys._getframe",
    "_getframemodulename": "sys._getframemodulename",
    "currentframe": "inspect.currentframe",
}
#: One of these is among the names in code that looks at a frame.
_SIGNS = frozenset(("stack", *_LOOKS))


def remarks_on(entry: PlannedPatch) -> list[Remark]:
    """Return what there is to say about the changes of a planned patch; see the hook ``remarks``."""
    found = (_CALLERS.remark(change, target) for change, target in zip(entry.patch.changes, entry.targets))
    return [Remark(text) for text in dict.fromkeys(found) if text is not None]


def remark(slot: str, look: str) -> str:
    """Return what there is to say about a wrapper or dispatcher of ``slot``, whose original calls ``look``."""
    return (
        f"{slot} looks at the frame of its caller ({look}) and finds patchcore's: "
        "pass it what it looks for as an argument, or Replace it"
    )


def look_of(raw: Any) -> Optional[str]:
    """Return by what the function in ``raw``, the value of a slot, looks at the frame of its caller; else ``None``."""
    function = wrapped_callable(raw)
    seen: set[int] = set()
    while type(function) is FunctionType and id(function) not in seen:
        seen.add(id(function))
        found = _in_names(_names(function.__code__)) or _in_called(function)
        if found is not None:
            return found
        function = function.__dict__.get("__wrapped__")
    return None


def _in_names(names: Iterable[str]) -> Optional[str]:
    if _SIGNS.isdisjoint(names):
        return None
    listed = set(names)
    if "stack" in listed and "inspect" in listed:
        return "inspect.stack"
    return next((look for name, look in _LOOKS.items() if name in listed), None)


def _names(code: CodeType) -> Sequence[str]:
    names = code.co_names
    for constant in code.co_consts:
        if type(constant) is CodeType:
            names = (*names, *_names(constant))
    return names


def _in_called(function: FunctionType) -> Optional[str]:
    """Look in the functions of the same module, and the methods of the same class, that ``function`` names."""
    space, owner = function.__globals__, _owner_of(function)
    for name in function.__code__.co_names:
        values = [space[name]] if name in space else []
        if owner is not None:
            values.append(mro_lookup(owner, name))
        for value in values:
            kind = type(value)
            if kind is not FunctionType and (kind in _COMMON or not issubclass(kind, _FORMS)):
                continue
            called = value if kind is FunctionType else wrapped_callable(value)
            if type(called) is FunctionType and called.__module__ == function.__module__:
                look = _in_names(_names(called.__code__))
                if look is not None:
                    return f"{called.__qualname__} calls {look}"
    return None


def _owner_of(function: FunctionType) -> Any:
    """Return the class that a method is from, by its name; ``None`` for a function of a module."""
    owner: Any = None
    for part in function.__qualname__.split(".")[:-1]:
        found = function.__globals__.get(part) if owner is None else mro_lookup(owner, part)
        owner = found if is_class(found) else None
    return owner


#: What most names hold that hold no function.
_COMMON = frozenset((ModuleType, type, BuiltinFunctionType, str, int))
#: What holds a function that :func:`patchcore.objects.binding.wrapped_callable` returns.
_FORMS = (staticmethod, classmethod, property, functools.cached_property)


class Callers:
    """Tells of targets, imported or not, whether they look at the frames of their callers."""

    def __init__(self) -> None:
        self._sources: Optional[Sources] = None

    def remark(self, change: Any, target: Target) -> Optional[str]:
        """Return what there is to say about ``change``, whose target with its module is ``target``, if anything."""
        if not getattr(change, "calls_original", False):
            return None
        module = sys.modules.get(target.module)  # also while its import ends
        try:
            if module is not None:
                slot: Slot = find_slot(target, module)
                look = look_of(ENGINE.journal.original(slot))
            else:
                look = self._in_source(target)
        except (
            TargetError,
            TargetNotFound,
            Unseen,
            OSError,
            SyntaxError,
            ValueError,
        ):  # applying the patch says what is wrong
            return None
        return None if look is None else remark(str(target), look)

    def _in_source(self, target: Target) -> Optional[str]:
        from patchcore.builtin.drift.definitions import ForeignDefinition, Sources

        if self._sources is None:
            self._sources = Sources()
        try:
            definition = self._sources.find(target)
        except ForeignDefinition:
            return None
        if not isinstance(definition.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return None
        names = _names_in(definition.node)
        found = _in_names(names)
        if found is not None:
            return found
        for name, node in self._sources.functions(definition.module):
            look = _in_names(_names_in(node)) if node.name in names else None
            if look is not None:
                return f"{name} calls {look}"
        return None


def _names_in(node: ast.AST) -> set[str]:
    found = {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}
    return found | {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


#: Keeps what it has read of sources for the next plan.
_CALLERS = Callers()
