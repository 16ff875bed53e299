"""``patchcore completion``: what a shell needs to complete commands, options and files; made by shtab."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from patchcore.builtin.install.command import install_command
from patchcore.cli import build_parser
from patchcore.errors import SettingsError

__all__ = ["SHELLS", "add_arguments", "main"]

#: The shells, each with the file that it reads completions of patchcore from.
SHELLS = {
    "bash": "~/.local/share/bash-completion/completions/patchcore",
    "zsh": "~/.zfunc/_patchcore",
    "fish": "~/.config/fish/completions/patchcore.fish",
}

#: As in the extra ``completion``.
_SHTAB = "shtab>=1.7"

#: What the values of arguments are, by their name in the usage.
_FOLDERS = ("DIR", "FOLDER", "DIRECTORY")
_FILES = ("FILE", "PATH", "SCRIPT", "TRACE")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = (
        "Print a script that lets a shell complete the commands and options of patchcore,\n"
        "those of the plugins that are installed now too. Needs shtab:\n\n"
        f"  {install_command(_SHTAB)}"
    )
    lines = (f"  {shell}: patchcore completion {shell} > {file}" for shell, file in SHELLS.items())
    parser.epilog = "\n".join(
        ["switch it on, for new shells:", *lines, "", "zsh also needs fpath+=~/.zfunc before compinit in ~/.zshrc."]
    )
    parser.add_argument("shell", choices=list(SHELLS), help="the shell")
    parser.set_defaults(command=main)


def main(options: argparse.Namespace) -> None:
    """Print the script.

    Raises:
        SettingsError: shtab is not installed.
    """
    try:
        import shtab
    except ImportError as error:
        raise SettingsError(f"patchcore completion needs shtab: {install_command(_SHTAB)}") from error
    parser, subparsers, _ = build_parser(discover=True)
    for command in subparsers.choices.values():
        if command.fill is not None:
            command.fill(command)
    for each in _parsers(parser):
        for action in each._actions:
            if action.metavar in (*_FOLDERS, *_FILES):
                kind = shtab.DIRECTORY if action.metavar in _FOLDERS else shtab.FILE
                action.complete = kind  # type: ignore[attr-defined]  # shtab looks for it
    print(shtab.complete(parser, shell=options.shell))


def _parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and those of its commands."""
    yield parser
    for action in parser._actions:
        below: Any = action.choices
        for command in below.values() if isinstance(below, dict) else ():
            yield from _parsers(command)
