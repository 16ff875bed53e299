"""Built-in plugin ``call``: the kind of change :class:`~patchcore.Call`, which runs a function that patches by hand."""

from __future__ import annotations

from patchcore.hookspecs import hookimpl

__all__ = ["register_writers"]


@hookimpl
def register_writers() -> dict[str, str]:
    return {"patchcore.builtin.call.change:Call": "patchcore.builtin.call.writer:CallWriter"}
