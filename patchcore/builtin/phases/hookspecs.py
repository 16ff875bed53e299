"""The hook that the plugin ``phases`` brings."""

from __future__ import annotations

from collections.abc import Iterable

from patchcore.hookspecs import hookspec

__all__ = ["register_phases"]


@hookspec
def register_phases() -> Iterable[str]:  # type: ignore[empty-body]
    """Return the names of the phases of this plugin, in order: to reach one is to reach those before it, too.

    A patch with ``phase="worker"`` waits until the program calls ``patchcore.reach("worker")``. The import of a module
    reaches ``"before:package.module"`` and ``"after:package.module"``. Such phases need not be listed; they are if they
    have a place in the order. Two plugins may list one phase. Called when patches are collected.
    """
