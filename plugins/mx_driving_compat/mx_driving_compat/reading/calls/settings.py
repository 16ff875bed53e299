"""Reads calls that become settings: profiling, brake, private tensor formats."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, Callable, NamedTuple

from mx_driving_compat.reading.program.source import Unknown, called_name
from mx_driving_compat.reading.program.walking import FoundCall

__all__ = ["INTERNAL_FORMAT", "SETTING_CALLS", "Setting", "internal_format"]

#: The patch of torch-npu-patches that switches private tensor formats.
INTERNAL_FORMAT = "torch.internal_format"

_PROFILING = ("path", "level", "skip_first", "wait", "warmup", "active", "repeat")


class Setting(NamedTuple):
    """A setting for ``[tool.patchcore]``.

    Args:
        line: of the call.
        key: of the setting; of a table ``profiling`` or ``options`` with dots.
        value: a literal.
        doubt: why the call may not run, empty if it always runs.
    """

    line: int
    key: str
    value: Any
    doubt: str = ""


def _profiling(found: FoundCall) -> list[Setting]:
    given = dict(zip(_PROFILING, found.scope.spread(found.node.args)))
    given.update((keyword.arg, keyword.value) for keyword in found.node.keywords if keyword.arg)
    for name in given:
        if name not in _PROFILING:
            raise Unknown(f"with_profiling has no {name}")
    return [_setting(found, f"profiling.{name}", node, "--profile DIR") for name, node in given.items()]


def _brake(found: FoundCall) -> list[Setting]:
    given = [*found.scope.spread(found.node.args), *(keyword.value for keyword in found.node.keywords)]
    if len(given) != 1:
        raise Unknown("it takes the number of a step")
    return [_setting(found, "brake", given[0], "--brake N")]


def _setting(found: FoundCall, key: str, node: ast.expr, option: str) -> Setting:
    try:
        value = found.scope.literal(node)
    except Unknown:
        advice = f"say it with patchcore run {option}"
        raise Unknown(f"{ast.unparse(node)} is known when the program runs", advice) from None
    return Setting(found.line, key, value, found.conditions.doubt)


#: The reader of each of the calls.
SETTING_CALLS: Mapping[str, Callable[[FoundCall], list[Setting]]] = {
    "with_profiling": _profiling,
    "brake_at": _brake,
    "with_brake": _brake,
}


def internal_format(found: FoundCall) -> list[Setting]:
    """Return the setting for private tensor formats; nothing if the call forbids them, which is the default."""
    name = called_name(found.node)
    given = [keyword.value for keyword in found.node.keywords if keyword.arg in ("allow", "allow_internal_format")]
    given = [*found.node.args, *given]
    allow: Any = name == "allow_internal_format"
    if given and name != "disallow_internal_format":
        allow = found.scope.literal(given[0])
    return [Setting(found.line, f'options."{INTERNAL_FORMAT}".allow', True, found.conditions.doubt)] if allow else []
