"""Reads ``operators.txt``, the table of the operators that are computed, and ``signatures.txt``."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

__all__ = ["REFUSED", "SIGNATURES", "TABLE", "Operator", "computed", "parse", "refused", "signatures", "symbol_of"]

#: The table; its head explains the words.
TABLE = Path(__file__).parent / "operators.txt"
#: The arguments of all operators, computed or not.
SIGNATURES = TABLE.with_name("signatures.txt")
#: Operators that torch_npu calls without looking for another one, a line each. They are there, and refuse.
REFUSED = TABLE.with_name("refused.txt")


@dataclass(frozen=True)
class Operator:
    """One operator that is computed.

    Args:
        name: without ``aclnn``; whole if it begins with ``acl`` alone, as ``aclStft`` does.
        letters: the kinds of its arguments.
        computed_by: an operator of ATen, or ``own``.
        words: where the arguments of ATen come from, and where the results go.
    """

    name: str
    letters: str
    computed_by: str
    words: tuple[str, ...] = ()

    @property
    def symbol(self) -> str:
        """The name with which torch_npu looks it up."""
        return symbol_of(self.name)

    @property
    def recipe(self) -> str:
        """The line without the name, which the library reads."""
        return " ".join((self.letters, self.computed_by, *self.words))


def parse(text: str) -> dict[str, Operator]:
    """Return the operators of a table by name.

    Args:
        text: of the table.

    Raises:
        ValueError: a line that is no operator, or a name that is there twice.
    """
    operators: dict[str, Operator] = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, *rest = line.split()
        if len(rest) < 2 or set(rest[0]) - set("TSLZABFybdfiwuhcs"):
            raise ValueError(f"expected a name, letters and what computes it, found {line!r}")
        if name in operators:
            raise ValueError(f"{name} is there twice")
        operators[name] = Operator(name, rest[0], rest[1], tuple(rest[2:]))
    return operators


def symbol_of(name: str) -> str:
    """Return the name with which torch_npu looks an operator up.

    Args:
        name: of the operator in the tables.
    """
    return name if name.startswith("acl") else f"aclnn{name}"


@functools.cache
def computed() -> dict[str, Operator]:
    """Return the operators of ``operators.txt`` by name."""
    return parse(TABLE.read_text(encoding="utf-8"))


@functools.cache
def signatures() -> dict[str, str]:
    """Return the letters of the arguments of each operator of ``signatures.txt``; ``|`` separates two forms."""
    text = SIGNATURES.read_text(encoding="utf-8")
    rows = (line.split() for line in text.splitlines() if line.strip() and not line.startswith("#"))
    return {row[0]: row[1] for row in rows}


@functools.cache
def refused() -> dict[str, str]:
    """Return the letters of the operators of ``refused.txt`` that are not computed."""
    lines = REFUSED.read_text(encoding="utf-8").splitlines()
    names = (line for line in lines if line and not line.startswith("#"))
    return {name: signatures()[name] for name in names if name not in computed()}
