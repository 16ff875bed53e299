"""``patchcore new``: write a plugin that passes its own tests, from nothing or from a ``patch.py``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from patchcore.builtin.new.declarations import Migration, Remark
from patchcore.builtin.new.migrated import migrated_project
from patchcore.builtin.new.migration import read_migration
from patchcore.builtin.new.names import Names
from patchcore.builtin.new.project import example_project, new_folder, write_project
from patchcore.cli.output import print_line, print_table

__all__ = ["add_arguments", "main"]

_PATCH_COLUMNS = ("PATCH", "CHANGES", "DEFAULT", "LEFT TO DO")
_PROVIDED_COLUMNS = ("NAME", "DISTRIBUTION", "PATCHES")
_REMARK_COLUMNS = ("LINE", "WHAT", "WHAT TO DO")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Write a plugin: a folder with a package, an entry point, one example patch and its test. With "
        "--from, the patches are those of a patch.py for mx_driving.patcher 1.0 or 2.0, which is read and never run; "
        "what cannot be translated is listed."
    )
    parser.add_argument("name", metavar="NAME", help="of the distribution, and of its folder: bevformer-npu-patches")
    parser.add_argument("--from", dest="source", type=Path, metavar="PATCH.PY", help="read the patches of this file")
    parser.add_argument(
        "--directory", type=Path, default=Path(), metavar="DIR", help="where the folder is made (default: here)"
    )
    parser.set_defaults(command=main)


def main(options: argparse.Namespace) -> int:
    """Write the plugin, and print what was written and what is left to do.

    Raises:
        SettingsError: a name that cannot be, a folder that exists, a file that cannot be read.
    """
    names = Names.derive(options.name)
    folder = new_folder(options.directory, options.name)
    if options.source is None:
        write_project(folder, example_project(names))
        _print_next(folder)
        return 0
    migration = read_migration(options.source, names)
    write_project(folder, migrated_project(migration, names, options.source.name))
    _print_migration(migration, options.source)
    _print_next(folder)
    return 0


def _print_migration(migration: Migration, source: Path) -> None:
    rows = [
        (
            patch.name,
            str(len(patch.changes) - len(patch.remarks)),
            "yes" if patch.keywords.get("default", True) else "no",
            str(len(patch.remarks) or ""),
        )
        for patch in migration.patches
    ]
    print_table(f"Patches of {source}", _PATCH_COLUMNS, rows)
    provided = sorted({(p.name, p.distribution, ", ".join(p.patches)) for p in migration.provided})
    if provided:
        print_table("Provided by other plugins", _PROVIDED_COLUMNS, provided)
    if migration.settings:
        print_line("For the pyproject.toml of the program")
        print_line("\n".join(f"  {line}".rstrip() for line in migration.settings))
    for title, remarks in (("Left to do", migration.left), ("Notes", migration.notes)):
        if remarks:
            print_table(title, _REMARK_COLUMNS, _rows(remarks, source))
    if not migration.left:
        print_line("nothing is left to do by hand")


def _rows(remarks: Sequence[Remark], source: Path) -> list[tuple[str, str, str]]:
    return [(f"{source.name}:{remark.line}", remark.what, remark.advice) for remark in remarks]


def _print_next(folder: Path) -> None:
    print_line(f"written to {folder}; next: python -m pip install -e {folder} && python -m pytest {folder}")
