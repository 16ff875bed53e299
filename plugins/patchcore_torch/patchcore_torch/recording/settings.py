"""The setting ``record`` and its options of ``patchcore run``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional

from patchcore import Setting
from patchcore_torch.tables import EnterInTable, enable_own_patches, read_table

__all__ = ["SETTINGS", "add_options"]

#: The options of ``[tool.patchcore.record]`` that are options of the command line.
_OPTIONS: dict[str, dict[str, Any]] = {
    "steps": {"metavar": "N-M,...", "help": "the steps that are recorded (default: 1-2)"},
    "ranks": {"metavar": "N,...", "help": "the ranks that are recorded (default: all)"},
    "limit": {"metavar": "MB", "type": int, "help": "megabytes that a process may write (default: 1024)"},
}
_FLAGS = {
    "operators": "also record each operator in the modules",
    "tensors": "keep the tensors, too, and not only numbers about them",
    "same_random": "draw random numbers on the CPU, whichever device needs them",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of recordings."""
    from patchcore.plugin import SETTING_PREFIX

    group = parser.add_argument_group("recording", "For patchcore compare. Can also be set in [tool.patchcore.record].")
    record = f"{SETTING_PREFIX}record"
    group.add_argument(
        "--record",
        action=_Enter,
        dest=record,
        metavar="DIR",
        help="write what modules, gradients and optimizers compute in the first steps to this directory",
    )
    for name, options in _OPTIONS.items():
        group.add_argument(_option_of(name), action=_Enter, dest=record, **options)
    for name, text in _FLAGS.items():
        group.add_argument(_option_of(name), action=_Enter, dest=record, nargs=0, const=True, help=text)


class _Enter(EnterInTable):
    prefix = "--record"


def _record(value: Any, where: str, directory: Optional[Path]) -> Optional[Mapping[str, Any]]:
    """Check a table, or the path alone; an empty path stands for no recording."""
    from patchcore_torch.recording.options import RecordingOptions  # for those who record

    table = read_table(value, where, directory, "record", _option_of)
    return None if table is None else RecordingOptions.of(table).to_dict()


def _option_of(key: str) -> str:
    return "--same-random" if key == "same_random" else f"--record-{key.replace('_', '-')}"


SETTINGS = (Setting("record", _record, option="--record", choices=enable_own_patches),)
