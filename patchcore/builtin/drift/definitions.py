"""Finds where a target is defined by reading the source of its library, which is not imported.

Follows imports inside the library (``from .deform_conv import deform_conv2d``), submodules, names for the same thing,
base classes. Objects that are made at run time (by C code, in a loop over ``globals()``, by a metaclass) are not found.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import functools
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, ModuleSpec
from importlib.util import decode_source, spec_from_file_location
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional, Union

from patchcore.builtin.drift.syntax import FunctionNode
from patchcore.builtin.shared.sources import parse_source
from patchcore.declare.target import Item, Step, Target
from patchcore.errors import NotShown, TargetNotFound, Unseen, did_you_mean
from patchcore.objects.modules import StubSpec, found_spec, namespace_of, submodule_names

__all__ = ["Definition", "ForeignDefinition", "Sources", "reading_once"]

#: Functions with which a module can add names to itself or to its classes that its source does not show.
_MAKING_NAMES = frozenset({"globals", "locals", "vars", "exec", "setattr"})

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINITIONS = (*_FUNCTIONS, ast.ClassDef)


class _Unreadable(Unseen):
    """A module has no source that can be read; ``module`` is its name."""

    def __init__(self, module: str, message: str) -> None:
        super().__init__(message)
        self.module = module


class ForeignDefinition(Exception):
    """A target is defined by another library than its own; ``args[0]`` is the top-level package."""


class Definition(NamedTuple):
    """The statements that bind a name.

    Args:
        module: the module whose source it is in.
        name: dotted, inside the module; ``""`` for the module itself.
        nodes: the statements that bind it, in order: the getter and the setter of a property, a function defined
            differently in the two branches of an ``if``.
        node: the one of them that decides what kind of thing it is: a ``def``, a ``class``, an assignment.
    """

    module: str
    name: str
    nodes: tuple[ast.AST, ...]
    node: ast.AST


class _Scope:
    """The names that a module or class binds, each with the statements that do."""

    def __init__(self, body: Iterable[ast.stmt]) -> None:
        self.names: dict[str, list[ast.stmt]] = {}
        self.stars: list[ast.ImportFrom] = []
        #: ``Class.attribute = ...`` after the class.
        self.attributes: dict[tuple[str, str], list[ast.stmt]] = {}
        self._collect(body)

    def _collect(self, body: Iterable[ast.stmt]) -> None:
        for statement in body:
            for name in self._bound(statement):
                self.names.setdefault(name, []).append(statement)
            for inner in ("body", "orelse", "finalbody"):
                if not isinstance(statement, _DEFINITIONS):
                    self._collect(getattr(statement, inner, ()))
            for handler in getattr(statement, "handlers", ()):
                self._collect(handler.body)

    def _bound(self, statement: ast.stmt) -> Iterator[str]:
        if isinstance(statement, _DEFINITIONS):
            yield statement.name
        elif isinstance(statement, ast.Import):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            if statement.names[0].name == "*":
                self.stars.append(statement)
            else:
                yield from (alias.asname or alias.name for alias in statement.names)
        elif isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                    self.attributes.setdefault((target.value.id, target.attr), []).append(statement)
                yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name) and _is_stored(node))


class _Module:
    """The source of one module, read."""

    def __init__(self, name: str, source: str, is_package: bool, find: Callable[[str], Any]) -> None:
        self.name = name
        self._find = find
        self.package = name if is_package else name.rpartition(".")[0]
        self.tree = parse_source(source)
        self.scope = _Scope(self.tree.body)
        self._classes: dict[ast.ClassDef, _Scope] = {}

    @functools.cached_property
    def makes_names(self) -> bool:
        """True when it may have names, or its classes attributes, that its source does not show."""
        if "__getattr__" in self.scope.names:  # of the module; that of a class is for its instances
            return True
        return any(
            (isinstance(node, ast.Name) and node.id in _MAKING_NAMES)
            or (isinstance(node, ast.Attribute) and node.attr == "modules" and _is_named(node.value, "sys"))
            or (isinstance(node, (ast.Import, ast.ImportFrom)) and any(map(self._is_compiled, self._imports(node))))
            for node in ast.walk(self.tree)
        )

    def _imports(self, node: Union[ast.Import, ast.ImportFrom]) -> list[str]:
        """The modules that an import names, those that it may name too."""
        if isinstance(node, ast.Import):
            return [alias.name for alias in node.names]
        source = self.absolute(node)
        return [source, *(f"{source}.{alias.name}" for alias in node.names)]

    def _is_compiled(self, name: str) -> bool:
        """Return whether a module is one of the same library in C, which may put names anywhere: ``torch._C``."""
        if _root(name) != _root(self.name):
            return False
        origin = getattr(self._find(name), "origin", None)
        return isinstance(origin, str) and origin.endswith(tuple(EXTENSION_SUFFIXES))

    def scope_of(self, node: ast.ClassDef) -> _Scope:
        if node not in self._classes:
            self._classes[node] = _Scope(node.body)
        return self._classes[node]

    def absolute(self, node: ast.ImportFrom) -> str:
        """The module that ``node`` imports from."""
        if not node.level:
            return node.module or ""
        base = self.package.rsplit(".", node.level - 1)[0] if node.level > 1 else self.package
        return f"{base}.{node.module}" if node.module else base


class _Class(NamedTuple):
    module: _Module
    node: ast.ClassDef
    name: str  # dotted, inside the module


#: The modules that any :class:`Sources` read while :func:`reading_once` is active, by name.
_shared: Optional[dict[str, Optional[_Module]]] = None


@contextlib.contextmanager
def reading_once() -> Iterator[None]:
    """Read each module once for all :class:`Sources` that are made inside; a command reads some hundred modules.

    The syntax trees are freed at the end: the program of a run must not keep those of torch.
    """
    global _shared
    before = _shared
    _shared = {} if before is None else before
    try:
        yield
    finally:
        _shared = before


class Sources:
    """The modules of libraries as they lie on the disk, each read once.

    Args:
        trees: by top-level package, the folder that contains a release of it which is not installed.
    """

    def __init__(self, trees: Optional[Mapping[str, Path]] = None) -> None:
        self._trees = trees or {}
        self._own: dict[str, Optional[_Module]] = {}  # of the trees, which no other Sources may see
        self._modules: dict[str, Optional[_Module]] = {} if _shared is None else _shared

    def find(self, target: Target) -> Definition:
        """Return the definition of ``target``, which has its module.

        Raises:
            TargetNotFound: the library does not define it; with the nearest name that it does.
            ForeignDefinition: it comes from another library.
            Unseen: its source does not show it.
        """
        found = self.locate(target)
        root = _root(found.module)
        if root != target.root:
            raise ForeignDefinition(root)
        return found

    def defines(self, module: str, name: str) -> bool:
        """True if the source of a module defines a class ``name``; reads only a part of it."""
        try:
            source = _source(self._spec(module))
        except (AttributeError, SyntaxError, ValueError):  # there is no such module, or Python cannot read it
            return False
        return source is not None and re.search(rf"^class {re.escape(name)}\b", source, re.MULTILINE) is not None

    def locate(self, target: Target) -> Definition:
        """Return the definition of ``target``, in its own or another library; raises the errors of :meth:`find`."""
        found = self._whole(target.module)
        for depth, step in enumerate(target.path):
            if step == "__dict__" and not depth:
                return found
            where = str(Target(target.module, target.path[:depth])) if depth else target.module
            found = self._step(found, step, where)
        return found

    def inside(self, definition: Definition, name: str) -> Definition:
        """Return the definition that a class has or inherits under ``name``; raises the errors of :meth:`find`."""
        return self._step(definition, name, definition.name)

    def members(self, definition: Definition) -> dict[str, list[ast.stmt]]:
        """Return the names that a class or module binds itself, each with the statements that do."""
        module = self._module(definition.module)
        if isinstance(definition.node, ast.ClassDef):
            return module.scope_of(definition.node).names
        return module.scope.names

    def imports_of(self, definition: Definition) -> Iterator[tuple[str, Target]]:
        """Yield the names that a definition imports, or its module does, each with what the import names."""
        module = self._module(definition.module)
        statements = [s for bound in module.scope.names.values() for s in bound]
        inside = [node for statement in definition.nodes for node in ast.walk(statement)]
        for node in (*statements, *inside):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.asname:
                        yield alias.asname, Target(alias.name, ())
                    else:
                        yield _root(alias.name), Target(_root(alias.name), ())
            elif isinstance(node, ast.ImportFrom):
                source = module.absolute(node)
                for alias in node.names:
                    if alias.name != "*":
                        yield alias.asname or alias.name, Target(source, (alias.name,))

    def is_module(self, name: str) -> bool:
        """True if there is a module of this name, with or without a source."""
        return self._spec(name) is not None

    def names_of(self, module: str) -> Iterable[str]:
        """Return the names that the source of a module binds."""
        return self._module(module).scope.names

    def files(self, root: str) -> Iterator[Path]:
        """Yield the Python files of a top-level package."""
        for folder in getattr(self._spec(root), "submodule_search_locations", None) or ():
            yield from sorted(Path(folder).rglob("*.py"))

    def _whole(self, name: str) -> Definition:
        """The definition of a module."""
        tree = self._module(name).tree
        return Definition(name, "", (tree,), tree)

    def _step(self, found: Definition, step: Step, where: str) -> Definition:
        if isinstance(step, Item):
            return _item(found, step, where)
        if isinstance(found.node, ast.Module):
            return self._global(self._module(found.module), step, {})
        if isinstance(found.node, ast.ClassDef):
            return self._member(_Class(self._module(found.module), found.node, found.name), step, where)
        raise Unseen(f"{where} is no class or module in its source")

    def _global(self, module: _Module, name: str, seen: dict[tuple[str, str], None]) -> Definition:
        """Return the definition of ``name`` in ``module``; ``seen`` holds the names whose lookup is under way."""
        if (module.name, name) in seen:
            raise Unseen(f"{module.name}:{name} goes around in a circle")
        seen[module.name, name] = None
        statements = module.scope.names.get(name, [])
        defined = [s for s in statements if isinstance(s, _DEFINITIONS)]
        if defined:
            return Definition(module.name, name, tuple(statements), _main(defined))
        if not statements:
            return self._beyond(module, name, seen)
        unseen: Optional[Exception] = None
        for statement in statements:
            try:
                return self._bound_by(module, name, statement, seen)
            except (Unseen, TargetNotFound) as error:
                unseen = unseen or error
        if any(isinstance(s, (ast.Assign, ast.AnnAssign)) for s in statements):
            return Definition(module.name, name, tuple(statements), statements[-1])
        raise unseen or Unseen(f"{module.name}:{name}")

    def _bound_by(
        self, module: _Module, name: str, statement: ast.stmt, seen: dict[tuple[str, str], None]
    ) -> Definition:
        if isinstance(statement, ast.Import):
            alias = next(a for a in statement.names if (a.asname or a.name.partition(".")[0]) == name)
            self._refuse_missing(alias.name, module, name)
            return self._whole(alias.name if alias.asname else name)
        if isinstance(statement, ast.ImportFrom):
            alias = next(a for a in statement.names if (a.asname or a.name) == name)
            source = module.absolute(statement)
            self._refuse_missing(source, module, name)
            return self._imported(source, alias.name, seen)
        value = getattr(statement, "value", None)
        if isinstance(value, (ast.Name, ast.Attribute)):
            return self._expression(module, value, seen)
        raise Unseen(f"{module.name}:{name} is the value of an expression")

    def _refuse_missing(self, source: str, module: _Module, name: str) -> None:
        """Raise Unseen if a name comes from another library, which is not installed: the module has it nevertheless."""
        if _root(source) != _root(module.name) and not self.is_module(_root(source)):
            raise Unseen(f"{module.name}:{name} comes from {_root(source)}, which is not installed")

    def _imported(self, source: str, name: str, seen: dict[tuple[str, str], None]) -> Definition:
        if (source, name) not in seen:  # a package that imports its own submodule comes around here
            try:
                return self._global(self._module(source), name, seen)
            except TargetNotFound:
                pass
        return self._whole(f"{source}.{name}")

    def _beyond(self, module: _Module, name: str, seen: dict[tuple[str, str], None]) -> Definition:
        """Return the definition of a ``name`` that no statement of ``module`` binds: a star import, or a submodule."""
        unseen: Optional[Exception] = None
        for star in reversed(module.scope.stars):
            try:
                return self._imported(module.absolute(star), name, seen)
            except TargetNotFound:
                continue
            except Unseen as error:
                unseen = _beyond_library(error, module)
        if module.package == module.name:
            try:
                return self._whole(f"{module.name}.{name}")
            except TargetNotFound:
                pass
        if unseen is not None or module.makes_names:
            kind = NotShown if unseen is None else type(unseen)
            raise kind(f"{module.name} makes names in ways that its source does not show")
        raise TargetNotFound(f"{module.name} has no {name}{did_you_mean(name, module.scope.names)}")

    def _expression(self, module: _Module, node: ast.expr, seen: dict[tuple[str, str], None]) -> Definition:
        """Return the definition of a name or a dotted name in ``module``."""
        if isinstance(node, ast.Name):
            return self._global(module, node.id, seen)
        if isinstance(node, ast.Attribute):
            return self._step(self._expression(module, node.value, seen), node.attr, module.name)
        if isinstance(node, ast.Subscript):  # Generic[T]
            return self._expression(module, node.value, seen)
        raise Unseen(f"an expression in {module.name}")

    def _member(self, klass: _Class, name: str, where: str) -> Definition:
        own = self._own_member(klass, name)
        if own is not None:  # without a look at the bases, which may be in a large library
            return own
        classes, beyond = self._lineage(klass, {})
        for found in classes:
            definition = self._own_member(found, name)
            if definition is not None:
                return definition if _root(found.module.name) == _root(klass.module.name) else _inherited(klass, name)
        if beyond is not None:
            raise beyond
        if any(hasattr(base, name) for c in classes for base in _builtin_bases(c)):
            raise Unseen(f"{where} inherits {name} from a built-in class")
        if hasattr(object, name):
            return _inherited(klass, name)
        if any(c.module.makes_names or c.node.keywords or c.node.decorator_list for c in classes if not _is_plain(c)):
            raise NotShown(f"{where} gets attributes in ways that its source does not show")
        known = [n for c in classes for n in c.module.scope_of(c.node).names]
        raise TargetNotFound(f"{where} has no {name}{did_you_mean(name, known)}")

    def _own_member(self, klass: _Class, name: str) -> Optional[Definition]:
        statements = klass.module.scope_of(klass.node).names.get(name, [])
        later = klass.module.scope.attributes.get((klass.name, name), [])
        if not statements and not later:
            return None
        every: list[ast.AST] = [*statements, *later]
        defined = [s for s in statements if isinstance(s, _DEFINITIONS)]
        node = every[-1] if later or not defined else _main(defined)
        value = getattr(node, "value", None)
        if isinstance(value, ast.Name) and value.id != name:  # alias = forward
            other = self._own_member(klass, value.id)
            node = other.node if other is not None else node
            every += other.nodes if other is not None else ()
        return Definition(klass.module.name, f"{klass.name}.{name}", tuple(every), node)

    def _lineage(self, klass: _Class, under_way: dict[ast.ClassDef, None]) -> tuple[list[_Class], Optional[Unseen]]:
        """Return a class with its bases in the order of lookup, and the error for a base that could not be read."""
        if klass.node in under_way:
            return [], None
        found = [klass]
        beyond: Optional[Unseen] = None
        for base in klass.node.bases:
            if _builtin_of(klass, base) is not None:
                continue
            try:
                definition = self._expression(klass.module, base, {})
            except (Unseen, TargetNotFound) as error:
                beyond = beyond or _beyond_library(error, klass.module)
                continue
            if not isinstance(definition.node, ast.ClassDef):
                beyond = beyond or NotShown(f"a base of {klass.module.name}:{klass.name} is made at run time")
                continue
            module = self._module(definition.module)
            inner, more = self._lineage(
                _Class(module, definition.node, definition.name), {**under_way, klass.node: None}
            )
            found += inner
            beyond = beyond or more
        # of a class that is reached on several ways the last one counts, as in Python wherever that has an answer
        last = {c.node: i for i, c in enumerate(found)}
        return [c for i, c in enumerate(found) if last[c.node] == i], beyond

    def _module(self, name: str) -> _Module:
        module = self._known(name)
        if module is None:
            raise _Unreadable(name, f"{name} has no Python source")
        return module

    def _known(self, name: str) -> Optional[_Module]:
        """Return a module, read once; ``None`` where it has no source."""
        modules = self._own if _root(name) in self._trees else self._modules
        if name not in modules:
            modules[name] = self._read(name)
        return modules[name]

    def _read(self, name: str) -> Optional[_Module]:
        """Read a module's source; return ``None`` where it has none."""
        spec = self._spec(name)
        if spec is None:
            parent = name.rpartition(".")[0]
            # a module written in C can contain modules that have no file: torch._C
            if parent and self._known(parent) is None:
                return None
            nearest = did_you_mean(name, self._submodules(parent)) if parent else ""
            raise TargetNotFound(f"there is no module {name}{nearest}")
        source = _source(spec)
        is_package = spec.submodule_search_locations is not None
        try:
            return None if source is None else _Module(name, source, is_package, self._spec)
        except (SyntaxError, ValueError, RecursionError) as error:
            raise _Unreadable(name, f"this Python cannot read the source of {name}: {error}") from error

    def _spec(self, name: str) -> Any:
        tree = self._trees.get(_root(name))
        return _spec(name) if tree is None else _spec_in(tree, name)

    def _submodules(self, parent: str) -> Iterable[str]:
        tree = self._trees.get(_root(parent))
        if tree is None:
            return submodule_names(parent)
        return [f"{parent}.{path.stem}" for path in tree.joinpath(*parent.split(".")).glob("*.py")]


