"""``patchcore bisect``: which patches make a command fail? Exit 1 when some do."""

from __future__ import annotations

import argparse
import contextlib
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Optional

from patchcore.builtin.bisect.bisection import Search, dependencies
from patchcore.builtin.bisect.trials import Oracle, Trial, Trials
from patchcore.builtin.run import command as run
from patchcore.builtin.run.program import find_command
from patchcore.builtin.shared import command_line, examples
from patchcore.builtin.shared.command_line import print_problems
from patchcore.builtin.shared.progress import progress
from patchcore.cli import options as shared
from patchcore.cli.output import print_error, print_json, print_line
from patchcore.errors import SettingsError
from patchcore.objects.printable import counted, inflected
from patchcore.planning.candidates import Candidate, select_patches
from patchcore.planning.conditions import OFF
from patchcore.planning.plan import Plan

__all__ = ["main", "parse"]

_WRITE = "write: patchcore bisect [options] -- COMMAND, for a module: patchcore bisect [options] -- -m MODULE"


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments after ``bisect``: its options and those of ``patchcore run``, ``--``, and the command."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    parser = _build_parser(help_only=not {"-h", "--help"}.isdisjoint(arguments[:end]))
    options, passed_on = parser.parse_known_args(arguments[:end])
    options.passed_on = passed_on
    options.program = list(arguments[end + 1 :])
    if not options.program or options.program == ["-m"]:
        parser.error(f"expected the command to run after --; {_WRITE}")
    known = run.parse([*options.passed_on, *_to_run(options.program)])
    options.patcher = known.patcher
    if known.program not in (options.program, options.program[1:]):
        parser.error(f"unexpected before --: {known.program[0]!r}; {_WRITE}")
    name, *rest = known.program
    find_command(name, rest, as_module=known.as_module)  # shows now that there is none
    options.command = main
    return options


def main(options: argparse.Namespace) -> int:
    """Run the command with smaller and smaller sets of patches and print the results; 1 if some patches make it fail.

    Raises:
        UnknownName: a name to keep means nothing.
        SettingsError: the command fails without the patches, too, so its failure does not depend on them.
    """
    plan = options.patcher.plan()
    for note in plan.notes:
        print_error(f"note: {note}")
    scope = _scope(plan, options.keep)
    with progress("bisecting", _expected_runs(len(scope.tried))) as bar:

        def begins(number: int, patches: frozenset[str]) -> None:
            bar.describe(f"run {number}: {counted(len(patches), 'patch')}")

        def ended(trial: Trial) -> None:
            bar.say(_line(trial, scope), style="red" if trial.fails else "green")
            bar.advance(more=True)
            if trial.number == 1 and trial.applied:
                bar.expect(_expected_runs(len(trial.applied)))

        trials = Trials(
            options.passed_on,
            options.program,
            [*scope.tried, *scope.kept],
            kept=scope.kept,
            left_out=scope.left_out,
            oracle=Oracle(options.oracle, options.timeout),
            repeat=options.repeat,
            begins=begins,
            ended=ended,
        )
        result = _bisect(trials, scope, plan)
    if options.format == "json":
        print_json(_describe(options, scope, trials, result))
    else:
        for line in _tell(options, trials, result):
            print_line(line)
    print_problems(options.patcher)
    if not result.complete:
        raise KeyboardInterrupt
    return 1 if result.culprits else 0


class _Scope(NamedTuple):
    """The names of the patches in three groups: tried in sets, kept in every run, left out of every run."""

    tried: tuple[str, ...]
    kept: tuple[str, ...]
    left_out: tuple[str, ...]


class _Result(NamedTuple):
    """The result at the end or at an interrupt.

    Args:
        patches: the patches that were searched: those that apply here.
        culprits: the sets that were found.
        suspects: the smallest set known to contain a further one.
        complete: False after an interrupt.
    """

    patches: tuple[str, ...]
    culprits: tuple[tuple[str, ...], ...] = ()
    suspects: tuple[str, ...] = ()
    complete: bool = True


