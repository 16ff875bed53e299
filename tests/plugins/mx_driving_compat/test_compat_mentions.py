"""mentions.py: the packages that a function which patches by hand is about to change."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import pytest

from mx_driving_compat.patches.mentions import mentioned_packages

MIGRATION = {
    "library": "import other",
    "library.ops": "class Net: pass\ndef conv(): pass",
    "other": "",
    "migration": """
        import json, sys
        import library
        import library.ops as ops
        from library.ops import Net, conv
        from migration import helpers
        value = 3

        def imports(module, options):
            import other.inner
            from library import ops
        def imports_relatively(module, options):
            from . import helpers
        def names_a_module(module, options): ops.conv = 1
        def names_a_class(module, options): Net.forward = 1
        def names_a_function(module, options): conv.flag = 1
        def helps_itself(module, options): helper()
        def helper(): Net.forward = 1
        def recursive(module, options):
            recursive(module, options)
            imports(module, options)
        def uses_text(module, options): sys.modules["library.ops"].conv = 1
        def uses_unknown_text(module, options): return "nothing.known", "some words of library"
        def defines(module, options):
            def later():
                import other
            module.other_conv = later
        def uses_the_standard_library(module, options): return json, sys, value, len
        def closes_over():
            used = Net
            def inner(module, options): used.forward = 1
            return inner
        def unbound():
            def inner(module, options): return late
            found = inner
            return found
            late = 1
        class Holder:
            def method(self, module, options): Net.forward = 1
            def __call__(self, module, options): Net.forward = 1
        """,
    "migration.helpers": "def helper(): pass",
}


@pytest.fixture
def migration(make_package: Any) -> Any:
    make_package(MIGRATION)
    return importlib.import_module("migration")


@pytest.mark.parametrize(
    ("name", "packages"),
    [
        ("imports", ("library", "other")),
        ("imports_relatively", ("migration",)),
        ("names_a_module", ("library",)),
        ("names_a_class", ("library",)),
        ("names_a_function", ("library",)),
        ("helps_itself", ("library",)),
        ("recursive", ("library", "other")),
        ("uses_text", ("library",)),
        ("uses_unknown_text", ()),
        ("defines", ()),
        ("uses_the_standard_library", ()),
    ],
)
def test_what_the_code_of_a_function_says(migration: Any, name: str, packages: tuple[str, ...]) -> None:
    assert mentioned_packages(getattr(migration, name)) == packages


def test_what_a_function_closes_over(migration: Any) -> None:
    assert mentioned_packages(migration.closes_over()) == ("library",)
    assert mentioned_packages(migration.unbound()) == ()


@pytest.mark.parametrize("kind", ["callable object", "partial", "builtin"])
def test_what_has_no_code_to_read_mentions_nothing(migration: Any, kind: str) -> None:
    function = {
        "callable object": migration.Holder(),
        "partial": functools.partial(migration.names_a_class),
        "builtin": len,
    }[kind]
    assert mentioned_packages(function) == ()
