"""Resolves names of a program: followed through imports, aliases and scopes.

A name counts as imported where every assignment that its use may mean is the same import. ``torch = None`` behind an
import that fails counts as nothing; any other second meaning makes it uncertain.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any, NamedTuple, Optional, Union

import libcst as cst
from libcst import metadata as md

from npu_migrate.migrate.syntax import assigned, dotted, literal, root

__all__ = ["LOAD_EXT", "Meaning", "Names"]

#: The function of mmcv that returns one of its compiled modules.
LOAD_EXT = "mmcv.utils.ext_loader.load_ext"

#: How often a name may stand for another one before it is given up.
_ALIASES = 5


class Meaning(NamedTuple):
    """The meaning of a chain of names.

    Args:
        name: the qualified name, ``torch.cuda.Stream``.
        base: the object of its first name: ``torch.cuda`` where ``c`` of ``c.Stream`` was imported as that.
        sure: False where it may stand for something else as well.
    """

    name: str
    base: str
    sure: bool


class Names:
    """Answers for one module.

    Args:
        scopes: of ``libcst.metadata.ScopeProvider``.
        parents: the parent of each node.
        stars: modules that the program imports everything from.
    """

    def __init__(
        self, scopes: Mapping[cst.CSTNode, Any], parents: Mapping[cst.CSTNode, cst.CSTNode], stars: tuple[str, ...] = ()
    ) -> None:
        self.scopes = scopes
        self.parents = parents
        self.stars = stars
        self._known: dict[tuple[int, str], Optional[tuple[str, bool]]] = {}

    def meaning(self, node: cst.BaseExpression) -> Optional[Meaning]:
        """Return the qualified name of a chain that begins with an imported name, else ``None``."""
        text, base = dotted(node), root(node)
        if text is None or base is None:
            return None
        found = self._imported(base, 0)
        if found is None:
            return None
        imported, sure = found
        return Meaning(imported + text[len(base.value) :], imported, sure)

    def assignments(self, name: cst.Name) -> tuple[Any, ...]:
        """Return the assignments that a name may mean where it stands; none for names of nowhere."""
        scope = self.scopes.get(name)
        return tuple(scope[name.value]) if scope is not None else ()

    def local(self, name: cst.Name) -> tuple[md.Assignment, ...]:
        """Return the assignments of a name that are none of imports or builtins."""
        return tuple(a for a in self.assignments(name) if type(a) is md.Assignment)

    def value_of(self, assignment: md.Assignment) -> Optional[cst.BaseExpression]:
        """Return the assigned value, ``None`` if it is unknown."""
        return assigned(assignment.node, self.parents)

    def enclosing(self, node: cst.CSTNode, *kinds: type) -> Optional[Any]:
        """Return the innermost node of these kinds around a node."""
        found = self.parents.get(node)
        while found is not None and not isinstance(found, kinds):
            found = self.parents.get(found)
        return found

    def _imported(self, name: cst.Name, depth: int) -> Optional[tuple[str, bool]]:
        scope = self.scopes.get(name)
        if scope is None:
            return None
        key = id(scope), name.value
        if key not in self._known:
            self._known[key] = None  # a name that stands for itself, by way of others, stands for nothing
            self._known[key] = self._follow(name, depth)
        return self._known[key]

    def _follow(self, name: cst.Name, depth: int) -> Optional[tuple[str, bool]]:
        imports: set[str] = set()
        others = False
        assignments = self.assignments(name)
        for assignment in assignments:
            if isinstance(assignment, md.ImportAssignment):
                imports.update(found.name for found in assignment.get_qualified_names_for(name.value))
            elif type(assignment) is md.Assignment:
                meaning = self._aliased(assignment, depth)
                if isinstance(meaning, str):
                    imports.add(meaning)
                else:
                    others = others or not meaning
        if not assignments and len(self.stars) == 1 and not hasattr(builtins, name.value):
            return f"{self.stars[0]}.{name.value}", False
        if len(imports) != 1:
            return None
        return imports.pop(), not others

    def _aliased(self, assignment: md.Assignment, depth: int) -> Union[str, bool]:
        """The meaning that an assignment gives a name: a qualified name, nothing (True), something else (False)."""
        value = self.value_of(assignment)
        if isinstance(value, cst.Name) and value.value == "None":
            return True
        if isinstance(value, cst.Call) and value.args:
            meaning = self.meaning(value.func) if depth < _ALIASES else None
            loaded = literal(value.args[0].value) if meaning is not None and meaning.name == LOAD_EXT else None
            return False if loaded is None else f"mmcv.{loaded}"
        base = root(value) if value is not None else None
        if value is None or base is None or depth >= _ALIASES:
            return False
        found = self._imported(base, depth + 1)
        if found is None or not found[1]:
            return False
        return found[0] + str(dotted(value))[len(base.value) :]
