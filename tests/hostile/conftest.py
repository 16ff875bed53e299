"""Hostile tests: code that breaks naive patchers. Their marks are the tables of docs/semantics.md.

A test of an inherent limit carries ``@pytest.mark.limit("what does not work", told="where users are told")``.
A test of a kind of object that holds a function by value carries ``@pytest.mark.holder("kind", "rebound")``, or
``"reported"`` where patchcore names the holder and its location instead. ``tools/semantics_tables.py`` writes the
tables.

Modules here are collected on every Python, with and without torch, so that the tables are the same everywhere. A test
that needs torch takes the fixture ``torch`` or carries ``@pytest.mark.libraries("torch")``; no module imports it at its
top.
"""

from __future__ import annotations

import sys

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marks."""
    config.addinivalue_line("markers", "limit(what, told): an inherent limit, a row of docs/semantics.md")
    config.addinivalue_line("markers", "holder(kind, outcome): an object that holds a function by value, a row there")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs the variables of running functions on Python 3.13, which asks no frame for them."""
    if sys.version_info >= (3, 13):
        for item in items:
            if item.name.endswith(("[a generator]", "[a thread local]")) or "running_function" in item.name:
                item.add_marker(pytest.mark.skip(reason="variables of running functions are not read on Python 3.13"))
