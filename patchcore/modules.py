"""Look at modules without importing them and without waking lazy ones.

``getattr(module, name)`` may run a module's ``__getattr__`` (PEP 562) or execute a module that
``importlib.util.LazyLoader`` put off; ``importlib.util.find_spec("a.b")`` imports ``a``. Nothing here does.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from types import ModuleType
from typing import Any, Optional

__all__ = [
    "executed_module",
    "find_module",
    "is_initializing",
    "is_lazy",
    "loaded_modules",
    "missing_ancestor",
    "namespace",
    "submodule_names",
]

_LazyModule: type = importlib.util._LazyModule  # type: ignore[attr-defined]


def namespace(obj: object) -> Optional[MutableMapping[str, Any]]:
    """Return the ``__dict__`` of a module or an instance, or ``None`` when it has none."""
    try:
        found = object.__getattribute__(obj, "__dict__")
    except AttributeError:
        return None
    return found if isinstance(found, dict) else None


def is_lazy(module: object) -> bool:
    """Tell whether ``importlib.util.LazyLoader`` has put off the execution of ``module``."""
    return type(module) is _LazyModule


def is_initializing(module: object) -> bool:
    """Tell whether the body of ``module`` has not run to its end: it is being imported, or loaded lazily later."""
    if is_lazy(module):
        return True
    spec = (namespace(module) or {}).get("__spec__")
    return bool(getattr(spec, "_initializing", False))


def executed_module(name: str) -> Optional[ModuleType]:
    """Return module ``name`` when it was imported and its body has run to the end, else ``None``."""
    module = sys.modules.get(name)
    if module is None or is_initializing(module):
        return None
    return module


def find_module(name: str) -> bool:
    """Tell whether ``import name`` would find a module, without importing anything, its parents included.

    Walks ``sys.meta_path`` from the top-level package down the packages' search locations; a parent that is already
    imported answers with its own ``__path__``. ``sys.modules[name] = None`` (a blocked import) means no.
    """
    if name in sys.modules:
        return sys.modules[name] is not None
    return _find_spec(name) is not None


def missing_ancestor(name: str) -> Optional[str]:
    """Return the first of ``a``, ``a.b``, ``a.b.c`` that cannot be found for ``name = "a.b.c"``, or ``None``."""
    for ancestor in _lineage(name):
        if not find_module(ancestor):
            return ancestor
    return None


def submodule_names(package: str) -> list[str]:
    """Return the full names of the modules directly inside ``package``, sorted; for messages."""
    import pkgutil

    path = _search_path(package)
    return sorted(f"{package}.{info.name}" for info in pkgutil.iter_modules(list(path))) if path else []


def _lineage(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[: i + 1]) for i in range(len(parts)))


def _search_path(package: str) -> Any:
    module = sys.modules.get(package)
    if module is not None:
        return (namespace(module) or {}).get("__path__")
    spec = _find_spec(package)
    return spec.submodule_search_locations if spec is not None else None


def _find_spec(name: str) -> Any:
    parent = name.rpartition(".")[0]
    path = None
    if parent:
        path = _search_path(parent)
        if path is None:
            return None
    for finder in list(sys.meta_path):
        find_spec = getattr(finder, "find_spec", None)
        spec = find_spec(name, path, None) if find_spec is not None else None
        if spec is not None:
            return spec
    return None


def loaded_modules() -> Mapping[str, ModuleType]:
    """Return a copy of ``sys.modules`` that is safe to iterate while other threads import."""
    return dict(sys.modules)
