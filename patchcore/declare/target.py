"""Targets: the places that changes edit, written ``package.module:Class.attribute``."""

from __future__ import annotations

import ast
import re
from typing import Callable, NamedTuple, Union

from patchcore.errors import TargetError
from patchcore.objects.modules import find_module

__all__ = ["Item", "Step", "Target"]


class Item(NamedTuple):
    """One ``[key]`` step of a target's path: an item of a mapping, or an entry of a registry.

    Examples:
        >>> from patchcore import Target
        >>> Target.parse('shop:PRICES["tea"]').path
        ('PRICES', Item(key='tea'))
    """

    key: Union[str, int]

    def __str__(self) -> str:
        return f"[{self.key!r}]"


Step = Union[str, Item]

#: Patterns for targets that are more than plain names with dots. ``re`` compiles them at the first use, not at import.
_STEP = r"""(?xs) \.?(?P<name>[^\W\d]\w*) | \[ (?P<key> "(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*' | -?\d+ ) \]"""
#: A folder inside a package may have a number for a name: transformers puts remote code into one with a hash.
_MODULE = r"[^\W\d]\w*(\.\w+)*"


class Target(NamedTuple):
    """The place that a change edits, as written: ``package.module:Class.attribute``, an entry-point object reference.

    Items of mappings are written ``package.module:TABLE["key"]``. The all-dots form ``package.module.Class.attribute``
    parses to a target without module; :meth:`pin` finds the module without importing it.

    Args:
        module: dotted name of the module, ``""`` for the all-dots form.
        path: attribute names and :class:`Item` keys from the module to the slot. A parsed target has at least one (two
            in the all-dots form); the path is empty if a change edits the import of the module itself.

    Examples:
        >>> import patchcore as pc
        >>> pc.Target.parse("shop.prices:Till.total")
        Target(module='shop.prices', path=('Till', 'total'))
    """

    module: str
    path: tuple[Step, ...]

    @classmethod
    def parse(cls, text: str) -> Target:
        """Return the target that ``text`` names.

        Raises:
            TargetError: ``text`` is malformed; the message names the part.
        """
        if not isinstance(text, str):
            raise TargetError(
                f"a target is a string like 'package.module:Class.attribute', got {type(text).__name__}: {text!r}"
            )
        module, colon, path = text.partition(":")
        if not colon or "[" in module:  # a colon inside ["a key"] does not end the module's name
            module, colon, path = "", "", text
        if colon and not _is_plain(module) and not re.fullmatch(_MODULE, module):
            raise TargetError(
                f"target {text!r}: {module!r} is not a dotted module name; write 'package.module:attribute'"
            )
        steps = _parse_path(path, text)
        if not colon and (len(steps) < 2 or not isinstance(steps[0], str)):
            raise TargetError(f"target {text!r} names a module, not something in it; write '{text}:attribute'")
        return cls(module, steps)

    @property
    def root(self) -> str:
        """The top-level package the target lives in."""
        return (self.module or str(self.path[0])).partition(".")[0]

    def pin(self, is_module: Callable[[str], bool] = find_module) -> Target:
        """Return the target with its module: for the all-dots form the longest prefix that ``is_module`` accepts.

        Nothing is imported. When not even the top-level package can be found, it is taken to be the module.
        """
        if self.module:
            return self
        names: list[str] = []
        for step in self.path[:-1]:
            if not isinstance(step, str) or not is_module(".".join([*names, step])):
                break
            names.append(step)
        depth = max(len(names), 1)
        return Target(".".join(str(step) for step in self.path[:depth]), self.path[depth:])

    def covers(self, other: Target) -> bool:
        """True if ``other`` is this target or lies inside it, as ``m:Class.method`` lies inside ``m:Class``."""
        return self.module == other.module and self.path == other.path[: len(self.path)]

    def __str__(self) -> str:
        try:
            text = ".".join(self.path)  # type: ignore[arg-type]
        except TypeError:  # there are items among the steps
            text = "".join(str(step) if isinstance(step, Item) else f".{step}" for step in self.path).lstrip(".")
        return f"{self.module}:{text}" if self.module and self.path else self.module or text


def _is_plain(text: str) -> bool:
    return text.isascii() and all(map(str.isidentifier, text.split(".")))


def _parse_path(path: str, text: str) -> tuple[Step, ...]:
    if _is_plain(path):
        return tuple(path.split("."))
    pattern = re.compile(_STEP)
    steps: list[Step] = []
    position = 0
    while position < len(path):
        match = pattern.match(path, position)
        named = match is not None and match["name"] is not None
        # a name needs a dot before it everywhere but at the start, and must not have one there
        if match is None or (named and (path[position] == ".") != bool(steps)):
            raise TargetError(
                f"target {text!r}: cannot read {path[position:]!r}; "
                "write 'package.module:Class.attribute' or 'package.module:TABLE[\"key\"]'"
            )
        steps.append(match["name"] if named else Item(_read_key(match["key"], text)))
        position = match.end()
    if not steps or not isinstance(steps[0], str):
        raise TargetError(f"target {text!r} has nothing after the module; write 'package.module:attribute'")
    return tuple(steps)


def _read_key(key: str, text: str) -> Union[str, int]:
    try:
        return ast.literal_eval(key)  # type: ignore[no-any-return]
    except (SyntaxError, ValueError):
        raise TargetError(f"target {text!r}: {key} is not a Python string or integer literal") from None
