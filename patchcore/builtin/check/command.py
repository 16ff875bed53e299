"""``patchcore check``: for CI; exit 1 on broken plugins, conflicts, failing, unmet or old patches, and drift."""

from __future__ import annotations

import argparse
import importlib
import os
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Optional

from patchcore.builtin.check.coverage import Coverage, cover, is_disabled
from patchcore.builtin.drift.definitions import reading_once
from patchcore.builtin.drift.drift import fingerprinted
from patchcore.builtin.drift.fingerprint import Originals
from patchcore.builtin.drift.replacements.note import KINDS
from patchcore.builtin.shared.command_line import advise_on_modules
from patchcore.builtin.shared.finding import Finding
from patchcore.builtin.shared.rows import print_table, print_text
from patchcore.cli import options as shared
from patchcore.cli.output import print_json, print_line
from patchcore.declare.patch import ANY_PATCH
from patchcore.errors import CONTAINED, PatchcoreError, PatchError, TargetNotFound, describe_error, did_you_mean
from patchcore.objects.extensions import using
from patchcore.patcher import Patcher
from patchcore.planning.conditions import APPLY, OFF, Environment
from patchcore.planning.plan import Plan, PlannedPatch
from patchcore.report import FAILED, PENDING, Remark
from patchcore.settings import KEYS, OTHER_VARIABLES, Settings, find_table
from patchcore.stdlib import difflib

__all__ = ["Findings", "add_arguments", "add_finding_options", "by_gravity", "look", "main", "print_findings"]

#: The kinds of findings that ``--exit-on`` knows; those about targets that have changed come last, the gravest first.
_KINDS = (
    *("plugin", "setting", "conflict", "failed", "required", "import", "pending", "name", "covered", "outdated"),
    *("uncalled", "requires", "target", *KINDS),
)
#: The fields of a finding that a check fills in.
_COLUMNS = ("kind", "subject", "message")
_PREFIX = "PATCHCORE_"


class Findings(NamedTuple):
    """The result of a check.

    Args:
        findings: the faults.
        differences: patch, target and the diff to the recorded source, if that is known.
        copies: patch, target and the diff of three for each stale copy.
        steps: the next steps for the findings.
        coverage: how many targets were compared with their fingerprints.
        runs: a line on the recorded runs that were read, ``""`` without any.
    """

    findings: list[Finding]
    differences: list[tuple[str, str, str]]
    copies: list[tuple[str, str, str]]
    steps: list[str]
    coverage: Coverage
    runs: str = ""

    def exit_code(self, exit_on: Optional[Collection[str]]) -> int:
        """Return 1 if there are findings that count, else 0.

        Args:
            exit_on: the kinds that count; ``None`` for all.
        """
        return int(any(exit_on is None or finding.kind in exit_on for finding in self.findings))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON view."""
        return {
            "findings": [dict(zip(_COLUMNS, finding)) for finding in self.findings],
            "differences": [dict(zip(("subject", "target", "difference"), each)) for each in self.differences],
            "copies": [dict(zip(("subject", "target", "difference"), each)) for each in self.copies],
            "next": self.steps,
            "coverage": self.coverage.to_dict(),
            **({"runs": self.runs} if self.runs else {}),
        }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "For CI: exit with 1 when a plugin is broken, patches conflict or fail, a required patch cannot be applied, a "
        "target has changed since its fingerprint was recorded, or a patch is no longer needed."
    )
    shared.add_selection(parser)
    shared.add_format(parser)
    parser.add_argument(
        "--apply", action="store_true", help="also import every target, apply the patches and revert them"
    )
    parser.add_argument(
        "--runs",
        metavar="DIR",
        type=Path,
        action="append",
        default=[],
        help="also find patches that had no effect in the runs with --count whose reports are in DIR; can be repeated",
    )
    add_finding_options(parser)
    parser.set_defaults(command=main)


def add_finding_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that print findings on targets: ``--exit-on`` and ``--diff``."""
    parser.add_argument(
        "--exit-on",
        type=_kinds,
        default=None,
        metavar="KINDS",
        help=f"exit with 1 only on findings of these kinds, separated by commas: {', '.join(_KINDS)}",
    )
    parser.add_argument(
        "--diff", action="store_true", help="show how copies differ from their originals, then and now, side by side"
    )


