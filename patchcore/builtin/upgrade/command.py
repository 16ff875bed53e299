"""``patchcore upgrade-report LIB==A LIB==B``: the findings of ``check`` for an upgrade, before it is installed."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from patchcore.builtin.check.command import add_finding_options, print_findings
from patchcore.builtin.shared.command_line import print_problems
from patchcore.builtin.shared.rows import print_text
from patchcore.builtin.upgrade.comparing import Upgrade, compare_releases
from patchcore.builtin.upgrade.releases import get_release
from patchcore.cli import options as shared
from patchcore.cli.output import print_json, print_line
from patchcore.objects.printable import counted

__all__ = ["add_arguments", "main"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Compare the targets of patches in two releases of a library: what is gone, which calls the replacements do "
        "not accept, which copies become stale, which patches are for one of the releases only. The sources of the "
        "releases are downloaded by pip and read; nothing of them is installed, imported or executed."
    )
    parser.add_argument("old", metavar="OLD", help="NAME==VERSION, or the file of a wheel or source distribution")
    parser.add_argument("new", metavar="NEW", help="another release of the same library")
    parser.add_argument(
        "--build",
        action="store_true",
        help="let pip download a source distribution if there is no wheel; pip runs code of the library for that",
    )
    parser.add_argument(
        "--all", action="store_true", help="also show the findings that the old release has too, and count them"
    )
    shared.add_selection(parser)
    shared.add_format(parser)
    add_finding_options(parser)
    parser.set_defaults(command=main)


def main(options: argparse.Namespace) -> int:
    """Print what the upgrade does; 1 if there are findings."""
    patcher = shared.patcher_from(options)
    with tempfile.TemporaryDirectory(prefix="patchcore-upgrade-") as folder:
        old, new = (
            get_release(text, Path(folder, name), build=options.build)
            for name, text in (("old", options.old), ("new", options.new))
        )
        found = compare_releases(patcher, old, new, whole=options.all)
    if options.format == "json":
        print_json(found.to_dict())
    else:
        _print(found, copies=options.diff)
    print_problems(patcher)
    return found.findings.exit_code(options.exit_on)


def _print(found: Upgrade, *, copies: bool) -> None:
    print_text(f"{found.old} -> {found.new}: {counted(found.patches, 'patch')}", indent=2)
    print_findings(found.findings, copies=copies)
    if found.findings.findings:
        print_line()
    coverage = found.findings.coverage
    print_text(str(coverage._replace(skipped={})), indent=2)
    if found.standing:
        some = f"{counted(len(found.standing), 'finding')} with {found.old} too (--all shows them)"
        names = dict.fromkeys(f"{finding.kind} {finding.subject}" for finding in found.standing)
        print_text(f"{some}: {', '.join(names)}", indent=2)
    if found.starting:
        print_text(f"not for {found.old}, but for {found.new}: {', '.join(found.starting)}", indent=2)
    if coverage.skipped:
        print_text(f"for neither release: {counted(sum(coverage.skipped.values()), 'patch')}", indent=2)
