"""Write the files of a new plugin."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from patchcore.builtin.new import templates
from patchcore.builtin.new.about import DEFAULT_LICENSE, PluginMetadata
from patchcore.builtin.new.names import PluginNames
from patchcore.builtin.shared.files import write_whole
from patchcore.errors import SettingsError

__all__ = ["add_project_options", "as_argument", "example_project", "new_folder", "write_project"]


def add_project_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that write a plugin: ``--directory`` and ``--license``."""
    parser.add_argument(
        "--directory", type=Path, default=Path(), metavar="DIR", help="where the folder is made (default: here)"
    )
    parser.add_argument(
        "--license",
        default=DEFAULT_LICENSE,
        metavar="SPDX",
        help=f"the licence, as an SPDX expression (default: {DEFAULT_LICENSE})",
    )


def as_argument(folder: Path) -> str:
    """Return a folder as pip takes it for a folder and not for a distribution: ``./shop-npu``."""
    return str(folder) if folder.is_absolute() else f"./{folder}"


def example_project(names: PluginNames, about: PluginMetadata) -> dict[str, str]:
    """Return the files of a plugin with one example patch: texts by path, relative to the project's folder.

    Args:
        names: of the plugin.
        about: its author, licence and source.
    """
    return {
        "pyproject.toml": templates.render_pyproject(names, "Patches, as a patchcore plugin", about),
        "README.md": templates.example_readme(names),
        f"{names.package}/__init__.py": templates.render_package(names),
        f"{names.package}/py.typed": "",
        f"{names.package}/plugin.py": templates.example_plugin(names),
        "tests/test_plugin.py": templates.example_test(names),
    }


def new_folder(directory: Path, name: str) -> Path:
    """Return the folder ``name`` in ``directory``, which is to be made.

    Raises:
        SettingsError: it exists, or ``directory`` does not.
    """
    folder = directory / name
    if not directory.is_dir():
        raise SettingsError(f"there is no directory {directory}; make it: mkdir -p {directory}")
    if folder.exists() or folder.is_symlink():
        raise SettingsError(
            f"{folder} exists, and nothing is overwritten; choose another name, or another place: "
            f"patchcore new {name} --directory DIR"
        )
    return folder


def write_project(folder: Path, files: Mapping[str, str]) -> None:
    """Write ``files`` (texts by relative path) to ``folder``, which must not exist.

    Raises:
        SettingsError: the folder cannot be written.
    """
    try:
        folder.mkdir()
        for path, text in files.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(file, text)
    except OSError as error:
        raise SettingsError(f"{folder} cannot be written: {error}") from error
