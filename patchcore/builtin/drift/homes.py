"""Finds the home of a target in sources, without an import: ``shop:price`` may be defined in ``shop.core``."""

from __future__ import annotations

import ast
from typing import Optional

from patchcore.builtin.drift.definitions import Definition, Sources
from patchcore.declare.target import Target
from patchcore.errors import TargetNotFound, Unseen

__all__ = ["owner_of", "read_home"]


def read_home(target: Target, *, far: bool = False) -> Optional[Target]:
    """Return the target under which the object at ``target`` is defined; see the hook ``find_home``.

    Args:
        target: with its module.
        far: also follow a name that another library's module gave a function.
    """
    sources = Sources()
    try:
        if len(target.path) > 1 and sources.defines(target.module, str(target.path[0])):
            return target  # nearly always
        if len(target.path) > 1:
            owner = owner_of(target, sources)
            inside = Target(owner.module, (*filter(None, owner.name.split(".")), target.path[-1]))
            return read_home(inside) if isinstance(owner.node, ast.Module) else inside
        found = sources.locate(target)
    except (Unseen, TargetNotFound):
        return None
    # an alias of a function in another library's module is a place of its own
    is_near = (far or found.module.startswith(f"{target.module}.")) and found.name
    return Target(found.module, tuple(found.name.split("."))) if is_near else target


def owner_of(target: Target, sources: Sources) -> Definition:
    """Return the definition of the module, class or object that ``target`` is in; raises the errors of ``locate``."""
    return sources.locate(Target(target.module, target.path[:-1]))
