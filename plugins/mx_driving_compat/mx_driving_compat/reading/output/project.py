"""Writes the files of a plugin that is made from a ``patch.py``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mx_driving_compat.reading.declarations import Migration, Provided, Remark
from mx_driving_compat.reading.output import modules
from patchcore import __version__
from patchcore.plugin import PluginMetadata, PluginNames, render_package, render_pyproject

__all__ = ["migrated_project"]

_INTRODUCTION = """\
# {distribution}

The patches of `{file}`, as a plugin of patchcore.

    python -m pip install -e .
    python -m pip install pytest
    python -m pytest
    ruff format .                   # lays the written code out
    patchcore list                  # the patches, and whether they are applied here
    patchcore check --apply         # whether every target is there, where the libraries are
    patchcore run train.py          # a program, with them

- `{package}/plugin.py` declares the patches. It imports no library.
- `{package}/replacements.py` is `{file}` as it was, but for where it imports the API that it was written for. It is
  imported when the first of its functions is needed. What it says about its authors and its licence holds.
"""
_FUNCTIONS = """\
- `{package}/functions.py` has the methods of its patch classes as functions.
"""


def migrated_project(migration: Migration, names: PluginNames, file: str, about: PluginMetadata) -> dict[str, str]:
    """Return the files of the plugin: texts by path, relative to the project's folder.

    Args:
        migration: the declarations that were read.
        names: of the plugin.
        file: name of the file that was read.
        about: author, licence and source of the plugin.
    """
    package = names.package
    dependencies = [f"{distribution}>={__version__}" for distribution in migration.distributions]
    files = {
        "pyproject.toml": render_pyproject(
            names,
            f"The patches of {file}, as a patchcore plugin",
            about,
            dependencies=dependencies,
            has_copy=True,
        ),
        "README.md": _readme(migration, names, file),
        f"{package}/__init__.py": render_package(names),
        f"{package}/py.typed": "",
        f"{package}/plugin.py": modules.plugin_module(migration, names, file),
        f"{package}/replacements.py": migration.replacements,
        "tests/test_plugin.py": modules.plugin_test(migration, names),
    }
    if migration.functions:
        files[f"{package}/functions.py"] = modules.functions_module(migration, names)
    return files


def _readme(migration: Migration, names: PluginNames, file: str) -> str:
    parts = [_INTRODUCTION.format(file=file, **names._asdict())]
    if migration.functions:
        parts[0] += _FUNCTIONS.format(package=names.package)
    if migration.settings:
        lead = "What the file switches on, off and sets goes into the pyproject.toml of the program that is trained:\n"
        parts += ["## Settings\n", lead, "\n".join(["```toml", *migration.settings, "```"]) + "\n"]
    if migration.provided:
        parts += ["## Provided by other plugins\n", "\n".join(_provided(migration.provided)) + "\n"]
    for title, remarks in (("Left to do", migration.left), ("Notes", migration.notes)):
        if remarks:
            parts += [f"## {title}\n", "\n".join(_remarks(remarks, file)) + "\n"]
    return "\n".join(parts)


def _provided(provided: Iterable[Provided]) -> Iterator[str]:
    yield "| in the file | patch | distribution | applied |"
    yield "|---|---|---|---|"
    for entry in provided:
        patches = ", ".join(f"`{patch}`" for patch in entry.patches)
        applied = "by default" if entry.default else "when enabled"
        yield f"| `{entry.name}` | {patches} | `{entry.distribution}` | {applied} |"


def _remarks(remarks: Iterable[Remark], file: str) -> Iterator[str]:
    return (f"- {file}:{remark.line}: `{remark.what}`: {remark.advice}" for remark in remarks)
