"""Built-in plugin ``signatures``: checks the calls that a replacement accepts, and the attributes that it has."""

from __future__ import annotations

from patchcore.hookspecs import hookimpl

__all__ = ["register_guards"]


@hookimpl
def register_guards() -> list[str]:
    return [
        "patchcore.builtin.signatures.guard:refuse_misfit",
        "patchcore.builtin.signatures.attributes:note_lost_attributes",
    ]
