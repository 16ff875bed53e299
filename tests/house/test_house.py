"""The bounds of the house: a small core without circles that knows no library, and plugins without circles."""

from __future__ import annotations

import ast
import graphlib
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchcore.plugins import BUILTINS

ROOT = Path(__file__).resolve().parents[2]
CORE = [path for path in (ROOT / "patchcore").rglob("*.py") if "builtin" not in path.parts]
PLUGINS = sorted(path.parent for path in ROOT.glob("plugins/*/*/__init__.py"))
BUILTIN = ROOT / "patchcore" / "builtin"

MOST_LINES = 6060
MOST_MODULES = 12
LIBRARIES = re.compile(r"\b(torch|numpy|mmcv|mmengine|mmdet|cuda|_module_dict)\b")


def docstrings(tree: ast.AST) -> set[int]:
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def lines_of_code(path: Path) -> int:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    said = {
        number
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for number in range(node.lineno, node.end_lineno + 1)
    }
    lines = enumerate(text.splitlines(), 1)
    return sum(1 for n, line in lines if line.strip() and not line.lstrip().startswith("#") and n not in said)


def name_of(path: Path, root: Path) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def imports(path: Path, modules: set[str]) -> Iterator[str]:
    """Yield what a module imports of ``modules``, wherever the statement stands."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield from [inner] if inner in modules else [node.module] if node.module in modules else []


def refuse_circles(paths: list[Path], root: Path) -> None:
    named = {name_of(path, root): path for path in paths}
    graph = {name: set(imports(path, set(named))) - {name} for name, path in named.items()}
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError with the circle


def test_the_core_is_small() -> None:
    assert sum(map(lines_of_code, CORE)) <= MOST_LINES
    sizes = Counter(path.parent for path in CORE if path.name != "__init__.py")
    assert not {str(folder): count for folder, count in sizes.items() if count > MOST_MODULES}


def test_the_core_has_no_circle_of_imports() -> None:
    refuse_circles(CORE, ROOT)


def test_the_core_knows_no_library() -> None:
    found = []
    for path in CORE:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        said = docstrings(tree)
        for node in ast.walk(tree):
            text = getattr(node, "id", None) or getattr(node, "attr", None)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
                text = node.value
            if isinstance(text, str) and len(text) < 60 and LIBRARIES.search(text):
                found.append(f"{path.name}: {text}")
    assert not found


def test_every_feature_is_a_plugin_of_the_core() -> None:
    features = {path.parent.name for path in BUILTIN.glob("*/__init__.py")}
    # The look of pages, and the lines that install distributions, which plugins share.
    assert features == {*BUILTINS, "html", "install"}


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda path: path.name)
def test_plugins_have_no_circle_of_imports(plugin: Path) -> None:
    refuse_circles(sorted(plugin.rglob("*.py")), plugin.parent)


def test_built_in_plugins_have_no_circle_of_imports() -> None:
    refuse_circles(sorted(BUILTIN.rglob("*.py")), ROOT)
