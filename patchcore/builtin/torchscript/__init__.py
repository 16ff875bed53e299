"""Built-in plugin ``torchscript``: TorchScript calls patched functions through Python, or says why it cannot."""

from __future__ import annotations

from patchcore.hookspecs import hookimpl

__all__ = ["register_marks"]


@hookimpl
def register_marks() -> list[str]:
    return ["patchcore.builtin.torchscript.marks:mark"]
