"""Hostile tests: code that breaks naive patchers. Their marks are the tables of docs/semantics.md.

A test of an inherent limit carries ``@pytest.mark.limit("what does not work", told="where users are told")``.
A test of a kind of object that holds something by value carries ``@pytest.mark.holder("kind", "follows", "rebound")``:
what becomes of it by a ``Wrap`` and by a plain ``Replace``; ``"reported"`` where patchcore names the holder and its
location instead. ``tools/semantics_tables.py`` writes the
tables. Of the cases of a test with ``@pytest.mark.in_turn`` each Python runs every second one, see ``turns.py``.

Modules here are collected on every Python, with and without torch, so that the tables are the same everywhere. A test
that needs torch takes the fixture ``torch`` or carries ``@pytest.mark.libraries("torch")``; no module imports it at its
top.
"""

from __future__ import annotations

import sys
from collections import defaultdict

import pytest
from turns import in_turn


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marks."""
    config.addinivalue_line("markers", "limit(what, told): an inherent limit, a row of docs/semantics.md")
    config.addinivalue_line("markers", "holder(kind, wrapped, replaced): what holds a value, a row there")
    config.addinivalue_line("markers", "in_turn: two Pythons share out its cases")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out cases that other Pythons run; skip what needs the variables of running functions on Python 3.13."""
    cases = defaultdict(list)
    for item in items:
        if item.get_closest_marker("in_turn"):
            cases[item.nodeid.partition("[")[0]].append(item)
    others = {case for of_one in cases.values() if len(of_one) > 1 for case in of_one}
    others.difference_update(case for of_one in cases.values() for case in in_turn(of_one))
    if others:
        config.hook.pytest_deselected(items=list(others))
        items[:] = [item for item in items if item not in others]
    if sys.version_info >= (3, 13):
        for item in items:
            if item.name.endswith(("[a generator]", "[a thread local]")) or "running_function" in item.name:
                item.add_marker(pytest.mark.skip(reason="variables of running functions are not read on Python 3.13"))
