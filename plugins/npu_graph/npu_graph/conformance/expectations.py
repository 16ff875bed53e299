"""Failures that an ini file expects."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Optional

from npu_graph.conformance.cases import EVERY, Case
from patchcore import SettingsError
from patchcore.plugin import did_you_mean

__all__ = ["Expected", "parse_expected"]

_LINE = re.compile(r"(?P<operator>[\w.]+)(\[(?P<label>[^\]]*)\])?(:(?P<dtype>\w+))?(\s+(?P<reason>.*))?$")


class Expected(NamedTuple):
    """A known failure.

    Args:
        line: as it stands in the ini file.
        operator: of an overload.
        label: of the case, ``None`` for any.
        dtype: ``None`` for any.
        reason: why it fails.
    """

    line: str
    operator: str
    label: Optional[str]
    dtype: Optional[str]
    reason: str

    def concerns(self, operator: str, dtype: str) -> bool:
        """Return whether it is about an operator in a dtype."""
        return self.operator == operator and self.dtype in (None, dtype)

    def covers(self, case: Case) -> bool:
        """Return whether it is about a case of its operator."""
        return self.label in (None, case.label)


def parse_expected(lines: Iterable[str], cases: Sequence[Case]) -> list[Expected]:
    """Return the expected failures of the lines of an ini file.

    Raises:
        SettingsError: a line cannot be read, or there is no such case, with the nearest there is.
    """
    found = []
    for line in filter(str.strip, lines):
        match = _LINE.match(line.strip())
        if match is None or not match["reason"]:
            raise SettingsError(
                f"graph_expected_failures: expected OPERATOR, OPERATOR:DTYPE or OPERATOR[CASE]:DTYPE and a reason, as: "
                f"aten.tanh.default:float32 off by 1e-3 below -4, got {line!r}"
            )
        expected = Expected(line.strip(), match["operator"], match["label"], match["dtype"], match["reason"])
        _check(expected, cases)
        found.append(expected)
    return found


def _check(expected: Expected, cases: Sequence[Case]) -> None:
    own = [case for case in cases if case.operator == expected.operator]
    checks = [
        (expected.operator, [case.operator for case in cases], "operator"),
        (expected.label, [case.label for case in own], f"case of {expected.operator}"),
        (expected.dtype, EVERY, "dtype"),
    ]
    for given, known, what in checks:
        if given is not None and given not in known:
            raise SettingsError(f"graph_expected_failures: there is no {what} {given!r}{did_you_mean(given, known)}")
