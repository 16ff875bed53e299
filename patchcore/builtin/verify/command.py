"""``patchcore verify``: run originals and replacements on the same inputs; exit 1 where they differ."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Optional

from patchcore.builtin.shared import command_line, examples
from patchcore.builtin.shared.command_line import print_problems
from patchcore.builtin.shared.progress import progress
from patchcore.builtin.shared.rows import print_text
from patchcore.builtin.verify.check import DTYPES, Check, Size
from patchcore.builtin.verify.output import describe, print_results
from patchcore.builtin.verify.verify import CheckResult, framework_of, verify
from patchcore.cli import options as shared
from patchcore.cli.output import print_error, print_json
from patchcore.declare.patch import Patch
from patchcore.objects.printable import counted
from patchcore.patcher import Patcher
from patchcore.planning.conditions import APPLY, OFF
from patchcore.planning.plan import Plan
from patchcore.plugins import Plugins

__all__ = ["add_arguments", "main", "parse"]


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments after ``verify``, with the options that plugins add to commands that run code."""
    known, _ = _build_parser(add_help=False).parse_known_args(arguments)
    patcher = shared.patcher_from(known)
    options = command_line.parse(_build_parser(patcher.plugins), arguments, patcher)
    settings = [value for name, value in vars(options).items() if name.startswith(shared.SETTING_PREFIX)]
    given = any(value is not None for value in settings)
    options.patcher = shared.patcher_from(options) if given else patcher  # a plugin's option may set a setting
    options.command = main
    return options


def main(options: argparse.Namespace) -> int:
    """Verify and print; 1 when a replacement differs, is not reached or fails, or has no checks to verify it by.

    Raises:
        UnknownName: a patch that is to be verified does not exist.
        SettingsError: the device does not exist.
    """
    patcher: Patcher = options.patcher
    if patcher.plugins.implements("configure_run"):
        patcher.plugins.notify("configure_run", options=options, settings=patcher.settings)
    framework = framework_of(patcher.plugins)
    device = options.device or framework.default_device()
    framework.require_device(device)
    emulated = device.partition(":")[0] in patcher.plugins.emulated_devices()
    plan = patcher.plan()
    patches = list(_chosen(plan, options.patches))
    checks = [check for patch in patches for check in patch.checks]
    dtypes = options.dtypes
    count = sum(dtype is None or not dtypes or dtype in dtypes for check in checks for dtype in check.tolerances)
    with progress("verifying", count) as bar:

        def done(result: CheckResult) -> None:
            bar.advance()
            if not (result.ok or sys.stderr.isatty()):
                print_error(f"{' '.join(filter(None, (result.patch, result.check, result.dtype)))}: {result.status}")

        results = verify(
            patches,
            device=device,
            framework=framework,
            rounds=options.rounds,
            seed=options.seed,
            sizes=[Size(size) for size in options.sizes or (size.value for size in Size)],
            dtypes=dtypes,
            timing=options.timing,
            emulated=emulated,
            around=_supporting(plan),
            extensions=patcher.extensions,
            begin=bar.describe,
            done=done,
        )
    unchecked = [patch.name for patch in patches if not patch.checks]
    missed = [name for name in options.patches if plan[name].patch.name in unchecked]
    if options.format == "json":
        content = [describe(result) for result in results]
        facts = {"device": device, "emulated": emulated, "rounds": options.rounds, "seed": options.seed}
        print_json({**facts, "results": content, "without_checks": unchecked})
    else:
        if results:
            print_results(
                f"Verified on {device}, {counted(options.rounds, 'round')} each", results, verbose=options.verbose
            )
        else:
            print_text(f"nothing was verified: {_why_nothing(patches, checks, dtypes)}", indent=2)
        if unchecked:
            print_text(f"patches without checks: {', '.join(unchecked)}", indent=2)
    print_problems(patcher, (result.message for result in results if not result.ok))
    return 0 if results and not missed and all(result.ok for result in results) else 1


def _why_nothing(patches: Sequence[Patch], checks: Sequence[Check], dtypes: Optional[Sequence[str]]) -> str:
    if not patches:
        return "no patch can be applied here"
    if not checks:
        return "no selected patch has checks; declare them: checks=[patchcore.Check(...)]"
    return f"no check is declared for --dtype {', '.join(dtypes or ())}"


def _chosen(plan: Plan, names: Sequence[str]) -> Iterator[Patch]:
    """The patches to verify: those named, else all that no setting disables."""
    if names:
        yield from (plan[name].patch for name in names)
        return
    for entry in plan:
        if entry.chosen_by is None or entry.verdict != OFF:
            yield entry.patch


def _supporting(plan: Plan) -> list[Patch]:
    """The patches that would be applied and without which a library may not be importable."""
    return [entry.patch for entry in plan if entry.verdict == APPLY and entry.patch.only_adds]


def _build_parser(plugins: Optional[Plugins] = None, *, add_help: bool = True) -> shared.Parser:
    parser = shared.Parser(
        prog="patchcore verify",
        example=examples.VERIFY,
        description="Draw inputs for the checks of patches, run each original on the CPU and its replacement on "
        "the device, and compare results, gradients and speed. Imports the libraries; nothing stays applied.",
        epilog="Exits with 1 when a replacement differs, raises or is not called, and when a patch that you name has "
        "no checks.",
        add_help=add_help,
        allow_abbrev=False,
    )
    add_arguments(parser, plugins)
    return parser


def add_arguments(parser: argparse.ArgumentParser, plugins: Optional[Plugins] = None) -> None:
    """Add the arguments of the command, with the options of ``plugins``."""
    shared.add_selection(parser)
    shared.add_format(parser)
    parser.add_argument("--device", help="where replacements run (default: the accelerator if there is one, else cpu)")
    parser.add_argument(
        "--rounds",
        type=command_line.positive,
        default=5,
        metavar="N",
        help="cases per check, dtype and size (default: 5)",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the random cases (default: 0)")
    parser.add_argument(
        "--size",
        action="append",
        choices=[size.value for size in Size],
        dest="sizes",
        help="only cases of this size, for checks with several sizes; may be repeated",
    )
    parser.add_argument(
        "--dtype",
        action="append",
        choices=DTYPES,
        dest="dtypes",
        help="only this dtype, for checks with several dtypes; may be repeated",
    )
    parser.add_argument(
        "--no-timing", action="store_false", dest="timing", help="do not measure how long calls take on the device"
    )
    parser.add_argument("--verbose", action="store_true", help="show each size on its own line")
    if plugins is not None and plugins.implements("register_run_options"):
        plugins.notify("register_run_options", parser=parser, command="verify")
    parser.add_argument(
        "patches", nargs="*", metavar="PATCH", help="patch to verify (default: every patch that can be applied here)"
    )
