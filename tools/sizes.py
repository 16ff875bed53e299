"""Print the lines of code of each package, and of the folders of patchcore; blank lines, comments and docstrings aside.

python tools/sizes.py

Figures to look at, not limits: a bound makes code dense, not small.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def lines_of_code(path: Path) -> int:
    """Return how many lines of a Python file are neither blank nor a comment nor of a docstring."""
    text = path.read_text(encoding="utf-8")
    described = {
        number
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines = enumerate(text.splitlines(), 1)
    return sum(1 for n, line in lines if line.strip() and not line.lstrip().startswith("#") and n not in described)


def sizes(package: Path) -> Counter[str]:
    """Return the lines of code of the folders of a package, by their names in it; ``""`` for its own modules."""
    found: Counter[str] = Counter()
    for path in package.rglob("*.py"):
        inside = path.relative_to(package).parts[:-1]
        found["/".join(inside[:2] if inside[:1] == ("builtin",) else inside[:1])] += lines_of_code(path)
    return found


def main() -> None:
    """Print the table."""
    for package in [ROOT / "patchcore", *sorted(path.parent for path in ROOT.glob("plugins/*/*/__init__.py"))]:
        found = sizes(package)
        print(f"{sum(found.values()):7,}  {package.relative_to(ROOT)}")
        for folder, lines in sorted(found.items()) if package.name == "patchcore" else ():
            print(f"{lines:15,}  {folder or 'its own modules'}")
    for name in ("tests", "tools", "benchmarks", "examples"):
        print(f"{sum(map(lines_of_code, (ROOT / name).rglob('*.py'))):7,}  {name}")


if __name__ == "__main__":
    main()
