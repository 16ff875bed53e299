"""Reads modules, classes and their attributes without importing anything and without loading lazy objects.

``getattr(module, name)`` may run a module's ``__getattr__`` (PEP 562) or execute a module that
``importlib.util.LazyLoader`` put off, and so does ``isinstance(module, type)``, which reads ``__class__``;
``importlib.util.find_spec("a.b")`` imports ``a``. The functions here avoid all of these.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from importlib.machinery import ModuleSpec
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, Callable, Optional, Union

__all__ = [
    "ABSENT",
    "StubSpec",
    "ask_finders",
    "attribute",
    "class_namespace",
    "closed_over",
    "dotted_prefixes",
    "executed_module",
    "find_module",
    "found_spec",
    "is_class",
    "is_immutable",
    "is_initializing",
    "is_lazy",
    "is_stub",
    "loaded_modules",
    "missing_ancestor",
    "module_file",
    "mro",
    "mro_lookup",
    "namespace_of",
    "passes_for",
    "qualified_name",
    "search_path",
    "submodule_names",
]

_LazyModule: type = importlib.util._LazyModule  # type: ignore[attr-defined]


class _Absent:
    """The raw value of a slot that holds nothing of its own."""

    def __repr__(self) -> str:
        return "<absent>"

    def __reduce__(self) -> str:
        return "ABSENT"


ABSENT: Any = _Absent()

# The descriptors of `type` itself are called, because `klass.__mro__` is looked up in the metaclass first, which may
# define a `__getattribute__` or an attribute of that name. For an object of another type they raise TypeError.
#: Returns the method resolution order of a class, past its metaclass.
mro: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__

_class_dict: Callable[[type], Optional[Mapping[str, Any]]] = type.__dict__["__dict__"].__get__


_class_module: Callable[[Any], Any] = type.__dict__["__module__"].__get__
_class_qualname: Callable[[Any], Any] = type.__dict__["__qualname__"].__get__

#: Descriptors that run no code written in Python.
_COMPUTED_IN_C = (GetSetDescriptorType, MemberDescriptorType)


class StubSpec(ModuleSpec):
    """The spec of a module that can be imported and is not there: see :mod:`patchcore.builtin.imports.stubs`.

    Examples:
        >>> from patchcore.plugin import StubSpec
        >>> StubSpec("fast_attention", None).name
        'fast_attention'
    """


def class_namespace(klass: type) -> Mapping[str, Any]:
    """Return the read-only ``__dict__`` of a class, which attribute access of its metaclass cannot hide."""
    return _class_dict(klass) or {}  # None of a type that its C module has not made ready (unicodedata of Python 3.9)


def namespace_of(obj: object) -> Optional[MutableMapping[str, Any]]:
    """Return the ``__dict__`` of a module or an instance, ``None`` when it has none that can be written.

    Examples:
        >>> import string
        >>> from patchcore.plugin import namespace_of
        >>> namespace_of(string)["digits"]
        '0123456789'
    """
    kind = type(obj)
    if kind is ModuleType:
        return obj.__dict__
    raw = mro_lookup(kind, "__dict__")
    if type(raw) not in _COMPUTED_IN_C:  # a proxy may compute it, with code of its own (werkzeug's LocalProxy)
        return None
    try:
        found = raw.__get__(obj, kind)
    except Exception:  # a proxy written in C has the __dict__ of its object, which may have none (wrapt's)
        return None
    return found if issubclass(type(found), dict) else None


def qualified_name(obj: object) -> tuple[str, str]:
    """Return ``__module__`` and ``__qualname__`` of ``obj``, ``""`` for none; runs no code of its class.

    Examples:
        >>> import collections
        >>> from patchcore.plugin import qualified_name
        >>> qualified_name(collections.Counter.update)
        ('collections', 'Counter.update')
    """
    if type(obj) is MethodType:
        obj = obj.__func__
    if type(obj) is FunctionType:
        found = obj.__module__, obj.__qualname__
    elif is_class(obj):
        found = _class_module(obj), _class_qualname(obj)
    else:
        found = _plain_attribute(obj, "__module__"), _plain_attribute(obj, "__qualname__")
    module, qualname = found
    return found if type(module) is type(qualname) is str and module and qualname else ("", "")


def _plain_attribute(obj: object, name: str) -> Any:
    kind = type(obj)
    raw = mro_lookup(kind, name)
    if type(raw) in _COMPUTED_IN_C:
        try:
            return raw.__get__(obj, kind)
        except Exception:  # it has none
            return None
    return (namespace_of(obj) or {}).get(name, raw)


def is_class(obj: object) -> bool:
    """Return whether ``obj`` is a class by its type alone: ``__class__`` of a proxy or lazy module is not read.

    Examples:
        >>> from patchcore.plugin import is_class
        >>> is_class(int), is_class(3)
        (True, False)
    """
    return issubclass(type(obj), type)


def closed_over(function: FunctionType) -> Iterator[Any]:
    """Yield the values of the free variables of ``function``, except those that have no value yet.

    Examples:
        >>> from patchcore.plugin import closed_over
        >>> def shop(price):
        ...     return lambda: price
        >>> list(closed_over(shop(3)))
        [3]
    """
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            continue


def attribute(obj: object, name: str, default: Any = None) -> Any:
    """Return ``getattr(obj, name, default)``; ``default`` too where code of a proxy raises anything."""
    try:
        return getattr(obj, name, default)
    except Exception:  # werkzeug's LocalProxy outside of a request: RuntimeError
        return default


def passes_for(obj: object, kind: Union[type, tuple[type, ...]]) -> bool:
    """Return whether ``isinstance(obj, kind)``, a proxy of one included; false where the code of a proxy raises."""
    try:
        return isinstance(obj, kind)
    except Exception:
        return issubclass(type(obj), kind)


def is_immutable(klass: type) -> bool:
    """Return whether ``klass`` is a type whose attributes cannot be set, like most of those that are written in C."""
    flags: int = type.__dict__["__flags__"].__get__(klass)
    # Py_TPFLAGS_IMMUTABLETYPE. Before Python 3.10 there is no such flag: the types that lack Py_TPFLAGS_HEAPTYPE are
    # immutable (`type_setattro` in Objects/typeobject.c).
    return bool(flags & (1 << 8)) if sys.version_info >= (3, 10) else not flags & (1 << 9)


def mro_lookup(klass: type, key: str, *, skip_first: bool = False) -> Any:
    """Return the raw value a lookup in ``klass`` finds, or ``ABSENT``; ``skip_first`` passes over ``klass`` itself."""
    for base in mro(klass)[1 if skip_first else 0 :]:
        found = (_class_dict(base) or {}).get(key, ABSENT)
        if found is not ABSENT:
            return found
    return ABSENT


def is_lazy(module: object) -> bool:
    """Return whether ``importlib.util.LazyLoader`` has put off the execution of ``module``."""
    return type(module) is _LazyModule


def is_initializing(module: object) -> bool:
    """Return whether the body of ``module`` has not run to its end: it is being imported, or loaded lazily later.

    Examples:
        >>> import statistics
        >>> from patchcore.plugin import is_initializing
        >>> is_initializing(statistics)
        False
    """
    if is_lazy(module):
        return True
    space = module.__dict__ if type(module) is ModuleType else namespace_of(module) or {}
    return bool(getattr(space.get("__spec__"), "_initializing", False))


def executed_module(name: str) -> Optional[ModuleType]:
    """Return module ``name`` when it was imported and its body has run to the end, else ``None``.

    Examples:
        >>> import statistics
        >>> from patchcore.plugin import executed_module
        >>> executed_module("statistics") is statistics
        True
    """
    module = sys.modules.get(name)
    if module is None or is_initializing(module):
        return None
    return module


def find_module(name: str) -> bool:
    """True if ``import name`` would find a module; nothing is imported, not even its parents.

    Walks ``sys.meta_path`` from the top-level package down the packages' search locations; for a parent that is already
    imported, its own ``__path__`` counts. A blocked import (``sys.modules[name] = None``) is not found, nor are its
    submodules. Stubs are not found either: no patch may match because of a stub.

    Examples:
        >>> from patchcore.plugin import find_module
        >>> find_module("statistics"), find_module("no_such_module")
        (True, False)
    """
    return found_spec(name) is not None if name not in sys.modules else _is_real(sys.modules[name])


def found_spec(name: str) -> Optional[ModuleSpec]:
    """Return the spec with which module ``name``, not imported yet, would be; ``None`` for none, and for a stub."""
    spec: Optional[ModuleSpec] = _find_spec(name)
    return None if isinstance(spec, StubSpec) else spec


def _is_real(module: Any) -> bool:
    return module is not None and not isinstance((namespace_of(module) or {}).get("__spec__"), StubSpec)


def is_stub(name: str) -> bool:
    """Return whether importing module ``name`` gives a stub."""
    module = sys.modules.get(name)
    spec = _find_spec(name) if name not in sys.modules else (namespace_of(module) or {}).get("__spec__")
    return isinstance(spec, StubSpec)


def module_file(name: str) -> Optional[str]:
    """Return the file that module ``name`` is or would be imported from, ``None`` for none; imports nothing.

    Examples:
        >>> from patchcore.plugin import module_file
        >>> module_file("statistics").endswith("statistics.py")
        True
    """
    module = sys.modules.get(name)
    spec = _find_spec(name) if module is None else (namespace_of(module) or {}).get("__spec__")
    return spec.origin if spec is not None and spec.has_location else None


def missing_ancestor(name: str, found: Optional[set[str]] = None) -> Optional[str]:
    """Return the first of ``a``, ``a.b``, ``a.b.c`` that cannot be found for ``name = "a.b.c"``, or ``None``.

    Args:
        name: of a module.
        found: modules that were found already; those that are found now are added.

    Examples:
        >>> from patchcore.plugin import missing_ancestor
        >>> missing_ancestor("collections.shop.tea")
        'collections.shop'
    """
    found = set() if found is None else found
    for ancestor in dotted_prefixes(name):
        if ancestor not in found and not find_module(ancestor):
            return ancestor
        found.add(ancestor)
    return None


def submodule_names(package: str) -> list[str]:
    """Return the full names of the modules directly inside ``package``, sorted; for messages."""
    from patchcore.stdlib import pkgutil

    path = search_path(package)
    return sorted(f"{package}.{info.name}" for info in pkgutil.iter_modules(list(path))) if path else []


def dotted_prefixes(name: str) -> Iterator[str]:
    """Return the full names of the packages around a module, the outermost first, and its own.

    Examples:
        >>> from patchcore.plugin import dotted_prefixes
        >>> list(dotted_prefixes("shop.prices.tea"))
        ['shop', 'shop.prices', 'shop.prices.tea']
    """
    parts = name.split(".")
    return (".".join(parts[: i + 1]) for i in range(len(parts)))


def search_path(package: str) -> Any:
    """Return where the modules inside ``package`` are looked for, ``None`` when it is no package, or not there."""
    if package in sys.modules:
        path = (namespace_of(sys.modules[package]) or {}).get("__path__")
        if path is None or _can_be_walked(path):
            return path
    spec = _find_spec(package)
    return spec.submodule_search_locations if spec is not None else None


def _can_be_walked(path: Any) -> bool:
    # The path of a namespace package looks up its parent in sys.modules. The parent may have been removed from there.
    try:
        iter(path)
    except KeyError:
        return False
    return True


def _find_spec(name: str) -> Optional[ModuleSpec]:
    parent = name.rpartition(".")[0]
    path = None
    if parent:
        path = search_path(parent)
        if path is None:
            return None
    return ask_finders(name, path)


def ask_finders(name: str, path: Any, target: Any = None, *, but: object = None) -> Optional[ModuleSpec]:
    """Return the first spec that a finder of ``sys.meta_path`` has for module ``name``, ``None`` for none.

    The packages around the module need not be imported.

    Args:
        name: full name of the module.
        path: where modules of its package are looked for, ``None`` for a top-level module.
        target: the module that is reloaded, if any.
        but: a finder that is not called.

    Examples:
        >>> from patchcore.plugin import ask_finders
        >>> ask_finders("statistics", None).name
        'statistics'
    """
    for finder in list(sys.meta_path):
        find_spec = getattr(finder, "find_spec", None) if finder is not but else None
        if find_spec is None:
            continue
        spec: Optional[ModuleSpec]
        try:
            spec = find_spec(name, path, target)
        except KeyError as error:
            # PathFinder, also when another finder calls it, reads sys.modules[parent].__path__ for a folder without
            # __init__.py inside a package: importlib has imported the parent by then, we have not.
            if not path or not _names_missing_parent(error, name):
                raise
            spec = _find_on_path(name, path)
        if spec is not None:
            return spec
    return None


def _names_missing_parent(error: KeyError, name: str) -> bool:
    around = [parent for parent in dotted_prefixes(name) if parent != name and parent not in sys.modules]
    return error.args[:1] in [(parent,) for parent in around]


def _find_on_path(name: str, path: Any) -> Optional[ModuleSpec]:
    """Find module ``name`` in the folders and archives of ``path``, as ``PathFinder`` does."""
    from patchcore.stdlib import pkgutil

    portions: list[str] = []
    for entry in path:
        finder: Any = pkgutil.get_importer(entry)
        if hasattr(finder, "find_spec"):
            spec = finder.find_spec(name)
        else:  # no finder for this entry, or zipimport before Python 3.10
            loader, inside = finder.find_loader(name) if finder is not None else (None, [])
            spec = importlib.util.spec_from_loader(name, loader) if loader is not None else None
            portions += inside
        if spec is not None and spec.loader is not None:
            found: ModuleSpec = spec
            return found
        portions += (spec.submodule_search_locations or ()) if spec is not None else ()
    if not portions:
        return None
    package = ModuleSpec(name, None, is_package=True)
    package.submodule_search_locations = portions
    return package


def loaded_modules() -> Mapping[str, ModuleType]:
    """Return a copy of ``sys.modules`` that is safe to iterate while other threads import.

    Entries whose key is no text are left out: no module can be imported under such a key, and its ``__eq__`` and
    ``__hash__`` may do anything.
    """
    # a copy in one step: making a list of items allocates, which may collect garbage, and let another thread run
    return {name: module for name, module in sys.modules.copy().items() if type(name) is str}