def main(options: argparse.Namespace) -> int:
    """Print the findings; 1 when there are any."""
    patcher = shared.patcher_from(options)
    found = look(patcher, apply=options.apply, runs=options.runs)
    if options.format == "json":
        print_json(found.to_dict())
    else:
        print_findings(found, copies=options.diff)
        if found.findings:
            print_line()
        print_text(str(found.coverage), indent=2)
        if found.runs:
            print_text(found.runs, indent=2)
    advise_on_modules(patcher, (finding.message for finding in found.findings))
    return found.exit_code(options.exit_on)


def _kinds(text: str) -> list[str]:
    """Read the value of ``--exit-on``; a misspelt kind would never fail."""
    kinds = [kind.strip() for kind in text.split(",")]
    for kind in kinds:
        if kind not in _KINDS:
            raise argparse.ArgumentTypeError(f"no kind of finding: {kind!r}{did_you_mean(kind, _KINDS)}")
    return kinds


def by_gravity(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings with those about targets that have changed at the end, the gravest of these first."""
    return sorted(findings, key=lambda finding: KINDS.index(finding.kind) if finding.kind in KINDS else -1)


def print_findings(found: Findings, *, copies: bool = False) -> None:
    """Print the findings as a table, then the next steps.

    Args:
        found: by :func:`look`.
        copies: also show the differences of copies.
    """
    if not found.findings:
        print_line("no findings")
        return
    print_table("Findings", tuple(map(str.upper, _COLUMNS)), [(f.kind, f.subject, f.message) for f in found.findings])
    shown = found.copies if copies else []
    also = [each for each in found.differences if each[:2] not in [copy[:2] for copy in shown]]
    for patch, target, difference in [*also, *shown]:
        print_line(f"\n{target} ({patch})\n{textwrap.indent(difference, '  ')}")
    if found.steps:
        print_line("")
    for step in found.steps:
        print_line(f"next: {step[:1].lower()}{step[1:]}")


def look(patcher: Patcher, *, apply: bool, runs: Sequence[Path] = ()) -> Findings:
    """Return the findings here.

    Args:
        patcher: not applied.
        apply: import every target library that can be patched, apply and revert, so that missing targets are found too.
        runs: directories with reports of runs that counted calls.

    Raises:
        SettingsError: there are no such reports in ``runs``.
    """
    with reading_once():
        return _look(patcher, apply=apply, runs=runs)


def _look(patcher: Patcher, *, apply: bool, runs: Sequence[Path]) -> Findings:
    plan = patcher.plan()
    found = [*_settings_findings(patcher, os.environ), *_version_findings(patcher.settings.library_versions, plan)]
    for entry in plan:
        if entry.verdict == FAILED:
            kind = "conflict" if entry in plan.conflicts else "failed"
            found.append(Finding(kind, entry.patch.name, entry.reason))
        elif entry.patch.required and entry.verdict not in (APPLY, OFF):
            found.append(Finding("required", entry.patch.name, entry.reason))
    if patcher.plugins.complete:
        found += _order_findings(plan)
    environment = patcher.make_environment()
    checked = _checked(plan, environment)
    remarks = _remarks(patcher, plan, checked, environment)
    found += dict.fromkeys(Finding(remark.topic, name, remark.text) for name, remark in remarks if remark.finding)
    told = {name for name, remark in remarks if remark.finding}  # a target that is gone is among them
    if apply:
        found += _try(patcher, [entry.patch.name for entry in plan if entry.verdict == APPLY])
    else:
        pairs = [pair for entry in checked for pair in zip(entry.patch.changes, entry.targets)]
        provided = {name for change, _ in pairs for name in change.provides}
        with using(patcher.plugins.extensions):
            found += _target_findings([entry for entry in checked if entry.patch.name not in told], provided)
    found += (Finding("plugin", p.plugin, f"{p.where}: {p.message}") for p in patcher.plugins.problems)
    data = [(name, each) for name, remark in remarks for each in remark.data]
    differences = [(name, each["target"], each["difference"]) for name, each in data if each.get("difference")]
    copies = [
        (name, each["target"], note["difference"])
        for name, each in data
        for note in each.get("notes", ())
        if note["difference"]
    ]
    steps = [remark.advice for _, remark in remarks if remark.finding and remark.advice]
    line = ""
    if runs:
        from patchcore.builtin.check.uncalled import find_uncalled  # most calls do not need it

        uncalled = find_uncalled(checked, runs)
        found += uncalled.findings
        steps += uncalled.steps
        line = uncalled.summary
    coverage = cover(plan, remarks, environment)
    return Findings(by_gravity(found), differences, copies, list(dict.fromkeys(steps)), coverage, line)


def _settings_findings(patcher: Patcher, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield faults of settings that no command refuses: variants, and variables that are not read.

    Args:
        patcher: made from the settings that are in force.
        environ: environment variables.
    """
    keys = [key.upper() for key in (*KEYS, *(setting.key for setting in patcher.plugins.settings()))]
    for name in sorted(environ):
        prefix, key = name[: len(_PREFIX)], name[len(_PREFIX) :]
        near = difflib.get_close_matches(key, keys, n=1, cutoff=0.8)  # others have variables with the prefix, too
        if prefix == _PREFIX and key not in keys and near and name not in OTHER_VARIABLES:
            yield Finding("setting", name, f"patchcore has no such variable; did you mean {_PREFIX + near[0]!r}?")
    found = find_table(Path.cwd())
    variants = found[1].get("variants") if found is not None else None
    for name in variants if isinstance(variants, Mapping) else ():
        try:
            settings = Settings.load(arguments={"variant": name}, environ={})
            Patcher(plugins=patcher.plugins, settings=settings).plan()
        except PatchcoreError as error:
            yield Finding("setting", f"variant {name}", str(error))


def _version_findings(versions: Mapping[str, str], plan: Plan) -> Iterator[Finding]:
    """Yield packages in the setting ``library_versions`` that no patch changes or requires: they look misspelt."""
    libraries = {target.root for entry in plan for target in entry.targets}
    required = [text for entry in plan for text in entry.patch.requires]
    for package in versions:
        if package not in libraries and not any(text.startswith(package) for text in required):
            message = f"no patch changes or requires {package!r}{did_you_mean(package, libraries)}"
            yield Finding("setting", "library_versions", message)


def _order_findings(plan: Plan) -> Iterator[Finding]:
    """Yield names in ``after=``, ``conflicts=`` and the like that no patch has and that look misspelt.

    Others may be of plugins that are not installed here.
    """
    names = {name for entry in plan for name in entry.patch.names}
    for entry in plan:
        for argument in ("after", "before", "conflicts", "needs_patches"):
            for name in getattr(entry.patch, argument):
                near = difflib.get_close_matches(name, names, n=1, cutoff=0.85)
                if name != ANY_PATCH and name not in names and near:
                    message = (
                        f"{argument}={name!r} in {entry.provenance}: no patch has this name; did you mean {near[0]!r}?"
                    )
                    yield Finding("name", entry.patch.name, message)


def _target_findings(entries: Iterable[PlannedPatch], provided: Iterable[str]) -> Iterator[Finding]:
    """Yield targets that the sources of their libraries do not have; imports nothing.

    Args:
        entries: of the plan.
        provided: modules that patches of the plan provide: no source shows their names.
    """
    originals = Originals()
    prefixes = tuple(f"{name}." for name in provided)
    for entry in entries:
        for change, target in fingerprinted(entry.patch, entry.targets):
            if f"{target.module}.".startswith(prefixes):
                continue
            try:
                originals.fingerprint(change, target)
            except TargetNotFound as error:
                yield Finding("target", entry.patch.name, str(error))
            except Exception:  # a target that sources do not show, or that cannot be read, is no finding
                continue


def _remarks(
    patcher: Patcher, plan: Plan, checked: Iterable[PlannedPatch], environment: Environment
) -> list[tuple[str, Remark]]:
    """Return the remarks of plugins on the patches that are checked, with their names."""
    found: list[tuple[str, Remark]] = []
    for entry in checked:
        applied = entry.verdict == APPLY
        remarks = (
            plan.remarks(entry) if applied else patcher.plugins.remarks(entry, thorough=True, environment=environment)
        )
        found += ((entry.patch.name, remark) for remark in remarks)
    return found


def _checked(plan: Plan, environment: Environment) -> list[PlannedPatch]:
    """Return the patches for the installed libraries that are not disabled, also those that need an NPU."""
    return [entry for entry in plan if not is_disabled(entry) and environment.has_libraries_of(entry.patch)]


def _try(patcher: Patcher, names: list[str]) -> list[Finding]:
    found: list[Finding] = []
    try:
        with patcher:
            for module in dict.fromkeys(
                t.module for entry in patcher.plan() if entry.verdict == APPLY for t in entry.targets
            ):
                try:
                    with CONTAINED:
                        importlib.import_module(module)
                except PatchError:
                    pass  # a patch failed: its record has the reason
                except Exception as error:
                    found.append(Finding("import", module, describe_error(error)))
            records = [record for record in patcher.report().patches if record.name in names]
            found += (Finding(r.status, r.name, r.reason) for r in records if r.status in (FAILED, PENDING))
    except PatchError as error:
        found.append(Finding("failed", "apply", str(error)))
    return found
