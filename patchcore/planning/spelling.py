"""Finds targets that are one place under two names: ``json:JSONEncoder.encode``, ``json.encoder:JSONEncoder.encode``.

Targets of several patches that lead to one place, or into it, get the spelling under which it is defined. Then the plan
finds their conflicts, and their order holds whichever module is imported first. A name that some other module gave an
object (``user:relu``, from torch) is a place of its own; a class or module under such a name is not.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, Callable, Optional

from patchcore.declare.changes import Change, SlotChange
from patchcore.declare.target import Step, Target
from patchcore.objects.binding import find_named
from patchcore.objects.modules import class_namespace, executed_module, is_class, namespace_of, qualified_name
from patchcore.report import Remark

__all__ = ["FindHome", "alias_remarks", "home_of", "unify"]

#: Returns the home of a target: the target under which the same object is defined; ``None`` if it is not known.
FindHome = Callable[[Target], Optional[Target]]


def home_of(target: Target) -> Target:
    """Return the target under which the object at ``target`` is defined, found in loaded modules only; else ``target``.

    Args:
        target: with its module.
    """
    found: Any = executed_module(target.module)
    module = target.module  # of the home, as far as it is known
    path: tuple[Step, ...] = ()
    for depth, step in enumerate(target.path):
        in_module = _is_module(found)
        space = namespace_of(found) if in_module else class_namespace(found) if is_class(found) else None
        if space is None or not isinstance(step, str) or step not in space:
            return Target(module, (*path, *target.path[depth:]))
        found, around = space[step], module
        path = (*path, step)
        has_more_steps = depth + 1 < len(target.path)
        if _is_module(found):
            name = (namespace_of(found) or {}).get("__name__")
            if type(name) is str and sys.modules.get(name) is found and has_more_steps:
                module, path = name, ()
        elif is_class(found) or in_module:
            defined_in, qualname = qualified_name(found)
            # an alias of a function or class in another library's module is a place of its own, not resolved further
            is_near = has_more_steps or defined_in.startswith(f"{around}.")
            if is_near and find_named(defined_in, qualname) is found:
                module, path = defined_in, tuple(qualname.split("."))
    return Target(module, path)


def _is_module(value: object) -> bool:
    return issubclass(type(value), ModuleType)


def unify(targets: Iterable[Target], find_home: Optional[FindHome] = None) -> Mapping[Target, Target]:
    """Return the home of each target that another target reaches by another spelling, or contains.

    A plan compares homes: two patches of one place are then in conflict, or ordered, however they spell it.

    Args:
        targets: the targets of all applied patches, with their modules.
        find_home: called for targets in modules that are not loaded, if another target has a similar name.
    """
    homes = {target: home_of(target) for target in targets}
    if find_home is not None:
        for target in _alike(homes):
            homes[target] = find_home(target) or target
    if all(target == home for target, home in homes.items()):
        return {}
    near: dict[Target, list[Target]] = {}  # by a place: the targets at it or inside it
    for target, home in homes.items():
        for depth in range(1, len(home.path) + 1):
            near.setdefault(Target(home.module, home.path[:depth]), []).append(target)
    found: dict[Target, Target] = {}
    for target, home in homes.items():
        if not all(map(target.covers, near[home])):
            found.update((other, homes[other]) for other in near[home])
    return found


def _alike(targets: Collection[Target]) -> list[Target]:
    """Return the targets in modules that are not loaded whose last steps also end another target."""
    unloaded = [target for target in targets if executed_module(target.module) is None]
    if not unloaded:
        return []
    names = Counter(step for target in targets for step in dict.fromkeys(target.path[-2:]))
    pairs = Counter(target.path[-2:] for target in targets)
    alone = {target.path[0] for target in targets if len(target.path) == 1}
    found = []
    for target in unloaded:
        if len(target.path) == 1:
            is_like_another = names[target.path[0]] > 1
        else:
            is_like_another = pairs[target.path[-2:]] > 1 or not alone.isdisjoint(target.path[-2:])
        if is_like_another:
            found.append(target)
    return found


def alias_remarks(
    changes: Iterable[tuple[Change, Target]],
    find_home: Callable[..., Optional[Target]],
    is_product: Callable[[Any], bool],
    others: Callable[[], Iterable[tuple[str, Target]]],
) -> list[Remark]:
    """Return remarks on targets that reach an object of another module through an alias.

    Args:
        changes: the changes of one patch, with their targets.
        find_home: called for targets in modules that are not loaded, with ``far=True`` for a name in such a module.
        is_product: returns true if a patch created the object.
        others: returns the targets of patches that are applied without a declared order to this one, with their names.
    """
    found = []
    for change, pinned in changes:
        target = change.target if change.target.module else pinned
        if not isinstance(change, SlotChange) or change.only_in is not None or not target.path:
            continue
        if len(target.path) == 1:
            original = _named_elsewhere(target, find_home, is_product)
            if original is not None:
                names = [name for name, other in others() if _home(other, find_home) == original]
                found.append(_alias_remark(target, original, names))
            continue
        home = _home(target, find_home)
        if (
            _is_inside(home.module, target.module)
            or ".".join(map(str, (target.module, *target.path[:-1]))) in sys.modules
        ):
            continue
        text = f"{target} is {home}, which changes for the whole program"
        only = f", or only_in={target.module!r} for that module alone" if len(home.path) == 1 else ""
        found.append(Remark(text, finding=True, advice=f"Write {str(home)!r} if that is meant{only}", topic="alias"))
    return found


def _home(target: Target, find_home: FindHome) -> Target:
    return home_of(target) if executed_module(target.module) is not None else find_home(target) or target


def _alias_remark(target: Target, original: Target, names: Sequence[str]) -> Remark:
    """Return the remark on a target that is a name of ``original``, which the patches ``names`` change, too."""
    if not names:
        return Remark(f"{target} is only a name of {original}, which stays with its other names", topic="alias")
    text = f"{target} is only a name of {original}, which {names[0]} changes, too"
    advice = f"Declare after=[{names[0]!r}] in the patch of {target}, so that both are applied in any order of imports"
    return Remark(text, finding=True, advice=advice, topic="alias")


def _named_elsewhere(
    target: Target, find_home: Callable[..., Optional[Target]], is_product: Callable[[Any], bool]
) -> Optional[Target]:
    """Return the home of the object at a name of a module; ``None`` if that is this module, or unknown."""
    if executed_module(target.module) is None:
        home = find_home(target, far=True)
        return None if home is None or _is_inside(home.module, target.module) else home
    value = (namespace_of(executed_module(target.module)) or {}).get(str(target.path[0]))
    module, name = qualified_name(value)
    is_alias = name and not _is_inside(module, target.module) and find_named(module, name) is value
    return Target(module, tuple(name.split("."))) if is_alias and not is_product(value) else None


def _is_inside(module: str, package: str) -> bool:
    return f"{module}.".startswith(f"{package}.")
