"""Translates tests for versions of libraries into requirements of patches."""

from __future__ import annotations

import ast
from typing import Any, Optional

from mx_driving_compat.reading.program.source import Source

__all__ = ["negated", "precheck_requirement", "version_requirement"]

_OLD, _NEW = "mmcv<2", "mmcv>=2"
_NAMED = {"is_mmcv_v1x": _OLD, "is_mmcv_v2x": _NEW, "is_v1x": _OLD, "is_v2x": _NEW}


def version_requirement(test: ast.expr, source: Source) -> Optional[str]:
    """Return the requirement of a test, ``"mmcv>=2"`` for ``mmcv_version.is_v2x``; ``None`` for other tests."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = version_requirement(test.operand, source)
        return None if inner is None else negated(inner)
    if isinstance(test, ast.Attribute) and source.imported(test.value) == "mmcv_version":
        return _NAMED.get(test.attr)
    if not isinstance(test, ast.Call):
        return None
    name = source.imported(test.func) or ""
    if name == "check_version":
        return _checked(test)
    return _NAMED.get(name) if not test.args and not test.keywords else None


def negated(requirement: str) -> str:
    """Return the opposite requirement."""
    if requirement in (_OLD, _NEW):
        return _OLD if requirement == _NEW else _NEW
    pairs = (("==", "!="), ("!=", "=="))
    return next(requirement.replace(one, other) for one, other in pairs if one in requirement)


def precheck_requirement(precheck: ast.expr, reference: Optional[str], source: Source) -> Optional[str]:
    """Return the requirement that a ``precheck=`` checks, ``None`` if it checks something else.

    Args:
        precheck: the argument.
        reference: the name that it has in the file, if any.
        source: the file.
    """
    if isinstance(precheck, ast.Lambda):
        return version_requirement(precheck.body, source)
    named = source.imported(precheck)
    if named is not None:
        return _NAMED.get(named)
    function = source.function(reference) if reference else None
    body = [] if function is None else [s for s in function.body if not _is_docstring(s)]
    if len(body) == 1 and isinstance(body[0], ast.Return) and body[0].value is not None:
        return version_requirement(body[0].value, source)
    return None


def _checked(call: ast.Call) -> Optional[str]:
    """Return ``mmdet==3.*`` for ``check_version("mmdet", major=3)``."""
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    given.update(zip(("package", "major", "minor"), call.args))
    values: dict[Optional[str], Any] = {n: node.value for n, node in given.items() if isinstance(node, ast.Constant)}
    package, major, minor = (values.get(name) for name in ("package", "major", "minor"))
    if not isinstance(package, str) or not isinstance(major, int) or len(values) != len(given):
        return None
    return f"{package}=={major}.*" if minor is None else f"{package}=={major}.{minor}.*"


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