def _scope(plan: Plan, keep: Sequence[str]) -> _Scope:
    entries = [entry for entry in plan if not entry.provenance.extends_patchcore]  # those count steps, or record
    candidates = [Candidate(entry.patch, entry.provenance) for entry in entries]
    kept = {candidate.patch.name for name in keep for candidate in select_patches(name, candidates)}
    # one that has lost a conflict would win where the other is not tried, and that is another question
    out = {entry.patch.name for entry in entries if entry.verdict == OFF or entry.rival is not None}
    names = [entry.patch.name for entry in entries]
    return _Scope(
        tuple(name for name in names if name not in kept | out),
        tuple(name for name in names if name in kept),
        tuple(name for name in names if name in out - kept),
    )


def _bisect(trials: Trials, scope: _Scope, plan: Plan) -> _Result:
    search: Optional[Search] = None
    patches = scope.tried
    suspects: tuple[str, ...] = ()
    try:
        everything = trials.try_all()
        applied = everything.applied
        if applied is not None:
            patches = tuple(name for name in patches if name in applied)
        if not everything.fails:
            return _Result(patches)
        nothing = trials.try_none()
        if nothing.fails:
            raise SettingsError(_without_patches(nothing, scope))
        suspects = patches
        # a patch can make a difference without being applied, and a process that was killed has written no report
        if len(patches) < len(scope.tried) and not (patches and trials.fails(patches)):
            patches = suspects = scope.tried
        search = Search(suspects, trials.fails, dependencies(plan))
        search.run()
        for found in search.culprits:
            trials.fails(search.with_needs(found))  # once more: does it stay so?
    except KeyboardInterrupt:
        if search is not None:
            return _Result(patches, tuple(search.culprits), search.suspects, complete=False)
        return _Result(patches, suspects=suspects, complete=False)
    return _Result(patches, tuple(search.culprits))


def _without_patches(trial: Trial, scope: _Scope) -> str:
    how = trial.attempts[-1].how
    kept = f" except those of --keep ({', '.join(scope.kept)})" if scope.kept else ""
    tail = "".join(f"\n    {line}" for line in trial.attempts[-1].tail.splitlines()[-5:])
    return (
        f"without any patch{kept} the command {trial.verdict}, too ({how}), so bisect cannot find patches that make it "
        f"fail. If it fails for another reason, pass --oracle REGEX that matches the output of the failure you look "
        f"for; if it needs some patches, keep them: --keep NAME. The end of its output:{tail}"
    )


def _varying(trials: Trials) -> list[str]:
    """Return a line for each set of patches whose runs did not come to the same."""
    outcomes: dict[frozenset[str], list[bool]] = {}
    for trial in trials.done:
        outcomes.setdefault(trial.patches, []).extend(attempt.fails for attempt in trial.attempts)
    return [
        f"{', '.join(sorted(patches)) or 'no patch'}: failed in {sum(results)} of {counted(len(results), 'run')}"
        for patches, results in outcomes.items()
        if len(set(results)) > 1
    ]


def _tell(options: argparse.Namespace, trials: Trials, result: _Result) -> Iterator[str]:
    for found in result.culprits:
        together = " only together" if len(found) > 1 else ""
        yield f"{inflected(len(found), 'this patch makes', 'these patches make')} the command fail{together}:"
        yield from (f"  {name}" for name in found)
    if not result.complete:
        yield f"interrupted after {counted(len(trials.done), 'run')}"
        if result.suspects:
            those = "other patches" if result.culprits else "the patches"
            yield f"{those} that make it fail are among {counted(len(result.suspects), 'patch')}:"
            yield from (f"  {name}" for name in result.suspects)
    elif not result.culprits:
        first = trials.done[0]
        patches = _all_patches(len(first.patches), len(result.patches))
        yield f"with {patches} the command {first.verdict} ({first.attempts[-1].how}); no findings"
    elif any(len(found) > 1 for found in result.culprits):
        yield "of patches that fail only together, it is enough to disable one"
    if result.culprits:
        yield f"without them: {_command_without(options, result)}"
    varying = _varying(trials)
    if varying:
        yield "the outcome varies, so this result is uncertain; --repeat N runs each set of patches N times:"
        yield from (f"  {line}" for line in varying)


