"""Authors of plugins import ``patchcore`` and ``patchcore.plugin``, and so do our plugins, examples and pages."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import patchcore
from patchcore import plugin

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import public_names  # noqa: E402

SOURCES = [*ROOT.glob("plugins/*/*/**/*.py"), *ROOT.glob("examples/**/*.py")]
MODULES = [module.name for module in pkgutil.iter_modules(patchcore.__path__)]
PAGES = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("README*.md"), *ROOT.glob("plugins/*/README*.md")]


def imported(source: str) -> Iterator[str]:
    """Yield the modules of patchcore that a source imports from."""
    for node in ast.walk(ast.parse(source)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
            names += [f"patchcore.{a.name}" for a in node.names if node.module == "patchcore" and a.name in MODULES]
        yield from (name for name in names if f"{name}.".startswith("patchcore."))


def test_plugins_and_examples_import_public_modules_only() -> None:
    assert len(SOURCES) > 300
    private = {}
    for file in SOURCES:
        place = file.relative_to(ROOT).as_posix()
        found = set(imported(file.read_text(encoding="utf-8"))) - {"patchcore", "patchcore.plugin"}
        if found:
            private[place] = found
    assert private == {}


def test_pages_import_public_modules_only() -> None:
    pattern = r"^\s*(?:>>> )?(?:from|import) (patchcore(?:\.\w+)+)"
    found = {page.name: set(re.findall(pattern, page.read_text(encoding="utf-8"), re.MULTILINE)) for page in PAGES}
    assert {page: names for page, names in found.items() if names - {"patchcore.plugin"}} == {}


def test_type_checkers_see_the_names_that_there_are() -> None:
    tree = ast.parse(inspect.getsource(plugin))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert seen == plugin._MODULES


@pytest.mark.parametrize("name", plugin.__all__)
def test_every_name_is_there_and_documented(name: str) -> None:
    value = getattr(plugin, name)
    assert not hasattr(patchcore, name), f"{name} has two public places"
    if inspect.isclass(value) or inspect.isfunction(value):
        assert inspect.getdoc(value), f"{name} has no docstring"


def test_the_page_lists_the_names_by_task() -> None:
    page = ROOT / "docs" / "reference.md"
    assert page.read_text(encoding="utf-8") == public_names.rendered(page.read_text(encoding="utf-8")), (
        "python tools/public_names.py writes the list of docs/reference.md"
    )


def test_a_name_that_is_not_public_is_not_there() -> None:
    with pytest.raises(AttributeError, match=r"module 'patchcore\.plugin' has no attribute 'Journal'"):
        plugin.Journal


def test_names_are_loaded_when_they_are_used(run_python) -> None:
    out = run_python(
        """
        import sys
        from patchcore.plugin import describe_error
        print([name for name in sys.modules if name.startswith(("patchcore.engine", "patchcore.builtin"))])
        """
    )
    assert out.strip() == "[]"
