"""Built-in plugin ``imports``: the kinds of change that choose the module that an import returns.

:class:`~patchcore.StubImport`, :class:`~patchcore.DummyImport`, :class:`~patchcore.ReplaceImport`,
:class:`~patchcore.InjectImport` and :class:`~patchcore.WhileImporting`. A third party adds
a kind of change in the same way.
"""

from __future__ import annotations

from patchcore.hookspecs import hookimpl

__all__ = ["register_writers"]


@hookimpl
def register_writers() -> dict[str, str]:
    changes, writers = "patchcore.builtin.imports.changes", "patchcore.builtin.imports"
    return {
        f"{changes}:StubImport": f"{writers}.stub_imports:StubWriter",
        f"{changes}:DummyImport": f"{writers}.stub_imports:DummyWriter",
        f"{changes}:ReplaceImport": f"{writers}.replaced_imports:ReplacementWriter",
        f"{changes}:WhileImporting": f"{writers}.while_importing:WhileImportingWriter",
    }
