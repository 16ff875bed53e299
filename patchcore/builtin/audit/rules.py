"""Rules: differences that are normal Python and no patch.

A library adds names to itself after its body has ended: lazy modules, registries, generated methods, submodules. Each
rule has a name, which counts in a report say. The rules were tuned on numpy, scipy, pandas, matplotlib, scikit-learn,
torch, transformers and mmdet.
"""

from __future__ import annotations

import ast
import functools
import os
import sys
from types import FunctionType, ModuleType
from typing import Any, Optional

from patchcore.builtin.audit.copies import DATA, Difference
from patchcore.builtin.audit.owners import (
    C_CODE,
    PYTHON,
    file_of_module,
    owner_of,
    owner_of_module,
    replaces_python,
    same_distribution,
)
from patchcore.builtin.shared.sources import parse_source
from patchcore.objects.modules import ABSENT, class_namespace, is_class, mro_lookup, namespace_of, qualified_name

__all__ = ["imported_owners", "normal", "source_tree"]

#: Names that the interpreter and libraries that generate classes write to a namespace.
_MACHINERY = frozenset(
    {
        *("__warningregistry__", "__builtins__", "__path__", "__doc__", "__abstractmethods__", "_abc_impl"),
        *("__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__", "__slotnames__"),
        *("__parameters__", "__signature__", "__spec__", "__loader__", "__cached__", "__file__", "__dict__"),
        *("__weakref__", "__module__", "__orig_bases__", "__match_args__", "__static_attributes__"),
        *("__firstlineno__", "__conditional_annotations__", "__classcell__"),
    }
)
_MACHINERY_STARTS = ("__dataclass_", "__pydantic", "__attrs", "_abc_")
#: Modules that Cython makes for its runtime (Cython/Utility/CommonStructures.c, ImportExport.c).
_CYTHON = ("cython_runtime", "_cython_")
#: Modules that write methods of a class after its body has ended.
_GENERATORS = tuple(f"{PYTHON}{name}" for name in ("dataclasses", "functools", "enum"))


def normal(difference: Difference) -> str:
    """Return the name of the rule by which a difference is no patch; an empty text for a patch."""
    if difference.kind == "body":
        return ""
    name = difference.name
    if name in _MACHINERY or name.startswith(_MACHINERY_STARTS):
        return "name of the interpreter"
    if difference.kind == "module":
        return _of_sys_modules(difference)
    before, now = difference.before, difference.now
    if before is DATA and now is ABSENT:
        return "data"
    if issubclass(type(now), ModuleType):
        rule = _submodule(difference)
        if rule:
            return rule
    if now is ABSENT:
        return ""
    if now is DATA:
        if before is ABSENT:
            return "data"
        return "global statement of the module" if name in _globals_of(difference.module) else ""
    return _of_definition(difference)


def _submodule(difference: Difference) -> str:
    value = difference.now
    names = {difference.module, str((namespace_of(difference.owner) or {}).get("__name__", difference.module))}
    if any(sys.modules.get(f"{name}.{difference.name}") is value for name in names):
        return "submodule"
    own = str((namespace_of(value) or {}).get("__name__", ""))
    if difference.before is ABSENT and own and _is_own(owner_of_module(own), difference):
        return "submodule"
    return ""


def _of_definition(difference: Difference) -> str:
    """Judge new code by the owner of its definition."""
    owner, before, now, name = difference.owner, difference.before, difference.now, difference.name
    home = owner_of(now)
    if _is_generated(difference, home):
        return "generated method"
    if home == C_CODE and before is ABSENT:
        return "C function"
    if _is_own(home, difference) and _is_own_kind(now, difference) and not _is_hidden(before, now):
        return "own code"
    if not issubclass(type(owner), ModuleType):
        return ""
    if name in _globals_of(difference.module):
        return "global statement of the module"
    if before is ABSENT and mro_lookup(type(owner), "__getattr__") is not ABSENT and home == owner_of(type(owner)):
        return "lazy module"
    if before is ABSENT and _is_own_lazy_name(difference, home):
        return "lazy module"
    if before is ABSENT and home in imported_owners(difference.module):
        space = namespace_of(owner) or {}
        if "__getattr__" in space or mro_lookup(type(owner), "__getattr__") is not ABSENT:
            return "lazy module"
        if _writes_globals(difference.module):
            return "globals() of the module"
    if before is ABSENT and not _is_definition(now):
        # another module of the package may have put it here
        root = difference.module.partition(".")[0]
        if home in imported_owners(difference.module) | imported_owners(root):
            return "object of a library that the package uses"
    return ""


