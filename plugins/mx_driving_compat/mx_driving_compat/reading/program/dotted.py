"""Makes targets from dotted texts: decides where the module ends."""

from __future__ import annotations

from typing import NamedTuple

from mx_driving_compat.reading.program.source import Unknown
from patchcore import Target
from patchcore.plugin import find_module

__all__ = ["DottedTarget", "split_target"]


class DottedTarget(NamedTuple):
    """A target made from a dotted text.

    Args:
        target: ``module:attribute``.
        found: whether the module was found here; otherwise PEP 8 names decided.
    """

    target: str
    found: bool

    @property
    def in_class(self) -> bool:
        """True if the attribute is not one of a module."""
        return "." in self.target.partition(":")[2]


def split_target(dotted: str) -> DottedTarget:
    """Split ``package.module.Class.attribute`` after the module. Imports nothing.

    Modules that can be found decide. If fewer are found than the names suggest (up to the first name with a capital, or
    the last one), the library is missing or is another version, and the style of the names decides (PEP 8).

    Raises:
        Unknown: it is no dotted name of something in a module.
    """
    if ":" in dotted:
        return DottedTarget(str(Target.parse(dotted)), True)
    names = dotted.split(".")
    if len(names) < 2 or not all(name.isidentifier() for name in names):
        raise Unknown(f"{dotted!r} names nothing in a module")
    found = 0
    while found < len(names) - 1 and find_module(".".join(names[: found + 1])):
        found += 1
    likely = next((i for i, name in enumerate(names) if i and name.lstrip("_")[:1].isupper()), len(names) - 1)
    depth = max(found, likely)
    return DottedTarget(f"{'.'.join(names[:depth])}:{'.'.join(names[depth:])}", found == depth)
