"""Which patches are for what is installed here; what else they need does not matter."""

from __future__ import annotations

from patchcore.declare.changes import needed_libraries
from patchcore.declare.patch import Patch
from patchcore.errors import DeclarationError
from patchcore.planning.conditions import Environment

__all__ = ["suits"]


def suits(patch: Patch, environment: Environment) -> bool:
    """Tell whether ``patch`` is for what is installed here in these versions, whatever else it needs."""
    try:
        if any(environment.unmet(requirement) is not None for requirement in patch.requires):
            return False
    except DeclarationError:  # which the plan says
        return False
    return all(map(environment.is_module, needed_libraries(patch.changes)))
