"""Built-in plugin ``each_module``: the kind of change :class:`~patchcore.EachModule`, for modules of a package."""

from __future__ import annotations

from patchcore.hookspecs import hookimpl

__all__ = ["register_writers"]


@hookimpl
def register_writers() -> dict[str, str]:
    return {"patchcore.builtin.each_module.change:EachModule": "patchcore.builtin.each_module.writer:EachModuleWriter"}