def _spec(name: str) -> Any:
    module = sys.modules.get(name)
    spec = (namespace_of(module) or {}).get("__spec__") if module is not None else None
    if spec is None:  # not imported, or the module has put another object in its place
        spec = found_spec(name)
    return None if isinstance(spec, StubSpec) else spec


def _spec_in(tree: Path, name: str) -> Any:
    """Return the spec of a module of a release that is not installed, ``None`` for none."""
    place = tree.joinpath(*name.split("."))
    if place.is_dir():
        init = place / "__init__.py"
        if init.is_file():
            return spec_from_file_location(name, init, submodule_search_locations=[str(place)])
        return ModuleSpec(name, None, is_package=True)
    files = (place.with_name(place.name + suffix) for suffix in (*SOURCE_SUFFIXES, *EXTENSION_SUFFIXES))
    file = next((file for file in files if file.is_file()), None)
    return None if file is None else spec_from_file_location(name, file)


def _source(spec: Any) -> Optional[str]:
    if spec.origin is None or not spec.has_location or not spec.origin.endswith(tuple(SOURCE_SUFFIXES)):
        return "" if spec.origin is None and spec.submodule_search_locations is not None else None
    try:
        with open(spec.origin, "rb") as file:
            return decode_source(file.read())
    except OSError:  # in an archive
        get_source = getattr(spec.loader, "get_source", None)
        found: Optional[str] = get_source(spec.name) if get_source is not None else None
        return found


