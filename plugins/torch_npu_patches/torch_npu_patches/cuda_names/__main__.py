"""``python -m torch_npu_patches.cuda_names PACKAGE ...``: the lines of packages that compare with ``"cuda"``."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Optional

import patchcore as pc
from patchcore.plugin import counted, did_you_mean, parse_source, write_whole
from torch_npu_patches.cuda_names import branches, editing, lines, listing, scope
from torch_npu_patches.cuda_names.listing import Row

__all__ = ["listed_rows", "main", "rows_of"]


def rows_of(package: str, *, by_rule: bool = False) -> Iterator[tuple[Row, str]]:
    """Yield the lines of an installed package, each with the code that runs in its place; import nothing of it.

    Args:
        package: as it is imported.
        by_rule: decide by the rule alone, without the list of the plugin.

    Raises:
        SettingsError: there is no such package, or it has no sources; or the list is malformed.
    """
    spec = importlib.util.find_spec(package) if package.isidentifier() else None
    origin = None if spec is None else spec.origin
    if spec is None or origin is None or not origin.endswith(".py"):
        near = did_you_mean(package, [path.name for entry in sys.path for path in Path(entry).glob(f"{package[:2]}*")])
        raise pc.SettingsError(f"no package {package!r} with Python sources is installed{near}")
    root = Path(origin).parent
    for path in sorted(root.rglob("*.py")) if spec.submodule_search_locations else [Path(origin)]:
        text = path.read_text(encoding="utf-8", errors="replace")
        found = sorted({*editing.find(text), *(branches.find(text) if _may_hide_cuda(text) else ())})
        if not found:
            continue
        try:
            tree, functions = parse_source(text), parse_source(text)
        except (SyntaxError, ValueError, RecursionError):
            continue
        name = ".".join(path.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__")
        source = pc.Source(name, str(path), text, found)
        listed = {} if by_rule else listing.verdicts(name, str(path))
        editing.edit(tree, source, listed)
        if _may_hide_cuda(text):
            branches.edit(tree, source, listed)
        for line in lines.lines_of(str(path), source.notes):
            where = _function_at(functions.body, line.line)
            place = f"{path.relative_to(root.parent).as_posix()}:{line.line}"
            why = line.why or _why_off(package, line.hides)
            yield Row(place, where, line.before, not why, why), line.after


def _may_hide_cuda(text: str) -> bool:
    return any(word in text for word in branches.WORDS)


def _why_off(package: str, hides: bool) -> str:
    """Return why no line of a package is edited; empty if lines are."""
    if package in scope.OWN_BRANCHES:
        return "the package is never edited"
    if hides and package not in scope.WITH_BRANCHES:
        return "its function names npu itself, and the package is none of those whose branches are known"
    return ""


def _function_at(statements: list[ast.stmt], line: int) -> str:
    for statement in statements:
        if not statement.lineno <= line <= (statement.end_lineno or line):
            continue
        inner: Optional[str] = None
        for field in ("body", "orelse", "finalbody"):
            inner = inner or _function_at(getattr(statement, field, []), line)
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return f"{statement.name}.{inner}" if inner else statement.name
        return inner or ""
    return ""


def listed_rows(package: str, versions: Mapping[str, list[Row]]) -> list[Row]:
    """Return the rows of an installed package as the list is to have them.

    Verdicts that a person has changed are kept, also those of other versions about the same expression of the same
    function.

    Args:
        package: as it is imported.
        versions: the rows that the list has about the package.
    """
    by_hand = {_without_line(row): row for rows in versions.values() for row in rows}
    found = []
    for row, _ in rows_of(package, by_rule=True):
        old = by_hand.get(_without_line(row))
        changed = old is not None and old.edited != row.edited and old.why and row.why in ("", *editing.OWN_BRANCH)
        found.append(row._replace(edited=old.edited, why=old.why) if old is not None and changed else row)
    return found


def _without_line(row: Row) -> tuple[str, str, str]:
    return row.place.rpartition(":")[0], row.function, row.source


def main(arguments: Optional[list[str]] = None) -> int:
    """Print the lines of packages, one row each, or write them to the list; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m torch_npu_patches.cuda_names",
        description='List the lines of installed packages that compare with "cuda", or look for CUDA in functions that '
        "have a branch for NPUs: edited on an NPU, or left alone.",
    )
    parser.add_argument("packages", nargs="+", metavar="PACKAGE", help="as it is imported: timm, accelerate")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="text by default")
    parser.add_argument(
        "--write",
        metavar="FILE",
        nargs="?",
        type=Path,
        const=listing.LISTING,
        help="write the installed versions to the list of the plugin, or to FILE; verdicts changed by hand are kept",
    )
    options = parser.parse_args(arguments)
    try:
        if options.write is not None:
            _write(options.write, options.packages)
            return 0
        found = {package: list(rows_of(package)) for package in options.packages}
    except pc.SettingsError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    if options.format == "json":
        rows = [
            {"package": package, "version": listing.public_version(package), **row._asdict(), "after": after}
            for package, some in found.items()
            for row, after in some
        ]
        print(json.dumps(rows, indent=1))
        return 0
    for package, some in found.items():
        version = listing.public_version(package) or "?"
        for row, after in some:
            verdict = "on " if row.edited else "off"
            print(f"{verdict} {package} {version}  {row.place}  {row.function or '<module>'}")
            print(f"      {row.source}  ->  {after}" if row.edited else f"      {row.source}: {row.why}")
    edited = [row.edited for some in found.values() for row, _ in some]
    print(f"{counted(len(edited), 'line')}: {sum(edited)} on, {len(edited) - sum(edited)} off")
    return 0


def _write(path: Path, packages: list[str]) -> None:
    """Write the installed versions of ``packages`` to a list, and keep all else that is in it."""
    found = listing.load(path) if path.exists() else {}
    for package in packages:
        version = listing.public_version(package)
        if not version:
            raise pc.SettingsError(f"the installed package {package!r} has no version")
        found.setdefault(package, {})[version] = listed_rows(package, found.get(package, {}))
    write_whole(path, listing.dumped(found))
    rows = [row for package in packages for row in found[package][listing.public_version(package)]]
    print(f"{path}: {counted(len(rows), 'line')} of {counted(len(packages), 'package')}")


if __name__ == "__main__":
    sys.exit(main())
