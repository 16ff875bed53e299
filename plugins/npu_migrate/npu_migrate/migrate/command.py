"""``patchcore migrate PATH``: a CUDA program, or a tree of them, as a program for NPUs."""

from __future__ import annotations

import argparse
import itertools
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Optional

import patchcore as pc
from npu_migrate.migrate import reports
from npu_migrate.migrate.findings import NEEDS_A_PERSON, Finding
from npu_migrate.migrate.rules import Rule, RuleTable, built_in_rules, read_rules
from patchcore.plugin import need_jinja, write_whole

__all__ = ["add_parser", "main"]

HOOK = "register_migration_rules"


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "migrate",
        example="patchcore migrate . --output ../on-npu",
        group="write",
        help="convert CUDA programs: a diff, and what a person must do",
        description="Convert the Python files of PATH from CUDA to NPUs. Prints a diff; changes files only with "
        "--write, or writes to --output. Only code that certainly means CUDA is rewritten. Code that may mean CUDA, "
        "names without a counterpart on an NPU, and CUDA operators of C++ sources are reported with file and line.",
        epilog="exit codes: 0 ok, 1 something is unsupported or unknown, or a file could not be converted, 2 usage",
    )
    parser.add_argument("path", type=Path, metavar="PATH", help="a file or a folder")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--write", action="store_true", help="change the files")
    where.add_argument(
        "--output", type=Path, metavar="DIR", help="write the converted project there, with its other files"
    )
    parser.add_argument(
        "--distributed", action="store_true", help="make training scripts for one device run on several"
    )
    parser.add_argument(
        "--format", choices=("table", "json", "csv"), default="table", help="how to print (default: table)"
    )
    parser.add_argument("--no-diff", action="store_true", help="list changes instead of showing a diff")
    parser.add_argument(
        "--report",
        action="append",
        type=Path,
        default=[],
        metavar="FILE",
        help="also write the findings, as .json, .csv or .html (a page)",
    )
    parser.add_argument(
        "--rules", action="append", default=[], metavar="FILE", help="further rules, in TOML; may be repeated"
    )
    parser.add_argument("--disable", action="append", default=[], metavar="RULE", help="leave out a rule, or family.*")
    parser.add_argument("--exclude", action="append", default=[], metavar="PATTERN", help="leave out files or folders")
    parser.add_argument(
        "--jobs", type=_positive, metavar="N", help="processes for many files (default: one for each processor)"
    )
    parser.set_defaults(command=main)


def main(options: argparse.Namespace) -> int:
    """Convert, show or write, report; 1 when something needs a person.

    Raises:
        SettingsError: an option means nothing, or a page needs jinja2.
    """
    _check(options)
    from npu_migrate.migrate.files import LeftOut, walk
    from npu_migrate.migrate.project import Job, convert_files, default_jobs
    from patchcore.plugin import progress

    table = RuleTable(_rules(options.rules), options.disable)
    output: Optional[Path] = options.output
    left_out: list[LeftOut] = []
    files = list(walk(options.path, options.exclude, [] if output is None else [output], left_out))
    findings = [_unread(options.path, each) for each in left_out if each.unreadable]
    changed = 0
    as_table = options.format == "table"
    show_diff = as_table and not options.no_diff and not options.write and output is None
    with progress("migrating", len(files)) as bar:
        job = Job(table, options.distributed)
        for outcome in convert_files(files, job, jobs=options.jobs or default_jobs(), progress=bar.advance):
            failure = _save(outcome, options)
            findings += outcome.findings if failure is None else (*outcome.findings, failure)
            if outcome.content is not None and failure is None:
                changed += 1
                if show_diff:
                    _print_diff(outcome.diff)
    facts = {
        "path": str(options.path),
        "written_to": str(output) if output is not None else str(options.path) if options.write else None,
        "files": len(files),
        "changed": changed,
        "left_out": [{"name": each.name, "why": each.why} for each in left_out if not each.unreadable],
    }
    _print(findings, facts, options.format, changes=not show_diff)
    for path in options.report:
        text = reports.WRITERS[path.suffix](findings, facts)
        try:
            write_whole(path, text)
        except OSError as error:
            raise pc.SettingsError(f"--report {path}: it cannot be written: {error.strerror or error}") from error
    return 1 if any(finding.level in NEEDS_A_PERSON for finding in findings) else 0


