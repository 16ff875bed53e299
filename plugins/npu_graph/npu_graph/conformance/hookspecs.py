"""The hook of pytest by which others add cases: implemented in a ``conftest.py`` or a module given to ``pytest -p``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from npu_graph.conformance.cases import Case

__all__ = ["pytest_graph_operator_cases"]


@pytest.hookspec
def pytest_graph_operator_cases(vendor: Any) -> Iterable[Case]:  # type: ignore[empty-body]
    """Return :class:`npu_graph.conformance.cases.Case` objects to try besides those that there are.

    Called once, when tests are collected; torch is loaded by then.

    Args:
        vendor: the :class:`npu_graph.Vendor` that is tried, with all its conversions.
    """
