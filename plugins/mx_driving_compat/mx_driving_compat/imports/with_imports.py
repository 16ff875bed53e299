"""``with_imports``: a decorator that imports the names of a function at its first call."""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import inspect
import pkgutil
import threading
import weakref
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any, Callable, Optional, Union

from mx_driving_compat.messages.logger import patcher_logger
from patchcore import DeclarationError
from patchcore.plugin import copy_metadata, describe_error, did_you_mean

__all__ = ["with_imports"]

Spec = Union[str, Sequence[str]]

#: The recipe of each function that :func:`with_imports` has made.
_recipes: weakref.WeakKeyDictionary[Any, _Recipe] = weakref.WeakKeyDictionary()

#: The kinds of node that the arguments of a decorator may consist of.
_PLAIN = (
    ast.Constant,
    ast.Name,
    ast.Attribute,
    ast.Tuple,
    ast.List,
    ast.Set,
    ast.Dict,
    ast.UnaryOp,
    ast.USub,
    ast.Load,
)


def with_imports(
    *import_specs: Spec, apply_decorators: Optional[Iterable[tuple[str, Mapping[str, Any]]]] = None
) -> Callable[[Any], Any]:
    """Return a decorator that imports the names which a function uses when it is called for the first time.

    ::

        @with_imports("torch_npu", ("mmdet.models.utils", "multi_apply"), "@torch_npu.npu.stream_guard(True)")
        def loss(self, scores):
            return multi_apply(torch_npu.npu_focal, scores)  # noqa: F821

    The imported names are added to the function's module where that has none of the name, as an ``import`` at its top
    would have done. Where a name that the function uses means something else in its module, or in Python itself
    (``sum``), the function gets a copy of the module's names instead, made at the first call; a value that it then
    writes to a ``global`` stays in the copy, and a warning says so.

    A name that cannot be imported is warned about at the first call if the function uses it and its module does not
    have it either; the function is called all the same, without a decorator that is not there.

    Functions, methods, ``staticmethod`` and ``classmethod`` objects can be decorated, also several times. Other
    decorators of the function belong above this one.

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
    imports, decorators = [], []
    for spec in import_specs:
        if isinstance(spec, str) and spec.startswith("@"):
            decorators.append(_expression(spec))
        else:
            imports.append(_parts(spec))
    decorators += [_by_path(entry) for entry in apply_decorators or ()]

    def decorate(function: Any) -> Any:
        if isinstance(function, (staticmethod, classmethod)):
            return type(function)(decorate(function.__func__))
        if not callable(function) or not isinstance(inspect.unwrap(function), FunctionType):
            raise DeclarationError(f"with_imports decorates functions, found {function!r}")
        # of several with_imports the outermost does the work of all
        inner = _recipes.get(function) if isinstance(function, FunctionType) else None
        if inner is None:
            recipe = _Recipe(function, imports, decorators)
        else:
            recipe = _Recipe(inner.function, [*inner.imports, *imports], [*inner.decorators, *decorators])

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return recipe.resolve()(*args, **kwargs)

        copy_metadata(wrapper, recipe.function)
        _recipes[wrapper] = recipe
        return wrapper

    return decorate


def _parts(spec: Spec) -> tuple[str, ...]:
    parts = (spec,) if isinstance(spec, str) else tuple(spec) if isinstance(spec, (tuple, list)) else ()
    names = [name for part in parts for name in (part.split(".") if part is parts[0] and part else [part])]
    if not parts or not all(isinstance(name, str) and name.isidentifier() for name in names):
        hint = "; write @with_imports(...), with what to import" if callable(spec) else ""
        raise DeclarationError(
            f"with_imports({spec!r}): expected 'package.module', ('package.module', 'name', ...) or '@decorator'{hint}"
        )
    return parts


#: A decorator as the migration has written it, and the function that returns it from the imported names.
_Decorator = tuple[Any, Callable[[Any], Any]]


def _expression(spec: str) -> _Decorator:
    """Return the decorator ``@name.name`` or ``@name.name(arguments)``.

    Raises:
        DeclarationError: the text is anything else.
    """
    try:
        tree = ast.parse(f"({spec[1:]}\n)", mode="eval")  # brackets allow spaces and line breaks
    except SyntaxError as error:
        raise DeclarationError(f"with_imports({spec!r}): {error.msg}") from None
    call = tree.body if isinstance(tree.body, ast.Call) else None
    callee = call.func if call else tree.body
    while isinstance(callee, ast.Attribute):
        callee = callee.value
    values = [*call.args, *(keyword.value for keyword in call.keywords)] if call else []
    nodes = [node for value in values for node in ast.walk(value)]
    unpacked = any(keyword.arg is None for keyword in call.keywords) if call else False
    plain = all(isinstance(node, _PLAIN) and None not in getattr(node, "keys", ()) for node in nodes)
    if unpacked or not plain or not isinstance(callee, ast.Name):
        raise DeclarationError(
            f"with_imports({spec!r}): expected the name of a decorator, without arguments or with literals and names"
        )
    code = compile(tree, "<with_imports>", "eval")
    return spec, lambda scope: eval(code, {}, scope)  # names, literals and one call


def _by_path(entry: tuple[str, Mapping[str, Any]]) -> _Decorator:
    try:
        path, kwargs = entry
        if not isinstance(kwargs, Mapping) or not all(name.isidentifier() for name in path.split(".")):
            raise ValueError
    except (AttributeError, TypeError, ValueError):
        raise DeclarationError(
            f"with_imports(apply_decorators=[{entry!r}]): expected ('package.module.decorator', {{'name': value}})"
        ) from None

    def find(scope: Any) -> Any:
        decorator = pkgutil.resolve_name(path)
        return decorator(**kwargs) if kwargs else decorator

    return entry, find


class _Recipe:
    """Gives a function the names that it uses.

    Args:
        function: the decorated function, or the result of another decorator.
        imports: modules and names to import.
        decorators: the innermost first.
    """

    def __init__(self, function: Any, imports: Sequence[tuple[str, ...]], decorators: Sequence[_Decorator]) -> None:
        self.function = function
        self.imports = imports
        self.decorators = decorators
        self._inner = inspect.unwrap(function)
        self._resolved: Any = None
        self._lock = threading.RLock()

    def resolve(self) -> Any:
        """Return the function to call, with the names that could be imported."""
        if self._resolved is None:
            found: dict[str, Any] = {}
            missing: dict[str, str] = {}
            # not under the lock: another thread may call the function in an import, and hold the lock of that import
            for parts in self.imports:
                _load(parts, found, missing)
            with self._lock:
                if self._resolved is None:
                    self._warn_of(missing)
                    self._resolved = self._decorated(self._with_names(found), found)
        return self._resolved

    def _warn_of(self, missing: Mapping[str, str]) -> None:
        """Warn of missing names, unless the function does not use them or its module has something of that name."""
        here = ChainMap(self._inner.__globals__, vars(builtins))
        needed = [why for name, why in missing.items() if name in self._names("LOAD") and name not in here]
        if needed:
            patcher_logger.warning(f"{self._place()} uses what cannot be imported: {'; '.join(dict.fromkeys(needed))}")

    def _with_names(self, found: Mapping[str, Any]) -> Any:
        """Return the function with ``found`` among its globals.

        They go into its module where they mean nothing else. In a copy of the module's names, ``global`` writes for the
        copy alone, later changes of the module are not seen, and torch.compile needs care.
        """
        own = self._inner.__globals__
        here = ChainMap(own, vars(builtins))
        taken = {name for name, value in found.items() if here.get(name, value) is not value}
        clashes = sorted(taken & self._names("LOAD"))
        if not clashes:
            own.update((name, value) for name, value in found.items() if name not in here)
            return self.function
        names = ", ".join(clashes)
        if self._inner is not self.function:
            raise DeclarationError(
                f"{self._place()}: {names} means something else in its module, so the function itself is needed, and "
                f"another decorator has wrapped it; put @with_imports below the others, right above def"
            )
        written = sorted(self._names("STORE", "DELETE"))
        if written:
            patcher_logger.warning(
                f"{self._place()} writes to global {', '.join(written)}, which its module will not see: {names} means "
                f"something else there than with_imports says. Bind it to another name"
            )
        scope = {**own, **found}
        if "__name__" not in self._names("LOAD"):
            scope.pop("__name__", None)  # with it torch.compile would look names up in the module of that name
        inner = self._inner
        copy = FunctionType(inner.__code__, scope, inner.__name__, inner.__defaults__, inner.__closure__)
        functools.update_wrapper(copy, inner)
        del copy.__wrapped__  # type: ignore[attr-defined]
        copy.__kwdefaults__ = inner.__kwdefaults__
        return copy

    def _decorated(self, function: Any, found: dict[str, Any]) -> Any:
        scope = ChainMap(found, self._inner.__globals__, vars(builtins))
        for spec, find in self.decorators:
            try:
                function = find(scope)(function)
            except Exception as error:  # another version of the library may not have it; the function is called without
                patcher_logger.warning(f"{self._place()} is not decorated with {spec!r}: {describe_error(error)}")
        return function

    def _names(self, *operations: str) -> set[str]:
        """Return the global names that the function, or a function in it, uses in operations such as ``LOAD``."""
        names = tuple(f"{operation}_{kind}" for operation in operations for kind in ("GLOBAL", "NAME", "FROM_DICT"))
        return {name for operation, name in _operations(self._inner.__code__) if operation.startswith(names)}

    def _place(self) -> str:
        code = self._inner.__code__
        return f"{self._inner.__module__}:{self._inner.__qualname__} ({code.co_filename}:{code.co_firstlineno})"


def _load(parts: tuple[str, ...], found: dict[str, Any], missing: dict[str, str]) -> None:
    """Import a module and names of it; add them to ``found``, and the reasons of the others to ``missing``."""
    name, *names = parts
    said = f"with_imports({parts if names else name!r})"
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        missing.update(dict.fromkeys(names or [name.rpartition(".")[2]], f"{said}: {describe_error(error)}"))
        return
    if not names:
        found[name.rpartition(".")[2]] = module
    for member in names:
        try:
            found[member] = (
                getattr(module, member) if hasattr(module, member) else importlib.import_module(f"{name}.{member}")
            )
        except ImportError as error:
            absent = isinstance(error, ModuleNotFoundError) and error.name == f"{name}.{member}"
            near = did_you_mean(member, vars(module))
            missing[member] = f"{said}: " + (f"{name} has no {member!r}{near}" if absent else describe_error(error))
    if len(names) == 2 and names[0] in found and names[1] not in found:
        found[names[1]] = found[names[0]]
        # logged because a misspelt second name would also stand for the first
        patcher_logger.info(f"{said}: {names[1]} stands for {names[0]}, {name} has none")
        missing.pop(names[1])


def _operations(code: CodeType) -> Iterator[tuple[str, Any]]:
    import dis

    yield from ((step.opname, step.argval) for step in dis.get_instructions(code))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _operations(constant)
