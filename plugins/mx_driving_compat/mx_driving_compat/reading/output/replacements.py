"""Makes the copy of a ``patch.py`` import its API from mx_driving_compat; the rest stays as it is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from mx_driving_compat.reading.declarations import Remark
from mx_driving_compat.reading.program.source import PATCHER, Source

__all__ = ["rewrite_imports", "with_functions"]

_OURS = "mx_driving_compat"
_ROOT = PATCHER.partition(".")[0]
_FROM = re.compile(rf"(from[\s\\]+){_ROOT}\b")
_INSTALL = "run the program with: patchcore run --compat mx_driving"


def rewrite_imports(source: Source) -> tuple[str, list[Remark]]:
    """Return the text of the file, its imports of ``mx_driving.patcher`` from mx_driving_compat, and the work left.

    ``from mx_driving.patcher import X`` and ``import mx_driving.patcher as p`` change. A plain ``import
    mx_driving.patcher`` binds ``mx_driving``, which the file may use for the kernels: it is left to do by hand.
    """
    lines = source.text.splitlines(keepends=True)
    left: list[Remark] = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom) and _concerns(node):
            if node.module == _ROOT and len(node.names) > 1:
                advice = f"import patcher in a line of its own, from {_OURS}; or {_INSTALL}"
                left.append(Remark(node.lineno, ast.unparse(node), advice))
            else:
                _replace(lines, node, _FROM, rf"\g<1>{_OURS}")
        elif isinstance(node, ast.Import):
            for alias in _patcher_modules(node):
                if alias.asname is None:
                    advice = f"import it from {_OURS}, under a name of its own; or {_INSTALL}"
                    left.append(Remark(node.lineno, ast.unparse(node), advice))
                else:
                    name = re.compile(rf"(?<![\w.]){re.escape(alias.name)}(?=[\s\\]+as\b)")
                    _replace(lines, node, name, f"{_OURS}{alias.name[len(_ROOT) :]}")
    return "".join(lines), left


def with_functions(text: str, functions: Iterable[str]) -> str:
    """Return the text of the file with functions at its end, in the place of lambdas that plugin.py cannot name."""
    parts = list(functions)
    if not parts:
        return text
    return "\n\n".join([f"{text.rstrip()}\n\n\n# plugin.py names these functions, which are lambdas above.\n", *parts])


def _concerns(node: ast.ImportFrom) -> bool:
    if node.level:
        return False
    if node.module == _ROOT:
        return any(alias.name == "patcher" for alias in node.names)
    return f"{node.module}.".startswith(f"{PATCHER}.")


def _patcher_modules(node: ast.Import) -> Iterator[ast.alias]:
    return (alias for alias in node.names if f"{alias.name}.".startswith(f"{PATCHER}."))


def _replace(lines: list[str], node: ast.stmt, pattern: re.Pattern[str], text: str) -> None:
    """Replace the first match of ``pattern`` in a statement. Columns in the syntax tree count bytes."""
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    before = lines[first].encode()[: node.col_offset].decode()
    statement = lines[first][len(before) :] + "".join(lines[first + 1 : last + 1])
    lines[first : last + 1] = [before + pattern.sub(text, statement, count=1), *[""] * (last - first)]
