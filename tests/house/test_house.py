"""The bounds of the house: a core that can be read, and that knows no library; every feature is a plugin."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Callable

import pytest

from patchcore.plugins import BUILTINS

ROOT = Path(__file__).resolve().parents[2]
CORE = [path for path in (ROOT / "patchcore").rglob("*.py") if "builtin" not in path.parts]
BUILTIN = ROOT / "patchcore" / "builtin"

#: Of the files that CONTRIBUTING.md leads a reader through.
MOST_LINES = 2000
MOST_MODULES = 12
LIBRARIES = re.compile(r"\b(torch|numpy|mmcv|mmengine|mmdet|cuda|_module_dict)\b")


def docstrings(tree: ast.AST) -> set[int]:
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def test_the_path_through_the_core_is_short(import_tool: Callable[[str], ModuleType]) -> None:
    lines_of_code = import_tool("sizes").lines_of_code
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    path = page[page.index("follow one call through") : page.index("Then read [the hooks]")]
    files = re.findall(r"`([\w/]+\.py)` \(", path)
    assert len(files) == 6
    assert sum(lines_of_code(ROOT / "patchcore" / file) for file in files) <= MOST_LINES


def test_a_package_is_seen_at_a_glance() -> None:
    modules = [path for path in (ROOT / "patchcore").rglob("*.py") if path.name != "__init__.py"]
    sizes = Counter(path.parent for path in modules)
    assert not {str(folder): count for folder, count in sizes.items() if count > MOST_MODULES}


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
    # The look of pages, the lines that install distributions, and helpers, which plugins share.
    assert features == {*(name for names in BUILTINS.values() for name in names), "html", "install", "shared"}


def test_signatures_are_read_in_one_place() -> None:
    """``inspect.signature`` fails on Python 3.14 where an annotation names what is imported for type checkers only."""
    files = [*(ROOT / "patchcore").rglob("*.py"), *ROOT.glob("plugins/*/*/**/*.py")]
    found = [file for file in files if "inspect.signature(" in file.read_text(encoding="utf-8")]
    assert [file.relative_to(ROOT).as_posix() for file in found] == ["patchcore/objects/generated.py"]


@pytest.mark.parametrize(
    "folders",
    [
        ("core", "hostile", "builtin", "plugins", "house", "integration"),
        ("with_transformers", "with_diffusers"),
    ],
    ids=" ".join,
)
def test_modules_of_tests_that_are_collected_together_have_names_of_their_own(folders: tuple[str, ...]) -> None:
    """The folders are no packages: pytest refuses a second module of a name."""
    paths = [path for folder in folders for path in (ROOT / "tests" / folder).rglob("*.py")]
    names = Counter(path.name for path in paths if path.name != "conftest.py")
    assert names
    assert not [name for name, count in names.items() if count > 1]
