"""``python -m fake_cann``: run a program on the fake CANN, list operators, build the libraries."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Optional

from fake_cann.errors import FakeCannError
from patchcore.plugin import counted

__all__ = ["main"]


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run a command.

    Args:
        arguments: of the command line, without the program's name.

    Returns:
        The exit code: 0, or 1 with a message on stderr. ``run`` becomes the program that it runs.
    """
    parser = argparse.ArgumentParser(prog="python -m fake_cann", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run a Python program, and its children, on the fake CANN")
    run.add_argument("--devices", type=int, help="how many NPUs there are (FAKE_CANN_DEVICES), 8 by default")
    run.add_argument("--memory-mib", type=int, help="memory of each (FAKE_CANN_MEMORY_MIB), 65536 by default")
    run.add_argument("--soc", help="name of the chip (FAKE_CANN_SOC), Ascend910B3 by default")
    run.add_argument(
        "program", nargs=argparse.REMAINDER, help="arguments of python: a file, -m and a module, -c and code"
    )
    operators = commands.add_parser("operators", help="list the operators that the installed torch_npu can call")
    operators.add_argument("--only", choices=("computed", "refused"), help="list only these")
    build = commands.add_parser("build", help="compile the libraries for the installed torch")
    build.add_argument("--force", action="store_true", help="compile them again even if they are there")
    options, others = parser.parse_known_args(arguments)
    if options.command != "run" and others:
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    try:
        if options.command == "run":
            # options of python that come first, such as -m, are others to argparse: it begins the rest behind them
            options.program = [*others, *options.program]
            if not options.program:
                run.error("expected a program: python -m fake_cann run train.py")
            _run(options)
        elif options.command == "operators":
            _operators(options.only)
        else:
            from fake_cann.build import build as compile_all

            print(compile_all(options.force))
    except FakeCannError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _run(options: argparse.Namespace) -> None:
    from fake_cann.environment import prepare

    environ = dict(os.environ)
    for name, value in (
        ("FAKE_CANN_DEVICES", options.devices),
        ("FAKE_CANN_MEMORY_MIB", options.memory_mib),
        ("FAKE_CANN_SOC", options.soc),
    ):
        if value is not None:
            environ[name] = str(value)
    prepare(environ)
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, *options.program], environ)


def _operators(only: Optional[str]) -> None:
    from fake_cann.table import computed
    from fake_cann.wheel import operators_called, torch_npu_version

    called, table = operators_called(), computed()
    for name in called:
        state = "computed" if name in table else "refused"
        if only in (None, state):
            by = f"  {table[name].computed_by}" if name in table else ""
            print(f"aclnn{name}  {state}{by}")
    count = sum(name in table for name in called)
    rest = len(called) - count
    calls = counted(len(called), "operator")
    print(f"torch_npu {torch_npu_version()} calls {calls}: {count} computed, {rest} refused")


if __name__ == "__main__":
    sys.exit(main())
