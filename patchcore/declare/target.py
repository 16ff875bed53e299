"""Targets: the places that changes edit, written ``package.module:Class.attribute``."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Hashable, Mapping
from typing import Any, Callable, NamedTuple, Union

from patchcore.errors import CONTAINED, TargetError, TargetNotFound, describe_error, did_you_mean
from patchcore.objects.modules import find_module

__all__ = ["Item", "Step", "Target", "object_at"]


class Item(NamedTuple):
    """One ``[key]`` step of a target's path: an item of a mapping, or an entry of a registry.

    Args:
        key: of the item; a :class:`Target` stands for the object that it names, such as a class or a member of an enum.

    Examples:
        >>> from patchcore import Target
        >>> Target.parse('shop:PRICES["tea"]').path
        ('PRICES', Item(key='tea'))
        >>> str(Target.parse('shop:PRICES[shop.kinds:Kind.TEA]').path[1])
        '[shop.kinds:Kind.TEA]'
    """

    key: Hashable

    def find_key(self) -> Any:
        """Return the key, for a :class:`Target` the object that it names; imports its module.

        Raises:
            TargetNotFound: there is no such object.
            Exception: the import of the module failed with it.

        Examples:
            >>> from patchcore import Target
            >>> Target.parse("shop:TABLE[collections:OrderedDict]").path[1].find_key()
            <class 'collections.OrderedDict'>
        """
        if type(self.key) is not Target:
            return self.key
        try:
            return object_at(self.key)
        except TargetNotFound as error:
            raise TargetNotFound(f"the key {error}") from error

    def __str__(self) -> str:
        return f"[{self.key}]" if type(self.key) is Target else f"[{self.key!r}]"


Step = Union[str, Item]

#: Patterns for targets that are more than plain names with dots. ``re`` compiles them at the first use, not at import.
_STEP = r"""(?xs) \.?(?P<name>[^\W\d]\w*) | \[ (?P<key> "(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*' | -?\d+ ) \]"""
#: A key that names an object: a class, a member of an enum.
_NAMED_KEY = r"\[((?:[^\W\d]\w*\.)*[^\W\d]\w*:[^\W\d]\w*(?:\.[^\W\d]\w*)*)\]"
#: A folder inside a package may have a number for a name: transformers puts remote code into one with a hash.
_MODULE = r"[^\W\d]\w*(\.\w+)*"


class Target(NamedTuple):
    """The place that a change edits, as written: ``package.module:Class.attribute``, an entry-point object reference.

    Items of mappings are written ``package.module:TABLE["key"]``. The key may be any literal that can be hashed, such
    as ``(1, "a")`` or ``None``, or name an object: ``package.module:TABLE[package.kinds:Kind.RED]``. The all-dots form
    ``package.module.Class.attribute`` parses to a target without module; :meth:`pin` finds the module without importing
    it.

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


def object_at(target: Target) -> Any:
    """Return the object at a target; imports its module.

    Args:
        target: with its module, see :meth:`Target.pin`.

    Raises:
        TargetNotFound: there is no such object; the message has the nearest name that there is.
        Exception: the import of the module failed with it.
    """
    with CONTAINED:
        value: Any = importlib.import_module(target.module)
    for depth, step in enumerate(target.path):
        try:
            with CONTAINED:
                value = value[step.find_key()] if isinstance(step, Item) else getattr(value, step)
        except (AttributeError, LookupError) as error:
            where = Target(target.module, target.path[: depth + 1])
            known = map(str, value) if isinstance(value, Mapping) else dir(value)
            nearest = did_you_mean(str(getattr(step, "key", step)), known)
            raise TargetNotFound(f"{where} does not exist: {describe_error(error)}{nearest}") from error
    return value


def _is_plain(text: str) -> bool:
    return text.isascii() and all(map(str.isidentifier, text.split(".")))


def _parse_path(path: str, text: str) -> tuple[Step, ...]:
    if _is_plain(path):
        return tuple(path.split("."))
    pattern = re.compile(_STEP)
    steps: list[Step] = []
    position = 0
    while position < len(path):
        item = _other_key(path, position) if steps and path[position] == "[" else None
        if item is not None:
            key, position = item
            steps.append(Item(key))
            continue
        match = pattern.match(path, position)
        named = match is not None and match["name"] is not None
        # a name needs a dot before it everywhere but at the start, and must not have one there
        if match is None or (named and (path[position] == ".") != bool(steps)):
            raise TargetError(
                f"target {text!r}: cannot read {path[position:]!r}; "
                "write 'package.module:Class.attribute' or 'package.module:TABLE[\"key\"]', "
                "'TABLE[package.module:Name]' for a key that is an object"
            )
        steps.append(match["name"] if named else Item(_read_key(match["key"], text)))
        position = match.end()
    if not steps or not isinstance(steps[0], str):
        raise TargetError(f"target {text!r} has nothing after the module; write 'package.module:attribute'")
    return tuple(steps)


def _other_key(path: str, start: int) -> Union[tuple[Hashable, int], None]:
    """Return the key that begins at ``path[start]``, and where the next step begins; ``None`` for none, or a text."""
    if path[start + 1 : start + 2] in ('"', "'"):
        return None
    named = re.compile(_NAMED_KEY).match(path, start)
    if named is not None:
        return Target.parse(named[1]), named.end()
    end = path.find("]", start)
    while end != -1:  # a text in a tuple may have brackets
        try:
            key = ast.literal_eval(path[start + 1 : end].strip())
            hash(key)
        except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
            end = path.find("]", end + 1)
        else:
            return key, end + 1
    return None


def _read_key(key: str, text: str) -> Union[str, int]:
    try:
        return ast.literal_eval(key)  # type: ignore[no-any-return]
    except (SyntaxError, ValueError):
        raise TargetError(f"target {text!r}: {key} is not a Python string or integer literal") from None
