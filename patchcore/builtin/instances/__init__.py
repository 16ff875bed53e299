"""Built-in plugin ``instances``: the kind of change :class:`~patchcore.Instances`, a method of some of the objects."""

from __future__ import annotations

from patchcore.hookspecs import hookimpl

__all__ = ["register_writers"]


@hookimpl
def register_writers() -> dict[str, str]:
    return {"patchcore.builtin.instances.change:Instances": "patchcore.builtin.instances.writer:InstancesWriter"}