def _root(module: str) -> str:
    return module.partition(".")[0]


def _beyond_library(error: Exception, module: _Module) -> Unseen:
    """Return the error for a name that an unreadable base or star import of ``module`` may define.

    If the unreadable module is in another library, the name is taken as not defined: a library defines its own names.
    """
    if isinstance(error, _Unreadable) and _root(error.module) == _root(module.name):
        return Unseen(str(error))
    return NotShown(str(error))


def _builtin_of(klass: _Class, base: ast.expr) -> Optional[type]:
    """The built-in class that a base of a class is, ``None`` for another base."""
    if not isinstance(base, ast.Name) or base.id in klass.module.scope.names or klass.module.scope.stars:
        return None
    found = getattr(builtins, base.id, None)
    return found if isinstance(found, type) else None


def _builtin_bases(klass: _Class) -> Iterator[type]:
    return filter(None, (_builtin_of(klass, base) for base in klass.node.bases))


def _is_plain(klass: _Class) -> bool:
    """Return whether a class of the standard library adds no attribute to its subclasses: ``ABC``, ``Generic``."""
    return klass.module.name in ("abc", "typing")


def _inherited(klass: _Class, name: str) -> Definition:
    """Return the definition of an attribute that a class inherits from another library: the class itself.

    The class decides what such an attribute does: ``Function.apply`` of torch calls ``forward`` of the class.
    """
    return Definition(klass.module.name, f"{klass.name}.{name}", (klass.node,), ast.Pass())


def _item(found: Definition, step: Item, where: str) -> Definition:
    value = getattr(found.node, "value", None)
    if isinstance(value, ast.Dict):
        for key, item in zip(value.keys, value.values):
            if key is not None and _is_key(key, step.key):
                return Definition(found.module, f"{found.name}{step}", (item,), item)
    raise Unseen(f"{where} gets its items when the library is imported")


def _is_key(node: ast.expr, key: object) -> bool:
    """True if an expression is a key: an equal literal, or the name of the object that the key names."""
    if isinstance(key, Target):
        names = ast.unparse(node).split(".")
        return names[-len(key.path) :] == list(map(str, key.path))
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError):
        return False
    return bool(type(value) is type(key) and value == key)


def _main(defined: list[Union[FunctionNode, ast.ClassDef]]) -> ast.AST:
    """Return the definition that decides how a name is called: the last that is no setter or deleter of a property."""
    return next((node for node in reversed(defined) if not _is_accessor(node)), defined[-1])


def _is_accessor(node: Union[FunctionNode, ast.ClassDef]) -> bool:
    return any(isinstance(d, ast.Attribute) and d.attr in ("setter", "deleter") for d in node.decorator_list)


def _is_named(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _is_stored(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)
