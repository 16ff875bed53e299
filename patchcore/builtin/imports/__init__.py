"""Built-in plugin ``imports``: the kinds of change that edit what importing a module does.

:class:`~patchcore.StubImport`, :class:`~patchcore.ReplaceImport`, :class:`~patchcore.InjectImport` and
:class:`~patchcore.WhileImporting`. A third party adds a kind of change in the same way.
"""

from __future__ import annotations

from typing import Any

from patchcore.hookspecs import hookimpl

__all__ = ["register_writers"]


@hookimpl
def register_writers() -> dict[Any, Any]:
    from patchcore.builtin.imports.changes import ReplaceImport, StubImport, WhileImporting
    from patchcore.builtin.imports.replaced_imports import ReplacementWriter
    from patchcore.builtin.imports.stub_imports import StubWriter
    from patchcore.builtin.imports.windows import WindowWriter

    return {StubImport: StubWriter, ReplaceImport: ReplacementWriter, WhileImporting: WindowWriter}
