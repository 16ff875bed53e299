"""Built-in plugin ``signatures``: checks that a replacement accepts every call that its target accepts."""

from __future__ import annotations

from patchcore.hookspecs import hookimpl

__all__ = ["register_guards"]


@hookimpl
def register_guards() -> list[str]:
    return ["patchcore.builtin.signatures.guard:refuse_misfit"]
