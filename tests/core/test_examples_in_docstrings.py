"""The examples in the docstrings of the package run, and everything public that can be called has one."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator

import pytest

import patchcore
from patchcore import plugin

EXPORTED = {
    f"{module.__name__}.{name}": getattr(module, name) for module in (patchcore, plugin) for name in module.__all__
}
# dict[str, Any] is a class for inspect before Python 3.11.
PUBLIC = [
    name
    for name, value in EXPORTED.items()
    if inspect.isroutine(value) or (inspect.isclass(value) and not hasattr(value, "__origin__"))
]


def with_examples() -> list[doctest.DocTest]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    names = [found.name for found in pkgutil.walk_packages(patchcore.__path__, "patchcore.")]
    modules = [importlib.import_module(name) for name in names if not name.endswith("__main__")]
    return [test for module in modules for test in finder.find(module) if test.examples]


@pytest.fixture(autouse=True)
def no_audit_goes_on() -> Iterator[None]:
    """End an audit that an example has begun: in a program it ends with the process."""
    yield
    audited = sys.modules.get("patchcore.builtin.audit.recorder")
    if audited is not None and audited.RECORDER.started:
        audited.RECORDER.stop()
        audited.RECORDER.__init__()


@pytest.mark.parametrize("example", with_examples(), ids=lambda test: str(test.name))
def test_examples_run(example: doctest.DocTest) -> None:
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    printed: list[str] = []
    assert not runner.run(example, out=printed.append).failed, "".join(printed)


@pytest.mark.parametrize("name", PUBLIC)
def test_what_is_public_has_an_example(name: str) -> None:
    text = inspect.getdoc(EXPORTED[name]) or ""
    assert ">>> " in text.partition("\nExamples:\n")[2], "the reference renders that section as code"
