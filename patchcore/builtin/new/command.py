"""``patchcore new``: write a plugin that passes its own tests, from nothing or from the patches of a file."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from patchcore.builtin.install.command import install_command, python_command
from patchcore.builtin.install.distributions import CORE
from patchcore.builtin.new.about import PluginMetadata, find_about
from patchcore.builtin.new.names import PluginNames
from patchcore.builtin.new.project import (
    add_project_options,
    as_argument,
    example_project,
    new_folder,
    write_project,
)
from patchcore.builtin.new.source import PluginSource, TitledRows
from patchcore.builtin.shared.rows import print_table
from patchcore.cli import options as shared
from patchcore.cli.output import print_error, print_json, print_line
from patchcore.declare.changes import Skip
from patchcore.errors import SettingsError
from patchcore.objects.modules import find_module
from patchcore.planning.distributions import version_of
from patchcore.plugins import Plugins
from patchcore.settings import Settings

__all__ = ["add_arguments", "main"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Write a plugin: a folder with a package, an entry point, one example patch and its test. With "
        "--from, the patches are those of a patch.py for mx_driving.patcher 1.0 or 2.0, which is read and never run; "
        "what cannot be translated is listed."
    )
    parser.add_argument("name", metavar="NAME", help="of the distribution, and of its folder: bevformer-npu-patches")
    parser.add_argument("--from", dest="source", type=Path, metavar="PATCH.PY", help="read the patches of this file")
    add_project_options(parser)
    shared.add_format(parser)
    parser.set_defaults(command=main)


def main(options: argparse.Namespace) -> int:
    """Write the plugin, and print the written files and the next steps.

    Raises:
        SettingsError: the name is impossible, the folder exists, or the file cannot be read.
    """
    names = PluginNames.derive(options.name)
    folder = new_folder(options.directory, options.name)
    about = find_about(options.directory, options.license)
    if options.source is None:
        _write(folder, PluginSource(example_project(names, about)), options.format == "json")
        return 0
    source = _read(options.source, names, about)
    if options.format == "json":
        _write(folder, source, True)
        return 0
    for told in source.told:
        if isinstance(told, TitledRows):
            print_table(*told)
        else:
            print_line(told)
    _write(folder, source, False)
    print_line(f"its code is written without regard to layout; to lay it out: ruff format {folder}")
    return 0


def _read(path: Path, names: PluginNames, about: PluginMetadata) -> PluginSource:
    """Return the sources that a plugin makes from a file.

    Raises:
        SettingsError: no plugin can.
    """
    settings = Settings.load()
    plugins = Plugins(allowed=settings.plugins, modules=settings.modules)
    refusals = []
    for provenance, answer in plugins.each("read_plugin_source", path=path, names=names, about=about):
        if isinstance(answer, PluginSource):
            return answer
        if isinstance(answer, Skip):
            refusals.append(answer.reason)
        elif answer is not None:
            error = TypeError(f"expected a PluginSource, a Skip or None, got {answer!r}")
            plugins.note(provenance, "read_plugin_source", error)
    for problem in plugins.problems:
        print_error(str(problem))
    if refusals:
        raise SettingsError(refusals[0])
    left_out = ", ".join(provenance.plugin for provenance in plugins.denied)
    hint = f" (left out by the setting plugins: {left_out})" if left_out else ""
    raise SettingsError(
        f"--from {path}: no installed plugin reads this file{hint}; for a patch.py of mx_driving.patcher: "
        f"{install_command('mx-driving-compat')}"
    )


def _write(folder: Path, source: PluginSource, as_json: bool) -> None:
    write_project(folder, source.files)
    following = _next(folder, source)
    if as_json:
        tables = [
            {"title": one.title, "rows": [dict(zip(one.columns, row)) for row in one.rows]}
            for one in source.told
            if isinstance(one, TitledRows)
        ]
        lines = [one for one in source.told if isinstance(one, str)]
        files = sorted(source.files)
        print_json({"folder": str(folder), "files": files, "tables": tables, "lines": lines, "next": following})
        return
    print_line(f"written to {folder}; next: {following}")


def _next(folder: Path, source: PluginSource) -> str:
    """Return the command line that installs the plugin with its missing distributions, and runs its tests."""
    missing = [name for name in (CORE, *source.needs) if version_of(name) is None]
    missing += [] if find_module("pytest") else ["pytest"]
    place = as_argument(folder)
    return f"{install_command(*missing, '-e', place)} && {python_command()} -m pytest {shlex.quote(place)}"
