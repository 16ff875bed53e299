"""``python -m torch_npu_patches.cuda_names PACKAGE ...``: the lines of packages that know CUDA by its name."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Optional

import patchcore as pc
from patchcore.builtin.sources import parse
from patchcore.errors import did_you_mean
from patchcore.objects.printable import counted
from patchcore.planning.distributions import version_of_provider
from torch_npu_patches.cuda_names import branches, editing, lines, scope

__all__ = ["Row", "main", "rows_of"]


class Row(NamedTuple):
    """A line of a package that compares with ``"cuda"``, or looks for CUDA in a function that knows NPUs.

    Args:
        package, version: installed.
        function: with its classes; empty for the top level of a module.
        place: file, from the folder of the package, and line.
        edited: whether ``torch.transfer_to_npu.library_names`` or ``.npu_branches`` edits it.
        source: the expression.
        after: what runs in its place; or why it is left alone.
    """

    package: str
    version: str
    function: str
    place: str
    edited: bool
    source: str
    after: str


def rows_of(package: str) -> Iterator[Row]:
    """Yield the lines of an installed package, read from its sources; nothing of it is imported.

    Raises:
        SettingsError: there is no such package, or it has no sources.
    """
    spec = importlib.util.find_spec(package) if package.isidentifier() else None
    origin = None if spec is None else spec.origin
    if spec is None or origin is None or not origin.endswith(".py"):
        near = did_you_mean(package, [path.name for entry in sys.path for path in Path(entry).glob(f"{package[:2]}*")])
        raise pc.SettingsError(f"no package {package!r} with Python sources is installed{near}")
    root = Path(origin).parent
    version = version_of_provider(package) or "?"
    for path in sorted(root.rglob("*.py")) if spec.submodule_search_locations else [Path(origin)]:
        text = path.read_text(encoding="utf-8", errors="replace")
        found = sorted({*editing.find(text), *(branches.find(text) if _knows_npus(text) else ())})
        if not found:
            continue
        try:
            tree, functions = parse(text), parse(text)
        except (SyntaxError, ValueError, RecursionError):
            continue
        lines.forget(str(path))
        source = pc.Source(package, str(path), text, found)
        editing.edit(tree, source)
        if _knows_npus(text):
            branches.edit(tree, source)
        for line in lines.found():
            if line.file == str(path):
                where = _function_at(functions.body, line.line)
                place = f"{path.relative_to(root.parent)}:{line.line}"
                why = line.why or _why_off(package, line.hides)
                yield Row(package, version, where, place, not why, line.before, why or line.after)


def _knows_npus(text: str) -> bool:
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


def main(arguments: Optional[list[str]] = None) -> int:
    """Print the lines of packages, one row each; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m torch_npu_patches.cuda_names",
        description='List the lines of installed packages that compare with "cuda", or look for CUDA in functions that '
        "have a branch for NPUs: edited on an NPU, or left alone.",
    )
    parser.add_argument("packages", nargs="+", metavar="PACKAGE", help="as it is imported: timm, accelerate")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="text by default")
    options = parser.parse_args(arguments)
    try:
        rows = [row for package in options.packages for row in rows_of(package)]
    except pc.SettingsError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    if options.format == "json":
        print(json.dumps([row._asdict() for row in rows], indent=1))
        return 0
    for row in rows:
        verdict = "on " if row.edited else "off"
        print(f"{verdict} {row.package} {row.version}  {row.place}  {row.function or '<module>'}")
        print(f"      {row.source}  ->  {row.after}" if row.edited else f"      {row.source}: {row.after}")
    print(
        f"{counted(len(rows), 'line')}: {sum(row.edited for row in rows)} on, {sum(not row.edited for row in rows)} off"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
