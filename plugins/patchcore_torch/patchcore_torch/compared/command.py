"""``patchcore compare``: where do two runs of a program begin to differ? Exit 1 if they do, 2 if that is not known."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Optional

from patchcore import SettingsError
from patchcore.plugin import EXIT_FINDINGS, EXIT_OK, add_format, counted, need_jinja, print_json
from patchcore_torch.compared import judging, output, reading, running

__all__ = ["add_arguments", "main"]

_WRITE = "write patchcore compare FIRST SECOND, or patchcore compare [options] -- PROGRAM [arguments]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Compare two recordings of patchcore run --record, or record a program twice: by default without "
        "patches and with them. The first difference in the order of execution is shown with its module, line and "
        "patch, then the others. The output of the program goes to stderr."
    )
    add_format(parser)
    parser.add_argument(
        "--rtol",
        action="append",
        default=[],
        metavar="[DTYPE=]X",
        help="allowed difference, as a share of the largest value; may be repeated "
        f"(default: {', '.join(f'{dtype}={value:g}' for dtype, value in judging.TOLERANCES.items())})",
    )
    parser.add_argument("--all", action="store_true", help="show every difference, not only the first ones")
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write a page")
    group = parser.add_argument_group("recording a program")
    group.add_argument(
        "--first",
        default="--disable=*",
        metavar="OPTIONS",
        help="of patchcore run, for the first run (default: %(default)s)",
    )
    group.add_argument("--second", default="", metavar="OPTIONS", help="for the second run (default: none)")
    group.add_argument("--into", type=Path, metavar="DIR", help="keep the recordings, and use those that are there")
    group.add_argument("--steps", metavar="N-M,...", help="the steps to record (default: 1-2)")
    group.add_argument("--ranks", metavar="N,...", help="the ranks to record (default: all)")
    group.add_argument("--operators", action="store_true", help="also record each operator in the modules")
    group.add_argument("--tensors", action="store_true", help="compare every value, not only numbers about them")
    group.add_argument("--same-random", action="store_true", help="draw random numbers on the CPU in both runs")
    parser.add_argument("runs", nargs=argparse.REMAINDER, metavar="FIRST SECOND", help="folders of recordings")
    parser.set_defaults(command=main)


def main(options: argparse.Namespace) -> int:
    """Compare and print; 1 when the runs differ.

    Raises:
        SettingsError: an option is wrong, there is no recording, the program failed, or the recordings agree and one of
            them is not whole.
    """
    tolerances = judging.parse_tolerances(options.rtol)
    if options.html is not None:
        need_jinja("patchcore compare --html", options.html)
    if options.runs[:1] == ["--"]:
        with tempfile.TemporaryDirectory(prefix="patchcore-compare-") as folder:
            return _compare(_record(options, options.into or Path(folder)), options, tolerances)
    for name in ("into", "steps", "ranks"):
        if getattr(options, name) is not None:
            raise SettingsError(f"--{name} is for recording a program; {_WRITE}")
    if len(options.runs) != 2:
        raise SettingsError(f"expected two recordings, got {len(options.runs)}; {_WRITE}")
    return _compare([reading.read(Path(name)) for name in options.runs], options, tolerances)


def _record(options: argparse.Namespace, folder: Path) -> list[reading.Recording]:
    program = options.runs[1:]
    if not program or program == ["-m"]:
        raise SettingsError(f"expected the program to run after --; {_WRITE}")
    common = []
    for name in ("steps", "ranks"):
        value: Optional[str] = getattr(options, name)
        common += [] if value is None else [f"--record-{name}={value}"]
    for name, option in (
        ("operators", "--record-operators"),
        ("tensors", "--record-tensors"),
        ("same_random", "--same-random"),
    ):
        common += [option] if getattr(options, name) else []
    return running.record_twice(program, (options.first, options.second), common, folder)


def _compare(recordings: list[reading.Recording], options: argparse.Namespace, tolerances: dict[str, float]) -> int:
    comparison = judging.compare(recordings[0], recordings[1], tolerances)
    if options.html is not None:
        output.make_page(comparison).write(options.html)
    if options.format == "json":
        print_json(output.view(comparison))
    else:
        output.print_comparison(comparison, everything=options.all)
    if comparison.diverges:
        return EXIT_FINDINGS
    if comparison.gaps:
        first, *more = comparison.gaps
        rest = f" (and {counted(len(more), 'other gap')})" if more else ""
        raise SettingsError(f"whether the runs agree is not known: {first}{rest}")
    return EXIT_OK
