"""Follows imports: a function for plugins that look at every module when its body has run."""

from __future__ import annotations

from functools import partial
from typing import Callable

from patchcore.engine.engine import ENGINE
from patchcore.engine.importing import Follower

__all__ = ["follow_imports"]


def follow_imports(follower: Follower) -> Callable[[], None]:
    """Call methods of ``follower`` around the body of every module that is imported from now on.

    Args:
        follower: ``begins(name)`` is called just before the body of module ``name`` runs, and ``ended(name, module,
            finished=...)`` right after it, before patches that wait for the module are applied. ``finished`` is false
            if the body raised. Both run inside the import, in its thread: they must be quick and must not raise.

    Returns:
        A function that ends it.

    Examples:
        >>> import sys
        >>> from patchcore.plugin import follow_imports
        >>> class Follower:
        ...     def begins(self, name):
        ...         print(f"{name} begins")
        ...
        ...     def ended(self, name, module, *, finished):
        ...         print(f"{name} has {len(module.__all__)} names")
        >>> end, _ = follow_imports(Follower()), sys.modules.pop("colorsys", None)
        >>> import colorsys
        colorsys begins
        colorsys has 6 names
        >>> end()
    """
    ENGINE.watch.follow(follower)
    return partial(ENGINE.watch.unfollow, follower)
