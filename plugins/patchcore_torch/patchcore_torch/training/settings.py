"""The settings and the options of ``patchcore run`` for profiling and a brake."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional, Union

from patchcore import DeclarationError, Setting, SettingsError
from patchcore.plugin import check_names
from patchcore_torch.tables import EnterInTable, enable_own_patches, read_table

__all__ = ["SETTINGS", "add_options"]

#: The options of ``[tool.patchcore.profiling]`` that are options of the command line, each with its value and help.
_PROFILING = {
    "level": ("0|1|2", "0: the accelerator only (default), 1: also the CPU and shapes, 2: also call stacks and memory"),
    "skip_first": ("N", "steps before the first recording (default: 20)"),
    "wait": ("N", "steps without profiler between two recordings (default: 1)"),
    "warmup": ("N", "steps with the profiler warming up before each recording (default: 1)"),
    "active": ("N", "steps of each recording (default: 1)"),
    "repeat": ("N", "recordings, 0 for as many as fit (default: 1)"),
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for profiling and brake."""
    from patchcore.plugin import SETTING_PREFIX

    group = parser.add_argument_group(
        "training",
        "Steps are counted from 1. Can also be set by PATCHCORE_PROFILING, PATCHCORE_BRAKE, PATCHCORE_STEP, and in "
        "[tool.patchcore].",
    )
    profiling = f"{SETTING_PREFIX}profiling"
    group.add_argument(
        "--profile",
        action=_Enter,
        dest=profiling,
        metavar="DIR",
        help="write a profile of training steps, by default of step 21, to this directory",
    )
    for name, (metavar, text) in _PROFILING.items():
        group.add_argument(_option_of(name), action=_Enter, dest=profiling, type=int, metavar=metavar, help=text)
    group.add_argument(
        "--brake",
        dest=f"{SETTING_PREFIX}brake",
        metavar="N|auto",
        help="end the program with exit code 0 after training step N, or (auto) when profiling is complete",
    )
    group.add_argument(
        "--step",
        action="append",
        dest=f"{SETTING_PREFIX}step",
        metavar="TARGET",
        help="count each call of this function, package.module:Class.method, as a training step; may be repeated",
    )


class _Enter(EnterInTable):
    prefix = "--profile"


def _profiling(value: Any, where: str, directory: Optional[Path]) -> Optional[Mapping[str, Any]]:
    """Check a table, or the path alone; an empty path stands for no profiling."""
    from patchcore_torch.training.options import ProfilingOptions  # for those who profile

    table = read_table(value, where, directory, "profile", _option_of)
    return None if table is None else ProfilingOptions.of(table).to_dict()


def _option_of(key: str) -> str:
    return f"--profile-{key.replace('_', '-')}"


def _brake(value: Any, where: str, directory: Optional[Path]) -> Union[int, str, None]:
    from patchcore_torch.training.options import check_brake

    return None if value == "" or value is None else check_brake(value)


def _steps(value: Any, where: str, directory: Optional[Path]) -> tuple[str, ...]:
    from patchcore_torch.training.loops import user_loop

    names = check_names(value, where, directory)
    for name in names:
        try:
            user_loop(name)
        except DeclarationError as error:
            raise SettingsError(f"{where}: {error}") from error
    return names


def _agree(values: Mapping[str, Any]) -> None:
    """Refuse a brake that ends the program before anything is recorded, or never."""
    if values.get("brake") is not None:
        from patchcore_torch.training.options import ProfilingOptions, brake_step

        profiling = values.get("profiling")
        brake_step(values["brake"], None if profiling is None else ProfilingOptions.of(profiling))


SETTINGS = (
    Setting(
        "profiling",
        _profiling,
        option="--profile",
        choices=enable_own_patches,
    ),
    Setting(
        "brake",
        _brake,
        choices=enable_own_patches,
        agree=_agree,
    ),
    Setting(
        "step",
        _steps,
        default=(),
    ),
)
