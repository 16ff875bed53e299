"""Built-in plugin ``rewrite``: the kind of change that edits the source of modules while Python compiles it.

:class:`~patchcore.Rewrite` with its :class:`~patchcore.Rules`. Nothing is written to files.
"""

from __future__ import annotations

from patchcore.hookspecs import hookimpl

__all__ = ["register_writers"]


@hookimpl
def register_writers() -> dict[str, str]:
    return {"patchcore.builtin.rewrite.changes:Rewrite": "patchcore.builtin.rewrite.writer:RewriteWriter"}
