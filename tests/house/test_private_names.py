"""Private names of torch stand in one module of each plugin: where they are used, that module is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PLUGINS = Path(__file__).resolve().parents[2] / "plugins"


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def private_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield each use of a private name of torch in a source, with its line; operators and assignments are none."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "torch":
            names = [*str(node.module).split("."), *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [part for a in node.names if a.name.startswith("torch.") for part in a.name.split(".")]
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            path = ast.unparse(node)
            names = path.split(".") if path.startswith("torch.") and not path.startswith("torch.ops.") else []
        else:
            continue
        if any(map(is_private, names)):
            yield node.lineno, ast.unparse(node)


def test_are_used_through_that_module() -> None:
    not_ours = {"private_torch.py", "conformance"}
    sources = [path for path in PLUGINS.rglob("*.py") if not_ours.isdisjoint(path.parts)]
    found = [
        f"{path.relative_to(PLUGINS)}:{line}: {name}"
        for path in sources
        for line, name in private_names(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []


def test_a_use_is_found() -> None:
    source = "from torch._ops import OpOverload\nimport torch._dynamo\nx = torch._C._f(1)\ntorch.ops.aten._to(1)\n"
    assert [line for line, _ in private_names(ast.parse(source))] == [1, 2, 3, 3]
