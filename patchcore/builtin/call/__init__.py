"""Built-in plugin ``call``: puts :class:`~patchcore.Call` in force, which runs a function that patches by hand."""

from __future__ import annotations

from typing import Any

from patchcore.hookspecs import hookimpl

__all__ = ["register_writers"]


@hookimpl
def register_writers() -> dict[Any, Any]:
    from patchcore.builtin.call.change import Call
    from patchcore.builtin.call.writer import CallWriter

    return {Call: CallWriter}
