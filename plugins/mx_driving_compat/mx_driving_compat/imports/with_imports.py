"""``with_imports``: a decorator that imports what a function uses at its first call."""

from __future__ import annotations

import builtins
import importlib
import sys
import threading
from collections import ChainMap
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any, Callable, Optional, Union

from mx_driving_compat.imports.decorators import (
    DecoratorExpression,
    DecoratorPath,
    LazyDecorator,
    is_dotted,
    member,
)
from mx_driving_compat.messages.logger import patcher_logger
from patchcore.errors import DeclarationError, describe_error, did_you_mean
from patchcore.objects.binding import copy_metadata
from patchcore.objects.modules import ABSENT, missing_ancestor, namespace, submodule_names

__all__ = ["with_imports"]

Spec = Union[str, Sequence[str]]

#: Where a module keeps which of its names stand there because of with_imports.
_ADDED = "__with_imports__"

_adding = threading.Lock()

_READS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_WRITES = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL"})


def with_imports(
    *import_specs: Spec, apply_decorators: Optional[Iterable[tuple[str, Mapping[str, Any]]]] = None
) -> Callable[[Any], Any]:
    """Return a decorator that imports what a function uses when the function is called for the first time.

    ::

        @with_imports("torch_npu", ("mmdet.models.utils", "multi_apply"), "@torch_npu.npu.stream_guard(True)")
        def loss(self, scores):
            return multi_apply(torch_npu.npu_focal, scores)  # noqa: F821

    The imported names are added to the function's module where that has none of the name, as an ``import`` at its top
    would have done: ``global`` works in the function, ``torch.compile`` finds the names, and a patch finds references
    taken by value. Where a name that the function uses means something else in its module, or in Python itself
    (``sum``), the function gets a copy of the module's names instead, made at the first call; what it then writes to a
    ``global`` stays in the copy, and a warning says so.

    What cannot be imported is warned about at the first call if the function uses it and its module does not have it
    either; the function is called all the same, and so it is without a decorator that is not there: one that serves two
    versions of a library gets along with what there is.

    Functions, methods, generator and coroutine functions, ``staticmethod`` and ``classmethod`` objects can be
    decorated, also several times. Other decorators of the function belong above this one.

    Args:
        import_specs: ``"package.module"`` binds ``module``; ``("package.module", "first", "second")`` binds the names,
            ``("package.module", "name", "alias")`` both of them to ``name`` where the module has no ``alias``;
            ``"@package.decorator"`` or ``"@decorator(1, dtype=torch.half)"`` decorates the function at its first call,
            with an imported decorator, whose arguments are literals or names.
        apply_decorators: further decorators, as dotted path and keyword arguments; without arguments the decorator
            gets the function itself.

    Raises:
        DeclarationError: a specification is malformed.
    """
    imports = [_Import(spec) for spec in import_specs if not _is_decorator(spec)]
    decorators: list[LazyDecorator] = [DecoratorExpression(str(spec)) for spec in import_specs if _is_decorator(spec)]
    decorators += [DecoratorPath(entry) for entry in apply_decorators or ()]

    def decorate(function: Any) -> Any:
        form = type(function) if isinstance(function, (staticmethod, classmethod)) else None
        plain = function.__func__ if form is not None else function
        inner = _recipe_of(plain)
        if inner is None:
            recipe = _Recipe(plain, imports, decorators, sys._getframe(1).f_globals)
        else:
            recipe = _Recipe(
                inner.function, [*inner.imports, *imports], [*inner.decorators, *decorators], inner.module_globals
            )
        wrapper = _lazy(recipe)
        return wrapper if form is None else form(wrapper)

    return decorate


def _is_decorator(spec: Spec) -> bool:
    return isinstance(spec, str) and spec.startswith("@")


def _lazy(recipe: _Recipe) -> Any:
    function: Any = None

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        nonlocal function
        if function is None:
            function = recipe.resolve()
        return function(*args, **kwargs)

    copy_metadata(wrapper, recipe.function)
    recipe.wrapper = wrapper
    wrapper._with_imports = recipe  # type: ignore[attr-defined]
    return wrapper


def _recipe_of(function: Any) -> Optional[_Recipe]:
    """Return the recipe of a function that :func:`_lazy` made, ``None`` for any other object."""
    recipe = getattr(function, "_with_imports", None)
    # functools.wraps copies the attribute to functions of others
    return recipe if isinstance(recipe, _Recipe) and recipe.wrapper is function else None


