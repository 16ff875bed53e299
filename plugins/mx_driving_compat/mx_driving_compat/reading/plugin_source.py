"""Reads a ``patch.py`` for ``patchcore new --from``: the files of the plugin, and the output of the command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Union

from mx_driving_compat.reading.declarations import Migration, Remark
from mx_driving_compat.reading.migration import read_migration
from mx_driving_compat.reading.output.project import migrated_project
from patchcore.plugin import PluginMetadata, PluginNames, PluginSource, TitledRows

__all__ = ["plugin_source"]

_PATCH_COLUMNS = ("PATCH", "CHANGES", "DEFAULT", "LEFT TO DO")
_PROVIDED_COLUMNS = ("NAME", "DISTRIBUTION", "PATCHES")
_REMARK_COLUMNS = ("LINE", "WHAT", "WHAT TO DO")


def plugin_source(path: Path, names: PluginNames, about: PluginMetadata) -> PluginSource:
    """Return the plugin called ``names`` that the file at ``path`` becomes, with its author, licence and source.

    Raises:
        SettingsError: the file cannot be read, is no Python, or does not use mx_driving.patcher.
    """
    migration = read_migration(path, names)
    files = migrated_project(migration, names, path.name, about)
    return PluginSource(files, tuple(_told(migration, path)), migration.distributions)


def _told(migration: Migration, path: Path) -> Iterator[Union[TitledRows, str]]:
    rows = [
        (
            patch.name,
            str(len(patch.changes) - len(patch.remarks)),
            "yes" if patch.keywords.get("default", True) else "no",
            str(len(patch.remarks) or ""),
        )
        for patch in migration.patches
    ]
    yield TitledRows(f"Patches of {path}", _PATCH_COLUMNS, rows)
    provided = sorted({(p.name, p.distribution, ", ".join(p.patches)) for p in migration.provided})
    if provided:
        yield TitledRows("Provided by other plugins", _PROVIDED_COLUMNS, provided)
    if migration.settings:
        yield "For the pyproject.toml of the program"
        yield "\n".join(f"  {line}".rstrip() for line in migration.settings)
    for title, remarks in (("Left to do", migration.left), ("Notes", migration.notes)):
        if remarks:
            yield TitledRows(title, _REMARK_COLUMNS, _rows(remarks, path.name))
    if not migration.left:
        yield "nothing is left to do by hand"


def _rows(remarks: Sequence[Remark], file: str) -> list[tuple[str, str, str]]:
    return [(f"{file}:{remark.line}", remark.what, remark.advice) for remark in remarks]
