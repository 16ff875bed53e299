"""``python -m fake_cann``: run a program on the fake CANN, list and compare operators, build the libraries."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

from fake_cann.errors import FakeCannError, RealCannError
from patchcore.plugin import counted

__all__ = ["main"]

#: The file that ``compare`` writes.
RESULTS = "npu-operators.jsonl"


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run a command.

    Args:
        arguments: of the command line, without the program's name.

    Returns:
        The exit code: 0, or 1 with a message on stderr; 1 also where ``compare`` finds a difference, or ``wheel`` finds
        that a name is missing. ``run`` becomes the program that it runs.
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
    compare = commands.add_parser(
        "compare",
        help="call operators on the NPU that is there, real or emulated, and write what came of them to a file; "
        "or compare two such files",
    )
    compare.add_argument("files", nargs="*", metavar="FILE", help="two files to compare")
    compare.add_argument("--into", metavar="FILE", help=f"the file to write, {RESULTS} by default")
    compare.add_argument("--only", metavar="TEXT", help="call operators with this in their names only")
    compare.add_argument("--every", action="store_true", help="list each case that differs, not each operator")
    arguments_of = commands.add_parser(
        "signatures", help="check the table of the operators' arguments against what the installed torch_npu passes"
    )
    arguments_of.add_argument("--only", metavar="TEXT", help="call operators with this in their names only")
    wheels = commands.add_parser(
        "wheel", help="read wheels of torch_npu and say what there is for them; none is installed"
    )
    wheels.add_argument("files", nargs="+", metavar="FILE", help="a wheel, for this platform or another")
    wheels.add_argument("--list", action="store_true", help="list the operators that are refused and the schemas")
    build = commands.add_parser("build", help="compile the libraries for the installed torch")
    build.add_argument("--force", action="store_true", help="compile them again even if they are there")
    build.add_argument("--into", metavar="FOLDER", help="compile them for a wheel of fake-cann, into this folder")
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
        elif options.command == "wheel":
            return _wheels([Path(file) for file in options.files], everything=options.list)
        elif options.command == "compare":
            if options.files and (len(options.files) != 2 or options.into or options.only):
                compare.error("expected two files to compare and nothing else; or no file, to call operators")
            return _compare(*options.files, every=options.every) if options.files else _call_operators(options)
        elif options.command == "signatures":
            return _signatures(options.only)
        else:
            from fake_cann.build import build as compile_all
            from fake_cann.build import build_into

            print(build_into(Path(options.into)) if options.into else compile_all(options.force))
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
    from fake_cann.table import computed, symbol_of
    from fake_cann.wheel import operators_called, torch_npu_version

    called, table = operators_called(), computed()
    for name in called:
        state = "computed" if name in table else "refused"
        if only in (None, state):
            by = f"  {table[name].computed_by}" if name in table else ""
            print(f"{symbol_of(name)}  {state}{by}")
    count = sum(name in table for name in called)
    rest = len(called) - count
    calls = counted(len(called), "operator")
    print(f"torch_npu {torch_npu_version()} calls {calls}: {count} computed, {rest} refused")


def _wheels(paths: Sequence[Path], *, everything: bool) -> int:
    """Print what there is for wheels; return 1 if one cannot be loaded."""
    from fake_cann.table import symbol_of
    from fake_cann.wheel import read_wheel

    failed = 0
    for path in paths:
        wheel = read_wheel(path)
        print(f"{wheel.name}: {wheel.processor}")
        calls = counted(len(wheel.operators), "operator")
        print(f"  calls {calls}: {len(wheel.computed)} computed, {len(wheel.refused)} refused")
        there = len(wheel.symbols) - len(wheel.missing)
        print(f"  needs {counted(len(wheel.symbols), 'name')} of CANN to be loaded: {there} are there")
        print(f"  has {counted(len(wheel.schemas), 'schema')}")
        for name in wheel.missing:
            print(f"  missing: {name}")
        for line in (
            [f"refused: {symbol_of(name)}" for name in wheel.refused] + list(wheel.schemas) if everything else ()
        ):
            print(f"  {line}")
        failed += bool(wheel.missing)
    return 1 if failed else 0


def _call_operators(options: argparse.Namespace) -> int:
    """Call operators on the NPU that is there; the fake CANN serves where there is none."""
    from fake_cann.comparing.files import summary, write
    from fake_cann.comparing.running import run
    from fake_cann.environment import prepare
    from fake_cann.wheel import library
    from patchcore.plugin import progress

    path = Path(options.into or RESULTS)
    environ = dict(os.environ)
    if library().exists():  # else patchcore run has an imitation of torch_npu, and so have children
        with contextlib.suppress(RealCannError):  # the real one serves
            prepare(environ)
    with progress("calling operators", 1) as shown:
        results = run(environ, options.only, shown.describe)
    if options.only and results.complete and not results.rows:
        raise FakeCannError(f"fake_cann: no case has {options.only!r} in its name; examples: add, add_, add backward")
    try:
        write(path, results)
    except OSError as error:
        raise FakeCannError(f"fake_cann: {path}: {error.strerror}") from None
    print(f"{path}: {summary(results)}")
    return 0 if results.complete and results.rows else 1


def _signatures(only: Optional[str]) -> int:
    """Check the table of arguments; return 1 where torch_npu passes something else."""
    from fake_cann.comparing.recording import record
    from fake_cann.table import signatures, symbol_of
    from fake_cann.wheel import operators_called, torch_npu_version
    from patchcore.plugin import progress

    with progress("calling operators", 1) as shown:
        recorded = record(os.environ, only, shown.describe)
    called = operators_called()
    unknown = [name for name in called if name not in signatures()]
    for name, fault in sorted(recorded.faults.items()):
        print(f"{symbol_of(name)} {signatures()[name]}: {fault}")
    reached = recorded.called | set(recorded.faults)
    print(
        f"torch_npu {torch_npu_version()} calls {counted(len(called), 'operator')}: the arguments of "
        f"{len(called) - len(unknown)} are known, {len(reached)} were called here, "
        f"{len(recorded.faults)} otherwise than the table has it"
        + (f"; {counted(recorded.ended, 'call')} ended the process" if recorded.ended else "")
    )
    return 1 if recorded.faults else 0


def _compare(first: str, second: str, *, every: bool) -> int:
    """Compare two files; return 1 if they differ, as diff does."""
    from fake_cann.comparing.files import compare, named, read, summary

    found = [read(Path(name)) for name in (first, second)]
    for place, results in zip(("first: ", "second:"), found):
        print(place, named(results.device))
        print("       ", summary(results))
    comparison = compare(*found)
    for line in comparison.lines(every=every):
        print(line)
    return 1 if comparison.differences else 0


if __name__ == "__main__":
    sys.exit(main())
