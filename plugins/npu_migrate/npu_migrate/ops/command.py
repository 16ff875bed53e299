"""``patchcore ops``: which operators does a program run, and does torch_npu have them? Exit 1 when some are missing."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Optional

from npu_migrate.ops import printing
from npu_migrate.ops.judging import MISSING, Comparison, Trace, judge
from npu_migrate.ops.running import Program, npu_options, run
from npu_migrate.ops.tables import Table, choose
from npu_migrate.ops.tracing import Request
from patchcore import Plan
from patchcore.plugin import (
    add_format,
    add_selection,
    need_jinja,
    patcher_from,
    print_json,
    print_problems,
    print_table,
    print_text,
)

__all__ = ["add_parser", "main"]

#: Makes torch_npu raise where it would fall back to the CPU (torch_npu 2.13).
_NO_FALLBACK = "TORCH_NPU_FALLBACK_CPU_DISABLE"


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "ops",
        example="patchcore ops train.py --epochs 1",
        group="find out",
        help="compare the operators of a program with those of torch_npu",
        usage="patchcore ops [options] SCRIPT [arguments]\n       patchcore ops [options] MODULE:FUNCTION [arguments]",
        description="Run a program on the CPU and on an NPU, which is emulated if there is none. Compare the operators "
        "that torch dispatches (forward, backward, optimizer, gradient clipping) with those of torch_npu. If operators "
        "are missing, run the program once more with patches applied. Its output goes to stderr.",
        epilog="Options of the program come after its name. If a function has a parameter device, it gets cpu or npu.",
        allow_abbrev=False,
    )
    add_selection(parser)
    add_format(parser)
    parser.add_argument(
        "--torch-npu", metavar="VERSION", help="compare with this release (default: that for torch here)"
    )
    parser.add_argument(
        "--device", choices=("cpu", "npu", "both"), default="both", help="where the program runs (default: both)"
    )
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write a page with everything that was traced")
    parser.add_argument("--brake", metavar="N", help="end each run after training step N, as patchcore run does")
    parser.add_argument(
        "--step", action="append", metavar="TARGET", help="a call of this function is a training step, for --brake"
    )
    parser.add_argument("program", metavar="PROGRAM", help="path of a script, or module:function")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGUMENT", help="the program's own")
    parser.set_defaults(command=main)


def main(options: argparse.Namespace) -> int:
    """Trace, compare and print; 1 when an operator is missing and no patch handles it, or the program failed.

    Raises:
        SettingsError: there is no such program, table or device, or the page cannot be written.
    """
    arguments = options.arguments[1:] if options.arguments[:1] == ["--"] else options.arguments
    program = Program(options.program, tuple(arguments))
    program.command("cpu")  # says now that there is none
    if options.html is not None:
        need_jinja("patchcore ops --html", options.html)
    patcher = patcher_from(options, start=program.folder)
    table = Table.read(choose(options.torch_npu, _torch_version()))
    comparison = _trace(options, program, table, patcher.plan())
    if options.html is not None:
        script = () if program.is_function else (program.name, *program.arguments)
        printing.make_page(comparison, script).write(options.html)
    if options.format == "json":
        print_json(printing.view(comparison))
    else:
        _print(comparison)
    print_problems(patcher)
    return 1 if comparison.missing or comparison.failed else 0


def _trace(options: argparse.Namespace, program: Program, table: Table, plan: Plan) -> Comparison:
    fallback = os.environ.get(_NO_FALLBACK, "0") != "1"
    common = _common(options)
    without = _without_patches(plan)
    request = Request(table.kernels, _replaced(plan))
    traces: list[Trace] = []
    npu = () if options.device == "cpu" else npu_options()
    begun = time.monotonic()
    for device in ("cpu", "npu") if options.device == "both" else (options.device,):
        _say(f"tracing on {device}: {program.name}{_taken(begun, len(traces))}")
        late = npu if device == "npu" else ()
        traces.append(run(device, device, program, (*common, *without), request, late=late))
    comparison = judge(program.name, table, tuple(traces), fallback=fallback)
    failed = any(trace.exit_code for trace in traces if trace.device == "npu")
    missing = comparison.device == "npu" and any(row.status == MISSING for row in comparison.rows)
    if not (failed or missing):
        return comparison
    reason = "the program fails without" if failed else "operators are missing"
    _say(f"tracing on npu with patches, since {reason}: {program.name}{_taken(begun, len(traces))}")
    patched = run("npu with patches", "npu", program, (*common, *_enabled(options)), request, late=npu)
    return judge(program.name, table, tuple(traces), patched=patched, fallback=fallback)


def _taken(begun: float, runs: int) -> str:
    """Return on a terminal how long a run has taken so far, where that was over 2 s: the next one may take as long.

    There is no bar: the program writes to the same terminal.
    """
    seconds = (time.monotonic() - begun) / max(runs, 1)
    return f" (a run took {seconds:.0f} s)" if seconds > 2 and sys.stderr.isatty() else ""


def _common(options: argparse.Namespace) -> tuple[str, ...]:
    """The options for every run, but for those that apply further patches."""
    found: list[str] = []
    for name, values in (("plugin", options.plugins), ("disable", options.disable), ("module", options.modules)):
        for value in values or ():
            found += [f"--{name}", value]
    for name, value in (("variant", options.variant), ("brake", options.brake)):
        if value is not None:
            found += [f"--{name}", value]
    for target in options.step or ():
        found += ["--step", target]
    return tuple(found)


def _enabled(options: argparse.Namespace) -> Iterator[str]:
    for value in options.enable or ():
        yield from ("--enable", value)


def _without_patches(plan: Plan) -> tuple[str, ...]:
    """The options that leave out every patch but those without which a program for CUDA could not run at all.

    These rewrite CUDA to NPU, or do nothing but make libraries importable; and those that count steps and brake.
    """
    from torch_npu_patches.transfer_to_npu import TRANSFER_TO_NPU

    kept = {patch.name for patch in TRANSFER_TO_NPU}
    kept |= {entry.patch.name for entry in plan if entry.patch.only_adds}
    kept |= {entry.patch.name for entry in plan if entry.provenance.extends_patchcore}
    names = [entry.patch.name for entry in plan if entry.patch.name not in kept]
    return ("--disable", ",".join(names)) if names else ()


def _replaced(plan: Plan) -> dict[str, list[str]]:
    """Return the targets that each patch replaces, without patches that are switched off."""
    found = {}
    for entry in plan:
        targets = [str(change.target) for change in entry.patch.changes if change.replaces]
        if targets and entry.verdict != "off":
            found[entry.patch.name] = targets
    return found


def _print(comparison: Comparison) -> None:
    print_table(printing.summary(comparison), printing.COLUMNS, printing.rows(comparison))
    missing = printing.missing_rows(comparison)
    if missing:
        print()
        print_table("Without a known kernel", printing.MISSING_COLUMNS, missing)
    excluded = printing.excluded_rows(comparison)
    if excluded:
        print()
        print_table(printing.EXCLUDED_TITLE, printing.EXCLUDED_COLUMNS, excluded)
    for note in comparison.notes:
        print_text(f"note: {note}", indent=2)


def _torch_version() -> Optional[str]:
    try:
        return version("torch")
    except PackageNotFoundError:
        return None


def _say(text: str) -> None:
    print(f"patchcore: {text}", file=sys.stderr, flush=True)