class _Import:
    """What to import.

    Args:
        spec: a module, or a module and names.
    """

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        parts = (spec,) if isinstance(spec, str) else tuple(spec) if isinstance(spec, (tuple, list)) else ()
        if not parts or not all(isinstance(part, str) for part in parts) or not is_dotted(parts[0]):
            hint = "; write @with_imports(...), with what to import" if callable(spec) else ""
            raise DeclarationError(
                f"with_imports({spec!r}): expected 'package.module', ('package.module', 'name', ...) or "
                f"'@decorator'{hint}"
            )
        for name in parts[1:]:
            if not name.isidentifier():
                raise DeclarationError(f"with_imports({spec!r}): {name!r} is not a name that a module can have")
        self.module: str = parts[0]
        self.names: tuple[str, ...] = parts[1:]

    def load(self) -> tuple[dict[str, Any], dict[str, _Missing]]:
        """Import; return what was found and what was not, by name."""
        try:
            module = importlib.import_module(self.module)
        except ImportError as error:
            names = self.names or (self.module.rpartition(".")[2],)
            return {}, dict.fromkeys(names, _Missing(self.spec, self.module, error=error))
        if not self.names:
            return {self.module.rpartition(".")[2]: module}, {}
        found: dict[str, Any] = {}
        missing: dict[str, _Missing] = {}
        for name in self.names:
            try:
                value = member(module, name)
            except ImportError as error:
                missing[name] = _Missing(self.spec, self.module, name, error)
                continue
            if value is ABSENT:
                missing[name] = _Missing(self.spec, self.module, name)
            else:
                found[name] = value
        if len(self.names) == 2:
            name, alias = self.names
            if name in found and alias in missing and missing[alias].error is None:
                found[alias] = found[name]
                # Logged because a misspelt second name would also stand for the first.
                patcher_logger.info(f"with_imports({self.spec!r}): {alias} stands for {name}, {self.module} has none")
        return found, missing


class _Missing:
    """Something that could not be imported.

    Args:
        spec: what asked for it.
        module: the module.
        name: what the module lacks, ``None`` when it is the module that is missing.
        error: what the import raised.
    """

    def __init__(self, spec: Any, module: str, name: Optional[str] = None, error: Optional[ImportError] = None) -> None:
        self.spec = spec
        self.module = module
        self.name = name
        self.error = error

    def __str__(self) -> str:
        return f"with_imports({self.spec!r}): {self._reason()}"

    def _reason(self) -> str:
        if self.error is None:
            known = [key for key in namespace(sys.modules.get(self.module)) or {} if not key.startswith("__")]
            return f"{self.module} has no {self.name!r}{did_you_mean(str(self.name), known)}"
        absent = missing_ancestor(self.module)
        if absent is not None:
            return f"there is no module {absent}{did_you_mean(absent, _siblings(absent))}"
        what = self.module if self.name is None else f"{self.name} of {self.module}"
        return f"{what} cannot be imported: {describe_error(self.error)}"