def _is_own_lazy_name(difference: Difference, home: str) -> bool:
    """True if a module of a class of its own distribution has bound a name late.

    The name is one of Python's (``six.moves.zip``), or a module inside has the object under that name
    (``transformers.AddedToken``, of tokenizers).
    """
    kind = type(difference.owner)
    if kind is ModuleType or not _is_own(owner_of(kind), difference):
        return False
    if home.startswith(PYTHON):
        return True
    inside = (
        namespace_of(loaded) for name, loaded in list(sys.modules.items()) if name.startswith(f"{difference.module}.")
    )
    return any((space or {}).get(difference.name) is difference.now for space in inside)


def _is_definition(value: Any) -> bool:
    return type(value) in (FunctionType, functools.partial) or is_class(value)


def _is_own(home: str, difference: Difference) -> bool:
    return same_distribution(home, owner_of_module(difference.module))


def _is_own_kind(value: Any, difference: Difference) -> bool:
    """True if the class of an object is that of code, or belongs to the owner or the standard library, mocks aside."""
    if type(value) is FunctionType or is_class(value) or issubclass(type(value), ModuleType):
        return True
    kind = owner_of_module(qualified_name(type(value))[0] or "builtins")
    return _is_own(kind, difference) or (kind.startswith(PYTHON) and kind != f"{PYTHON}unittest")


def _is_hidden(before: Any, now: Any) -> bool:
    """True if code in the place of other code only looks like the owner's: a partial object, or generated code."""
    if type(now) is functools.partial:
        return type(before) is not functools.partial
    if type(now) is FunctionType and type(before) is FunctionType:
        return now.__code__.co_filename == "<string>" != before.__code__.co_filename
    return False


def _is_generated(difference: Difference, home: str) -> bool:
    """True for a method that dataclass, total_ordering or the like has added to a class."""
    now = difference.now
    if not difference.path or difference.before is not ABSENT or type(now) is not FunctionType:
        return False
    of_class = now.__qualname__.startswith(f"{qualified_name(difference.owner)[1]}.")
    of_string = now.__code__.co_filename == "<string>" and _is_own(home, difference)
    return of_class and (home in _GENERATORS or of_string)


def _of_sys_modules(difference: Difference) -> str:
    name, module = difference.name, difference.now
    if difference.before is not ABSENT or replaces_python(name, module):
        return ""
    space = namespace_of(module) if issubclass(type(module), ModuleType) else None
    if space is None:
        return ""
    if getattr(space.get("__spec__"), "loader", None) is not None:
        return "another loader"
    is_made_in_c = "." in name or name.startswith(_CYTHON)
    if (
        is_made_in_c
        and space.get("__file__") is None
        and not any(_has_python_code(value) for value in list(space.values()))
    ):
        return "module without Python code"
    if any(other is module for key, other in list(sys.modules.items()) if key != name):
        return "second name of a module"
    parent = sys.modules.get(name.partition(".")[0])
    if parent is not module and (namespace_of(parent) or {}).get("__spec__") is not None:
        return "module that its package makes"
    return ""


def _has_python_code(value: Any) -> bool:
    if type(value) is FunctionType:
        return True
    return is_class(value) and any(type(each) is FunctionType for each in list(class_namespace(value).values()))


@functools.lru_cache(maxsize=256)
def source_tree(module: str) -> Optional[ast.Module]:
    """Return the syntax tree of a loaded module; ``None`` if it has no source."""
    file = file_of_module(module)
    if file is None or not file.endswith(".py") or not os.path.exists(file):
        return None
    try:
        with open(file, "rb") as stream:
            return parse_source(stream.read(), file)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None


@functools.cache
def _globals_of(module: str) -> frozenset[str]:
    """Return the names that functions of a module declare with ``global``."""
    tree = source_tree(module)
    nodes = ast.walk(tree) if tree is not None else ()
    return frozenset(name for node in nodes if isinstance(node, ast.Global) for name in node.names)


@functools.cache
def _writes_globals(module: str) -> bool:
    tree = source_tree(module)
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call)) if tree is not None else ()
    return any(isinstance(called, ast.Name) and called.id in ("globals", "vars") for called in calls)


@functools.cache
def imported_owners(module: str) -> frozenset[str]:
    """Return the owners of the modules that the source of a module imports."""
    tree = source_tree(module)
    names: set[str] = set()
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.add(node.module.partition(".")[0])
    return frozenset(owner_of_module(name) for name in names if name in sys.modules)
