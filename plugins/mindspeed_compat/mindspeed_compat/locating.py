"""The place that a target of MindSpeed means: ``package.module.Class.attribute`` marks no end of the module."""

from __future__ import annotations

import importlib
import sys
from typing import Any, NamedTuple, Optional

from patchcore import Target, TargetError, TargetNotFound
from patchcore.plugin import ABSENT, Slot, describe_error, find_slot

__all__ = ["Place", "locate"]


class Place(NamedTuple):
    """A target of MindSpeed, looked up.

    Args:
        target: the target for patchcore. Its path is empty if the text names a module alone.
        module: the module that must be made first, because it does not exist; ``None`` if it does.
        slot: the place, if its owner exists.
        exists: whether something is there.
        problem: why there can be no such place, if its owner does not exist; empty otherwise.
    """

    target: Target
    module: Optional[str]
    slot: Optional[Slot]
    exists: bool
    problem: str = ""

    @property
    def is_in_module(self) -> bool:
        """Whether the place is a name of a module, and not of a class."""
        return len(self.target.path) == 1

    def owner(self) -> Any:
        """Return the module or class that has the place at this moment, ``None`` if there is none."""
        found: Any = sys.modules.get(self.target.module)
        for step in self.target.path[:-1]:
            found = getattr(found, str(step), None)
        return found

    def value(self) -> Any:
        """Return the object at the place at this moment, ``None`` if there is none."""
        return getattr(self.owner(), str(self.target.path[-1]), None) if self.target.path else None


def locate(text: str, *, create_dummy: bool) -> Place:
    """Import the modules of a target, as MindSpeed's ``apply_patches`` does, and return the place that it means.

    Args:
        text: in MindSpeed's notation.
        create_dummy: whether missing modules are made.

    Raises:
        ModuleNotFoundError: a module is missing, and is not to be made.
        ImportError: a module fails at its import.
    """
    steps = text.split(".")
    owners = steps[:-1] or steps
    found = 0
    gone: Optional[ModuleNotFoundError] = None
    for end in range(1, len(owners) + 1):
        try:
            importlib.import_module(".".join(owners[:end]))
        except ModuleNotFoundError as error:
            gone = error
            break
        found = end
    module, path = ".".join(steps[:found]), tuple(steps[found:])
    if found == len(owners) and len(steps) == 1:
        return Place(Target(text, ()), None, None, True)
    inside = sys.modules.get(module)
    if found < len(owners) and not (inside is not None and hasattr(inside, path[0])):
        if not create_dummy:
            raise ModuleNotFoundError(f"{gone}, for the target {text}", name=gone.name if gone else None) from gone
        made = ".".join(owners)
        return Place(Target(made, tuple(steps[len(owners) :])), made, None, False)
    if len(path) > 2 and hasattr(getattr(inside, path[0], None), path[-1]):
        path = (path[0], path[-1])  # MindSpeed looks in the first class: it names one twice
    target = Target(module, path)
    try:
        slot = find_slot(target, sys.modules[module], may_be_absent=True)
    except (TargetError, TargetNotFound) as error:  # the patch will fail with it, in the name of its feature
        return Place(target, None, None, True, describe_error(error))
    return Place(target, None, slot, slot.lookup() is not ABSENT or slot.is_promised)
