"""Runs a program twice under ``patchcore run --record``."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from patchcore import SettingsError
from patchcore.plugin import find_command, print_line, write_whole
from patchcore_torch.compared.reading import Recording, read

__all__ = ["record_twice"]

#: What a recording in the folder of both was made with.
_MADE_WITH = "made-with.json"


def record_twice(program: Sequence[str], runs: Sequence[str], common: Sequence[str], folder: Path) -> list[Recording]:
    """Run a program with two sets of options, and return the recordings.

    A recording that is in the folder already, complete, and made by the same command is used again.

    Args:
        program: the program and its arguments; a module's name after ``-m``.
        runs: the options of ``patchcore run`` of the first and of the second run, as one text each.
        common: options of both.
        folder: for the recordings.

    Raises:
        SettingsError: there is no such program, the folder has other recordings, or a run recorded nothing.
    """
    module = program[:1] == ["-m"]
    find_command(program[1] if module else program[0], program[2 if module else 1 :], as_module=module)
    command = list(program) if module else ["--", *program]
    return [
        _record(name, [*shlex.split(options), *common], command, folder / name)
        for name, options in zip(("first", "second"), runs)
    ]


def _record(name: str, options: list[str], command: list[str], folder: Path) -> Recording:
    made_with = {"options": options, "command": command, "folder": os.getcwd()}
    if _is_made(folder, made_with):
        print_line(f"{name} run: {folder} has been recorded by the same command, and is used again")
        return read(folder)
    if folder.exists() and any(folder.iterdir()):
        raise SettingsError(f"{folder} has another recording; name another folder with --into, or delete it")
    arguments = ["run", "--record", str(folder), *options, *command]
    print_line(f"{name} run: patchcore {shlex.join(arguments)}")
    done = subprocess.run([sys.executable, "-m", "patchcore", *arguments], stdout=sys.stderr, check=False)
    if done.returncode:
        raise SettingsError(f"the {name} run failed with exit code {done.returncode}, its output is above")
    recording = read(folder)
    write_whole(folder / _MADE_WITH, json.dumps(made_with))
    return recording


def _is_made(folder: Path, made_with: dict[str, Any]) -> bool:
    try:
        return bool(json.loads((folder / _MADE_WITH).read_text(encoding="utf-8")) == made_with)
    except (OSError, ValueError):
        return False