class _Recipe:
    """Knows how to give a function the names that it uses.

    Args:
        function: what was decorated: a function, or what another decorator has made of one.
        imports: what to import.
        decorators: the innermost first.
        module_globals: the names of the module in which it was decorated.
    """

    wrapper: Any = None

    def __init__(
        self,
        function: Any,
        imports: Sequence[_Import],
        decorators: Sequence[LazyDecorator],
        module_globals: dict[str, Any],
    ) -> None:
        functions = [link for link in _chain(function) if isinstance(link, FunctionType)]
        if not callable(function) or not functions:
            raise DeclarationError(f"with_imports decorates functions, found {function!r}")
        self.function = function
        self.imports = imports
        self.decorators = decorators
        self.module_globals = module_globals
        # Another decorator's function belongs to that decorator's module, where names must not be added.
        self._functions = [link for link in functions if link.__globals__ is module_globals] or functions[:1]
        self._resolved: Any = None
        self._lock = threading.RLock()

    def resolve(self) -> Any:
        """Return the function to call, with the names that could be imported."""
        # Not under the lock: another thread may call the function while it imports, and hold the lock of that import.
        found, missing = self._load()
        with self._lock:
            if self._resolved is None:
                self._warn_of(missing)
                self._resolved = self._decorated(self._with_names(found), found)
            return self._resolved

    def _load(self) -> tuple[dict[str, Any], dict[str, _Missing]]:
        found: dict[str, Any] = {}
        missing: dict[str, _Missing] = {}
        for item in self.imports:
            here, not_here = item.load()
            found.update(here)
            missing.update(not_here)
        return found, {name: what for name, what in missing.items() if name not in found}

    def _warn_of(self, missing: Mapping[str, _Missing]) -> None:
        """Warn of missing names that the function uses, unless its module has something of that name.

        A function may work without them: one for two versions of a library asks for the version first.
        """
        if not missing:
            return
        used = self._names_in_code(_READS).union(decorator.name for decorator in self.decorators if decorator.name)
        own = self._functions[0].__globals__
        added = own.get(_ADDED, {})
        needed = []
        for name, what in missing.items():
            has_own = hasattr(builtins, name) or (name in own and own[name] is not added.get(name, ABSENT))
            if name in used and not has_own:
                needed.append(what)
            else:
                patcher_logger.debug(f"{self._place()} does without {name}: {what}")
        if needed:
            reasons = "; ".join(dict.fromkeys(map(str, needed)))
            patcher_logger.warning(f"{self._place()} uses what cannot be imported: {reasons}")

    def _with_names(self, found: Mapping[str, Any]) -> Any:
        """Return the function with ``found`` among its globals.

        They go into its module, where that changes nothing for others: only names that meant nothing there. A copy of
        the module's names, which needs no such care, takes writes to a ``global`` for itself, does not see what the
        module does later, hides references from the core, and torch.compile, which looks globals up in the module,
        fails on it.
        """
        with _adding:
            taken = {name for name, value in found.items() if self._meaning(name, value) is not value}
            clashes = taken & self._names_in_code(_READS) if taken else taken
            if not clashes:
                own = self._functions[0].__globals__
                new = {name: value for name, value in found.items() if name not in taken and name not in own}
                own.setdefault(_ADDED, {}).update(new)
                own.update(new)
                return self.function
        return self._copy(found, clashes)

    def _meaning(self, name: str, otherwise: Any) -> Any:
        """Return the object called ``name`` in the module, ``otherwise`` if there is none."""
        own = self._functions[0].__globals__
        return own[name] if name in own else getattr(builtins, name, otherwise)

    def _copy(self, found: Mapping[str, Any], clashes: Collection[str]) -> FunctionType:
        names = ", ".join(sorted(clashes))
        readers = [
            function for function in self._functions if not _names(function.__code__, _READS).isdisjoint(clashes)
        ]
        if readers != [self.function]:
            raise DeclarationError(
                f"{self._place()}: {names} means something else in its module, so the function itself is needed, and "
                f"another decorator has wrapped it; put @with_imports below the others, right above def"
            )
        function = readers[0]
        written = sorted(self._names_in_code(_WRITES))
        if written:
            patcher_logger.warning(
                f"{self._place()} writes to global {', '.join(written)}, which its module will not see: {names} means "
                f"something else there than with_imports says. Bind it to another name"
            )
        scope = {**function.__globals__, **found}
        if "__name__" not in self._names_in_code(_READS):
            scope.pop("__name__", None)  # with it torch.compile would look names up in the module of that name
        copy = FunctionType(function.__code__, scope, function.__name__, function.__defaults__, function.__closure__)
        # Python 3.14 computes annotations when they are asked for, and a name of a type checker's is not there then
        annotations = "__annotate__" if hasattr(function, "__annotate__") else "__annotations__"
        for key in ("__module__", "__qualname__", "__doc__", "__kwdefaults__", annotations, "__type_params__"):
            if hasattr(function, key):
                setattr(copy, key, getattr(function, key))
        copy.__dict__.update(function.__dict__)
        return copy

    def _decorated(self, function: Any, found: dict[str, Any]) -> Any:
        scope = ChainMap(found, self._functions[0].__globals__, vars(builtins))
        for decorator in self.decorators:
            try:
                function = decorator.resolve(scope)(function)
            except Exception as error:  # another version of the library may not have it; the function is called without
                patcher_logger.warning(
                    f"{self._place()} is not decorated with {decorator.spec!r}: {describe_error(error)}"
                )
        return function

    def _names_in_code(self, operations: Collection[str]) -> set[str]:
        return {name for function in self._functions for name in _names(function.__code__, operations)}

    def _place(self) -> str:
        function = self._functions[-1]
        code = function.__code__
        return f"{function.__module__}:{function.__qualname__} ({code.co_filename}:{code.co_firstlineno})"


def _chain(function: Any) -> list[Any]:
    """Return ``function`` and what it wraps, the outermost first."""
    chain: list[Any] = []
    while function is not None and all(function is not link for link in chain):
        chain.append(function)
        function = getattr(function, "__wrapped__", None)
    return chain


def _names(code: CodeType, operations: Collection[str]) -> set[str]:
    """Return the names that ``code``, or a function in it, reads or writes with ``operations``."""
    import dis

    names: set[str] = {step.argval for step in dis.get_instructions(code) if step.opname in operations}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names(constant, operations)
    return names


def _siblings(module: str) -> Iterable[str]:
    """Return the names of the modules next to ``module``."""
    parent = module.rpartition(".")[0]
    if parent:
        return submodule_names(parent)
    import pkgutil

    return [info.name for info in pkgutil.iter_modules()]