def _unread(root: Path, folder: Any) -> Finding:
    """Return the finding about a folder that cannot be read."""
    return Finding((root / folder.name).as_posix(), 1, 1, "file", "error", folder.name, "", f"not read: {folder.why}")


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number, 1 or more, got {text!r}")
    return int(text)


def _check(options: argparse.Namespace) -> None:
    output: Optional[Path] = options.output
    if output is not None:
        if output.resolve() == options.path.resolve():
            raise pc.SettingsError(f"--output {output} is the path to convert; to change it in place, use --write")
        if output.exists() and (not output.is_dir() or any(output.iterdir())):
            raise pc.SettingsError(f"--output {output} exists and is not empty; name another folder or remove it")
    for path in options.report:
        if path.suffix not in (".json", ".csv", ".html"):
            raise pc.SettingsError(f"--report {path}: expected a name that ends in .json, .csv or .html")
        if path.suffix == ".html":
            need_jinja("patchcore migrate --report FILE.html")


def _rules(files: Sequence[str]) -> Iterator[Rule]:
    """The rules of this plugin, of other plugins, of files that the user names; later ones win."""
    yield from built_in_rules()
    plugins = pc.Patcher.discover().plugins
    for provenance, answers in plugins.each(HOOK):
        try:
            for source in itertools.chain.from_iterable(answers):
                yield from read_rules(source, f"plugin {provenance.plugin}")
        except Exception as error:  # of a generator, or of the content of a file
            plugins.note(provenance, HOOK, error)
    for problem in plugins.problems:
        if problem.where == HOOK:
            print(f"patchcore: {problem}", file=sys.stderr)
    for file in files:
        yield from read_rules(file)


def _save(outcome: Any, options: argparse.Namespace) -> Optional[Finding]:
    """Write a converted file, or copy a file to --output; return a finding if that fails."""
    from npu_migrate.migrate.files import write

    try:
        if options.write and outcome.content is not None:
            write(outcome.path, outcome.content)
        elif options.output is not None:
            target = options.output / outcome.name
            if outcome.content is None:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(outcome.path, target)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                write_whole(target, outcome.content)
                shutil.copymode(outcome.path, target)
    except OSError as error:
        return Finding(outcome.path.as_posix(), 1, 1, "file", "error", outcome.name, "", f"not written: {error}")
    return None


def _print(findings: Sequence[Finding], facts: dict[str, Any], form: str, *, changes: bool) -> None:
    if form == "json":
        sys.stdout.write(reports.as_json(findings, facts))
    elif form == "csv":
        sys.stdout.write(reports.as_csv(findings))
    else:
        from patchcore.plugin import print_table, print_text

        for title, columns, rows in reports.tables(findings, changes=changes):
            print_table(title, columns, rows)
            print()
        verb = "changed" if facts["written_to"] else "to change"
        for line in reports.left_out_lines(facts["left_out"]):
            print_text(line, indent=2)
        print(reports.summary(findings, facts["files"], facts["changed"], verb))


def _print_diff(diff: str) -> None:
    if not sys.stdout.isatty():
        sys.stdout.write(diff + "\n")
        return
    from rich.console import Console
    from rich.text import Text

    styles = {"+": "green", "-": "red", "@": "cyan"}
    console = Console(soft_wrap=True, highlight=False)
    for line in diff.splitlines():
        style = "bold" if line.startswith(("+++", "---")) else styles.get(line[:1], "")
        console.print(Text(line, style=style))
    console.print()
