"""Runs the program under ``patchcore run --trace-operators``, once for each device, each time in processes of its own.

torch cannot forget a device, so the CPU and the emulated NPU cannot be traced by one process.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import patchcore as pc
from npu_migrate.ops.judging import Trace
from npu_migrate.ops.records import merge, read_processes
from npu_migrate.ops.tracing import Request
from patchcore import SettingsError
from patchcore.plugin import find_command, find_module

__all__ = ["OPTION", "Program", "npu_options", "run"]

#: The option of ``patchcore run`` that traces.
OPTION = "--trace-operators"

#: Compiled code calls no operators that a trace could see.
_EAGER = {"TORCHDYNAMO_DISABLE": "1"}

_CALLING = "npu_migrate.ops.calling"

#: torch's variable, and the value that fake-cann sets where torch_npu is installed and has no CANN.
_AUTOLOAD, _NO_CANN = "TORCH_DEVICE_BACKEND_AUTOLOAD", "no-CANN"


@dataclass(frozen=True)
class Program:
    """The program that is traced.

    Args:
        name: path of a script, or ``module:function``.
        arguments: its own.
    """

    name: str
    arguments: tuple[str, ...] = ()

    def command(self, device: str) -> tuple[str, ...]:
        """Return the arguments after the options of ``patchcore run``.

        Args:
            device: ``cpu`` or ``npu``, told to a function that asks.

        Raises:
            SettingsError: there is no such script.
        """
        if not self.is_function:
            find_command(self.name, self.arguments, as_module=False)  # says now that there is none
            return (self.name, *self.arguments)
        return ("-m", _CALLING, device, self.name, *self.arguments)

    @property
    def folder(self) -> Optional[Path]:
        """The folder of a script, whose settings apply as under ``patchcore run``; ``None`` for a function."""
        return None if self.is_function else Path(self.name).resolve().parent

    @property
    def is_function(self) -> bool:
        """Distinguish ``module:function`` from a path; a file of that name is a script."""
        module, colon, function = self.name.partition(":")
        return (
            bool(colon) and not Path(self.name).exists() and all(map(str.isidentifier, [*module.split("."), function]))
        )


def npu_options() -> tuple[str, ...]:
    """Return the options of ``patchcore run`` that give its processes an NPU: none where torch_npu has its CANN.

    Raises:
        SettingsError: there is neither a real nor an emulated one.
    """
    has_cann = os.environ.get(_AUTOLOAD) != _NO_CANN
    if has_cann and find_module("torch_npu"):
        return ()
    if not has_cann or find_module("npu_emulator"):
        return ("--emulate-npu",)
    raise SettingsError(
        f"tracing an NPU needs torch_npu or npu_emulator, and neither is installed: "
        f"{pc.install_command('npu-emulator')}, "
        "or trace the CPU only: --device cpu"
    )


def run(
    name: str, device: str, program: Program, options: Sequence[str], request: Request, *, late: Sequence[str] = ()
) -> Trace:
    """Run the program and return the trace of its operators. Its output goes to stderr.

    Args:
        name: of the trace.
        device: ``cpu`` or ``npu``.
        program: the command to run.
        options: of ``patchcore run`` itself.
        request: for the tracing processes.
        late: options that plugins have added to ``patchcore run``.
    """
    with tempfile.TemporaryDirectory(prefix="patchcore-ops-") as text:
        folder = Path(text)
        request.write(folder)
        command = [sys.executable, "-m", "patchcore", "run", *options, OPTION, text, *late, *program.command(device)]
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        environment = {**os.environ, **_EAGER}
        code = subprocess.call(command, stdin=subprocess.DEVNULL, stdout=_stderr(), env=environment)
        processes = [process for process in read_processes(folder) if process.torch is not None]
    torch = processes[0].torch if processes else None
    emulated = sum(process.emulated for process in processes)
    return Trace(name, device, code, len(processes), merge(processes), torch, emulated)


def _stderr() -> int:
    """The file that errors go to, also where ``sys.stderr`` is no file."""
    try:
        return sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        return os.dup(2)
