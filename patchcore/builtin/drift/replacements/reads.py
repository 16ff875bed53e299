"""The names that a replacement reads from the library: a helper that has vanished, or that takes other arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Callable, NamedTuple, Optional

from patchcore.builtin.drift.definitions import Definition, Sources
from patchcore.builtin.drift.fingerprint import Originals
from patchcore.builtin.drift.recorded import ABSENT_SOURCE, DEFINED, Fingerprint
from patchcore.builtin.drift.replacements.named import definition_of
from patchcore.declare.changes import Change, Replace
from patchcore.declare.target import Target
from patchcore.errors import TargetNotFound, Unseen

__all__ = ["Use", "name_fingerprints", "names_read"]


class Use(NamedTuple):
    """How a replacement uses a name of the library.

    Args:
        imported: true if it imports the name; false for an attribute of ``self``.
        can_call: false if it only names it: as an annotation, in ``isinstance`` or ``except``. Parameters do not count.
    """

    imported: bool
    can_call: bool


#: Functions whose second argument is a class, or several.
_TYPE_TESTS = frozenset({"isinstance", "issubclass"})


def name_fingerprints(names: Iterable[Target], originals: Originals) -> dict[Target, Fingerprint]:
    """Return whether names exist, and their signatures; names that no source shows are left out.

    Args:
        names: with their modules.
        originals: of the library.
    """
    found: dict[Target, Fingerprint] = {}
    for name in names:
        try:
            one = originals.fingerprint(Replace(name, replacement=None), name)
            found[name] = Fingerprint(DEFINED, one.signature)
        except TargetNotFound:
            found[name] = Fingerprint(ABSENT_SOURCE)
        except (Unseen, RecursionError):
            continue
        except Exception:  # of a slot that cannot be found in an imported module
            continue
    return found


def names_read(change: Change, target: Target, sources: Sources, is_module: Callable[[str], bool]) -> dict[Target, Use]:
    """Return the names that a replacement reads from the library that it patches.

    Read are the names that it or its module imports from the library, with the attributes that follow them, and the
    attributes of ``self`` if the target is in a class.

    Args:
        change: of a patch; its replacement is read from its source.
        target: of the change, with its module.
        sources: where the replacement is looked up.
        is_module: true for the modules of the library.
    """
    found = definition_of(change, sources)
    if found is None or found.module.partition(".")[0] == target.root:
        return {}
    imported = {name: what for name, what in sources.imports_of(found) if what.root == target.root}
    owner = _owner_of_self(found, target)
    only_named = _only_named(found)
    names: dict[Target, Use] = {}
    for node, path in _loaded(found):
        can_call = id(node) not in only_named
        if path[0] in imported:
            start = imported[path[0]]
            steps = (*start.path, *path[1:])
            # import shop.core: the name is that of the package, and what follows may be modules
            read, imports = Target("", (*start.module.split("."), *steps)).pin(is_module), True
        elif owner is not None and path[0] == _self_of(node, found) and len(path) > 1:
            read, imports = Target(owner.module, (*owner.path, path[1])), False
        else:
            continue
        before = names.get(read)
        names[read] = Use(imports, can_call or (before is not None and before.can_call))
    names.pop(target, None)
    return {name: use for name, use in names.items() if name.path}


def _only_named(found: Definition) -> set[int]:
    """Return the ids of expressions in annotations, second arguments of ``isinstance``, and ``except``."""
    places: list[Optional[ast.AST]] = []
    for statement in found.nodes:
        for node in ast.walk(statement):
            if isinstance(node, ast.arg):
                places.append(node.annotation)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                places.append(node.returns)
            elif isinstance(node, ast.AnnAssign):
                places.append(node.annotation)
            elif isinstance(node, ast.ExceptHandler):
                places.append(node.type)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _TYPE_TESTS:
                places += node.args[1:2]
    return {id(node) for place in places if place is not None for node in ast.walk(place)}


def _loaded(found: Definition) -> Iterator[tuple[ast.AST, tuple[str, ...]]]:
    """Yield the dotted names that a definition loads, the longest of each."""
    inner: set[int] = set()
    for statement in found.nodes:
        for node in ast.walk(statement):
            if id(node) in inner or not isinstance(node, (ast.Name, ast.Attribute)):
                continue
            path: list[str] = []
            at: ast.expr = node
            while isinstance(at, ast.Attribute):
                path.insert(0, at.attr)
                at = at.value
                inner.add(id(at))
            if isinstance(at, ast.Name) and isinstance(node.ctx, ast.Load):
                yield node, (at.id, *path)


def _owner_of_self(found: Definition, target: Target) -> Optional[Target]:
    """Return the class whose instance the replacement gets as its first argument."""
    if isinstance(found.node, ast.ClassDef):
        return target
    is_method = isinstance(found.node, (ast.FunctionDef, ast.AsyncFunctionDef)) and len(target.path) > 1
    return Target(target.module, target.path[:-1]) if is_method else None


def _self_of(node: ast.AST, found: Definition) -> str:
    if isinstance(found.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        arguments = [*found.node.args.posonlyargs, *found.node.args.args]
        return arguments[0].arg if arguments else ""
    return "self"