def _describe(options: argparse.Namespace, scope: _Scope, trials: Trials, result: _Result) -> dict[str, Any]:
    return {
        "complete": result.complete,
        "culprits": result.culprits,
        "command_without": _command_without(options, result) if result.culprits else None,
        "suspects": result.suspects,
        "patches": result.patches,
        "not_applied": [name for name in scope.tried if name not in result.patches],
        "kept": scope.kept,
        "varying": _varying(trials),
        "runs": [
            {
                "patches": sorted(trial.patches),
                "fails": trial.fails,
                "attempts": [{"fails": attempt.fails, "how": attempt.how} for attempt in trial.attempts],
            }
            for trial in trials.done
        ],
    }


def _command_without(options: argparse.Namespace, result: _Result) -> str:
    """Return the command line that runs the command without the culprits."""
    names = ",".join(name for found in result.culprits for name in found)
    return shlex.join(["patchcore", "run", "--disable", names, *options.passed_on, *_to_run(options.program)])


def _to_run(program: Sequence[str]) -> Sequence[str]:
    """Return a command as ``patchcore run`` takes it."""
    return program if program[0] == "-m" else ["--", *program]


def _expected_runs(patches: int) -> int:
    """Return how many runs it takes to find one patch among ``patches``: all, none, two per halving, once more."""
    return 3 + 2 * max(patches - 1, 0).bit_length()


def _line(trial: Trial, scope: _Scope) -> str:
    count = len(trial.patches)
    patches = counted(count, "patch")
    if count and count == len(scope.tried):
        patches = _all_patches(count, count if trial.applied is None else len(trial.applied)).rstrip(",")
    return f"run {trial.number}: {patches}: {trial.verdict}"


def _all_patches(enabled: int, applied: int) -> str:
    """Name the patches of a run with all patches that are enabled: those that apply here are counted."""
    if applied == enabled:
        return f"all {counted(enabled, 'patch')}"
    if applied == 0:
        return f"{counted(enabled, 'patch')}, none of which was applied,"
    return "the only patch that applies here" if applied == 1 else f"all {applied} patches that apply here"


def _build_parser(*, help_only: bool) -> argparse.ArgumentParser:
    """Return the parser of the options that are not passed on to ``patchcore run``.

    Args:
        help_only: also add the options that choose patches. They are passed on, but the help shows them.
    """
    parser = shared.Parser(
        prog="patchcore bisect",
        example=examples.BISECT,
        usage="patchcore bisect [options] [options of patchcore run] -- SCRIPT [arguments]\n"
        "       patchcore bisect [options] [options of patchcore run] -- -m MODULE [arguments]\n"
        "       patchcore bisect [options] [options of patchcore run] -- COMMAND [arguments]",
        description="Find the patches that make a command fail: run the command with smaller and smaller sets of the "
        "patches that apply here, until no patch can be left out.",
        epilog="Options of patchcore run, also those of plugins, are passed on: --strict, --brake N, ... (see "
        "patchcore run --help). Exits with 1 when patches make the command fail, with 0 when it does not fail.",
        allow_abbrev=False,
    )
    add_arguments(parser)
    if help_only:
        shared.add_selection(parser)
    return parser


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command, without those that it passes on to ``patchcore run``."""
    parser.add_argument(
        "--oracle",
        type=_pattern,
        metavar="REGEX",
        help="the command fails when its output matches REGEX (default: when its exit code is not 0)",
    )
    parser.add_argument(
        "--timeout", type=_seconds, metavar="S", help="stop a run after S seconds and count it as failed"
    )
    parser.add_argument(
        "--repeat",
        type=command_line.positive,
        default=1,
        metavar="N",
        help="run each set of patches N times; the set fails when one of these runs fails",
    )
    parser.add_argument(
        "--keep",
        action="append",
        default=[],
        metavar="NAME",
        help="apply this patch, or the patches of this plugin, in every run",
    )
    shared.add_format(parser)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text, re.MULTILINE)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a regular expression: {error}") from error


def _seconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 < float(text) < float("inf"):
            return float(text)
    raise argparse.ArgumentTypeError(f"expected seconds, more than 0, got {text!r}")
