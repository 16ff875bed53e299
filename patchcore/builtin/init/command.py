"""``patchcore init``: write ``[tool.patchcore]`` with every setting as a comment, beside the project."""

from __future__ import annotations

import argparse
from pathlib import Path

from patchcore.builtin.files import write_whole
from patchcore.cli.output import print_line
from patchcore.errors import SettingsError
from patchcore.plugins import Plugins
from patchcore.settings import Setting, read_table

__all__ = ["EXAMPLES", "add_arguments", "main", "table"]

#: A line for each setting of the core; plugins bring theirs, see ``Setting.example``.
EXAMPLES = (
    'plugins = ["mmcv", "torch_npu"]  # load only these plugins; "no:NAME" leaves one out',
    'modules = ["migrate_to_ascend.patch"]  # patch modules of this project, without packaging',
    'enable = ["mmdet.resnet_fp16"]  # also apply: a patch, a target or a plugin',
    'disable = ["mmcv.deform_conv"]  # do not apply: a patch, a target or a plugin; "*" for all',
    'on_failure = "raise"  # when a patch fails: "warn" (default), "raise" or "ignore"',
    "count = true  # count the calls of what is patched",
    'variant = "cpu"  # the table below that is applied on top of this one',
    'options."torch.internal_format" = { allow = true }  # options of one patch',
    'variants.cpu = { disable = ["mmcv.deform_conv"] }  # another set of settings: --variant cpu',
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Write a table [tool.patchcore] to pyproject.toml, with a commented line for each setting, those of the "
        "installed plugins too. An existing table is left alone."
    )
    parser.add_argument(
        "folder", nargs="?", default=".", type=Path, metavar="FOLDER", help="of the project (default: this one)"
    )
    parser.add_argument("--print", action="store_true", dest="show", help="print the table instead of writing it")
    parser.set_defaults(command=main)


def main(options: argparse.Namespace) -> None:
    """Write or print the table.

    Raises:
        SettingsError: there is a table already, or the file cannot be read or written.
    """
    text = table(Plugins().settings())
    if options.show:
        print_line(text.rstrip("\n"))
        return
    path: Path = options.folder / "pyproject.toml"
    if not options.folder.is_dir():
        raise SettingsError(f"there is no folder {options.folder}")
    try:
        before = path.read_bytes() if path.exists() else b""
        if before and read_table(path) is not None:
            raise SettingsError(f"{path} has [tool.patchcore] already; patchcore init --print shows all settings")
        newline = b"\r\n" if b"\r\n" in before else b"\n"
        gap = b"" if not before else newline if before.endswith(b"\n") else newline * 2
        added = text.encode().replace(b"\n", newline)
        write_whole(path, before + gap + added)
        try:
            read_table(path)
        except SettingsError:  # tool = {...} can have no further tables
            write_whole(path, before)
            raise
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror or error}") from error
    print_line(f"{path}: [tool.patchcore] added; remove the # of a line to set it, and try patchcore check")


def table(settings: list[Setting]) -> str:
    """Return the table with each setting as a comment.

    Args:
        settings: of the plugins.
    """
    examples = [*EXAMPLES, *(setting.example or f'{setting.key} = ""  # a setting of a plugin' for setting in settings)]
    return "\n".join(["[tool.patchcore]", *(f"# {example}" for example in examples), ""])
