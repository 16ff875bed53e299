"""``patchcore adopt``: runs a program, and writes a plugin from the monkey patches that it makes."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from patchcore.builtin.adopt.adoption import Adoption, adopt, parse_phases
from patchcore.builtin.adopt.writing import adopted_project
from patchcore.builtin.audit.command import audited, rows_of
from patchcore.builtin.install.command import install_command
from patchcore.builtin.new.about import find_about
from patchcore.builtin.new.names import PluginNames
from patchcore.builtin.new.project import add_project_options, as_argument, new_folder, write_project
from patchcore.builtin.run import command as run
from patchcore.builtin.shared import examples
from patchcore.builtin.shared.rows import print_table
from patchcore.cli import EXIT_OK
from patchcore.cli import options as shared
from patchcore.cli.output import print_error, print_line
from patchcore.errors import SettingsError
from patchcore.objects.printable import counted

__all__ = ["add_arguments", "main", "parse"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command; it takes the options of ``patchcore run``, too."""
    parser.add_argument("name", metavar="NAME", help="of the distribution, and of its folder: bevformer-npu-patches")
    parser.add_argument(
        "--phase",
        action="append",
        default=[],
        metavar="PHASE[=PACKAGE]",
        help="when patches apply: after:megatron.training, when that is imported; with =megatron those of this package "
        "only; may be repeated",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="DISTRIBUTION",
        help="adopt the patches that this distribution makes; may be repeated (default: all)",
    )
    parser.add_argument(
        "--split",
        action="store_true",
        help="one patch for each module that defines new code, not for each distribution",
    )
    add_project_options(parser)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments after ``adopt``: its own, ``--``, and those of ``patchcore run``."""
    parser = shared.Parser(
        prog="patchcore adopt",
        example=examples.ADOPT,
        usage="patchcore adopt [options] NAME -- [options of patchcore run] PROGRAM [arguments]",
        description="Run a program, and write a plugin from the monkey patches that its own code and its libraries "
        "make: each as a declaration with its target, the version on which it was seen, and its replacement by "
        "reference. What cannot be declared is listed. Patches of patchcore are not adopted, nor those that a library "
        "makes in every process.",
        epilog="patchcore audit shows the same patches, and who makes them.",
        allow_abbrev=False,
    )
    add_arguments(parser)
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:end])
    options.run = list(arguments[end + 1 :])
    if not options.run:
        parser.error(f"expected a program: patchcore adopt {options.name} -- train.py")
    options.command = main
    return options


def main(options: argparse.Namespace) -> int:
    """Run the program, write the plugin, and print what is left; the program's exit code if it fails.

    Raises:
        SettingsError: the name is impossible, the folder exists, ``--phase`` or ``--only`` names what has no patch, or
            nothing can be adopted.
    """
    phases = parse_phases(options.phase)
    names = PluginNames.derive(options.name)
    folder = new_folder(options.directory, options.name)
    about = find_about(options.directory, options.license)
    with tempfile.TemporaryDirectory(prefix="patchcore-adopt-") as reports:
        code, processes = audited(options.run, Path(reports))
    if code:
        print_error(
            f"the program ended with exit code {code}; nothing is written" if processes else "nothing is written"
        )
        return code
    rows = [row for process in processes for row in rows_of(process)]
    adoption = adopt(rows, split=options.split, phases=phases, only=options.only)
    if not adoption.groups:
        _print_left(adoption)
        raise SettingsError(
            "the program makes no patch that can be declared; patchcore audit shows those that it makes"
        )
    program = " ".join(run.parse(options.run).program)
    write_project(folder, adopted_project(adoption, names, about, program))
    _record(folder, names)
    print_table(
        "Patches",
        ("PATCH", "PLACES", "REQUIRES", "AFTER"),
        [
            (f"{names.plugin}.{g.name}", str(len(g.modules + g.changes)), ", ".join(g.requires), ", ".join(g.after))
            for g in adoption.groups
        ],
    )
    if adoption.conflicts:
        print_table("Conflicts, declared as they were", ("TARGET", "CONFLICT"), list(adoption.conflicts.items()))
    _print_left(adoption)
    if adoption.importing and not phases:
        print_line(
            f"the new code of {counted(len(adoption.importing), 'place')} imports the library that it patches, such as "
            f"that of {adoption.importing[0]}: if a patch fails with a circular import, write the plugin again with "
            "--phase after:MODULE"
        )
    print_line(f"written to {folder}; take the lines that its README.md names out of the program; next:")
    print_line(f"  {install_command('-e', as_argument(folder))}")
    return EXIT_OK


def _record(folder: Path, names: PluginNames) -> None:
    """Record the fingerprints of the targets, in the package."""
    command = [sys.executable, "-m", "patchcore", "fingerprint", "--no-import", f"-p{names.package}.plugin"]
    command.append(f"{names.package}.plugin")
    paths = [os.getcwd(), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]  # as the program's
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, paths))}
    # Python looks in the current folder first: there may be another package of this name beside the program.
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        print_error(f"no fingerprints were recorded, so check cannot see changes of the targets: {done.stderr.strip()}")


def _print_left(adoption: Adoption) -> None:
    if adoption.left:
        print_table(
            "Left in the program",
            ("TARGET", "WRITTEN AT", "WHY"),
            [(e.target, e.written, e.why) for e in adoption.left],
        )
