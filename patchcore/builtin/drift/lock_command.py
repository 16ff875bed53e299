"""``patchcore lock``: write the patches that apply here to a file; ``lock --check`` compares, exit 1 if they differ."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from patchcore.builtin.drift.lockfile import FILE, differences, find_lock, make_lock, settings_to_lock, write_lock
from patchcore.builtin.shared.command_line import print_problems
from patchcore.builtin.shared.rows import print_table, print_text
from patchcore.cli import options as shared
from patchcore.cli.output import print_json, print_line
from patchcore.errors import PluginError
from patchcore.objects.printable import counted
from patchcore.planning.plan import Plan

__all__ = ["COLUMNS", "add_arguments", "main"]

COLUMNS = ("SUBJECT", "LOCKED", "HERE")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        f"Write what would be patched here, and into what, to {FILE}. With --check compare, and exit with 1 when "
        "something differs. Imports no target."
    )
    shared.add_selection(parser)
    shared.add_format(parser)
    parser.add_argument("--check", action="store_true", help="write nothing; show what differs from the file")
    parser.add_argument(
        "--file",
        type=Path,
        metavar="FILE",
        help=f"the file (default: the nearest {FILE} at or above the current directory, else one there)",
    )
    parser.set_defaults(command=main)


def main(options: argparse.Namespace) -> int:
    """Write the lock file, or print the differences from it.

    Returns:
        1 when something differs, or a plugin is broken.

    Raises:
        PluginError: a plugin is broken, and the file was to be written.
        SettingsError: the file cannot be read or written.
    """
    path: Path = options.file or find_lock(Path.cwd()) or Path(FILE)
    patcher = shared.patcher_from(options)
    plan = patcher.plan()
    print_problems(patcher)
    if patcher.plugins.problems and not options.check:
        raise PluginError(f"{path} is not written, because the patches of a broken plugin would be missing in it")
    code = (_check if options.check else _write)(path, plan, settings_to_lock(patcher), options.format == "json")
    return 1 if patcher.plugins.problems else code


def _write(path: Path, plan: Plan, settings: Mapping[str, str], as_json: bool) -> int:
    lock = make_lock(plan, settings)
    changed = write_lock(path, lock)
    if as_json:
        print_json({"file": str(path), "changed": changed, "lock": lock})
    else:
        counts = f"{counted(len(lock['patches']), 'patch')} to be applied, {len(lock['not_applied'])} not applied"
        print_text(f"{path} {'written' if changed else 'is unchanged'}: {counts}", indent=2)
    return 0


def _check(path: Path, plan: Plan, settings: Mapping[str, str], as_json: bool) -> int:
    found = differences(path, plan, settings)
    if as_json:
        rows = [{"subject": d.subject, "locked": d.one, "here": d.other} for d in found]
        print_json({"file": str(path), "differences": rows})
    elif found:
        print_table(f"Differences from {path}", COLUMNS, found)
    else:
        print_line("no differences")
    return 1 if found else 0
