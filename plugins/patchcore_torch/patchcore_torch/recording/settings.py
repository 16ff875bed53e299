"""The setting ``record`` and its options of ``patchcore run``."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Optional

from patchcore import Setting, SettingsError
from patchcore.plugin import Choice, check_path

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
        group.add_argument(f"--record-{name}", action=_Enter, dest=record, **options)
    for name, text in _FLAGS.items():
        group.add_argument(f"--record-{name}", action=_Enter, dest=record, nargs=0, const=True, help=text)
    group.add_argument(
        "--same-random",
        action=_Enter,
        dest=record,
        nargs=0,
        const=True,
        help="draw random numbers on the CPU, whichever device needs them",
    )


class _Enter(argparse.Action):
    """Enters the value of an option in the table that is the setting ``record``."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Optional[str] = None) -> None:
        key = str(option).replace("--record", "").lstrip("-").replace("-", "_") or "path"
        value = self.const if self.nargs == 0 else values
        setattr(namespace, self.dest, {**(getattr(namespace, self.dest) or {}), key: value})


def _record(value: Any, where: str, directory: Optional[Path]) -> Optional[Mapping[str, Any]]:
    """Check a table, or the path alone; an empty path stands for no recording."""
    from patchcore_torch.recording.options import RecordingOptions  # for those who record

    table = dict(value) if isinstance(value, Mapping) else {"path": value}
    if "path" in table:
        table["path"] = check_path(table["path"], f"{where}.path", directory)
        if table["path"] is None:
            return None
    elif where.startswith("command line") and table:
        name = next(iter(table)).replace("_", "-")
        option = name if name == "same-random" else f"record-{name}"
        raise SettingsError(f"--{option} says how to record, and --record DIR is missing")
    return RecordingOptions.of(table).to_dict()


def _choices(value: Any, origin: str) -> Iterable[Choice]:
    """Enable the patches of the recording: ``--disable '*' --record DIR`` records the program without patches."""
    return [] if value is None else [Choice(True, "patchcore.torch", origin, strength=None)]


SETTINGS = (Setting("record", _record, option="--record", choices=_choices),)
