"""The base class of patches, changes, plans and reports, which are immutable values; and checks of their arguments."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from patchcore.declare.target import Target
from patchcore.errors import DeclarationError
from patchcore.objects.modules import ABSENT

__all__ = ["Declaration", "as_mapping", "as_tuple", "check_callables"]

_D = TypeVar("_D", bound="Declaration")


class Declaration:
    """An immutable value: its fields are set once, in ``__init__``. Two are equal if their classes and fields are.

    Numbers, texts and collections of them are compared by value, all other fields by identity: a user's object may
    define ``==`` in any way, as arrays do. A dataclass would call that ``==``, and costs about a millisecond of import
    time for each class.

    Examples:
        >>> from patchcore.plugin import Declaration
        >>> class Price(Declaration):
        ...     "A price."
        >>> Price(amount=3) == Price(amount=3)
        True
    """

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; create a new one instead of setting {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; create a new one instead of deleting {name}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Declaration) and type(self) is type(other) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items() if not _is_empty(value))
        return f"{type(self).__name__}({fields})"

    def evolve(self: _D, **fields: Any) -> _D:
        """Return a copy with some fields changed; the values are not checked again."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, **fields)
        return made

    def _key(self) -> tuple[Any, ...]:
        return tuple(map(_comparable, self.__dict__.values()))


def as_tuple(value: Any, what: str, where: str) -> tuple[Any, ...]:
    """Return a declared list as a tuple; one text or target alone counts as a list of one.

    Examples:
        >>> from patchcore.plugin import as_tuple
        >>> as_tuple("tea", "goods", "Shop(...)")
        ('tea',)
    """
    if isinstance(value, (str, Target)):
        return (value,)
    try:
        return tuple(value)
    except TypeError:
        raise DeclarationError(f"{where}: {what} must be a list, got {value!r}") from None


def as_mapping(value: Any, what: str, where: str) -> Mapping[str, Any]:
    """Return a declared mapping as a read-only one."""
    if value is not None and not isinstance(value, Mapping):
        raise DeclarationError(f"{where}: {what} must be a mapping, got {value!r}")
    return MappingProxyType(dict(value or {}))


def check_callables(where: str, **values: Any) -> None:
    """Raise :class:`DeclarationError` where one of ``values`` is given and cannot be called.

    Examples:
        >>> from patchcore.plugin import check_callables
        >>> check_callables("Shop(...)", price=3)
        Traceback (most recent call last):
        patchcore.errors.DeclarationError: Shop(...): price must be callable, got 3
    """
    for name, value in values.items():
        if value is not None and not callable(value):
            raise DeclarationError(f"{where}: {name} must be callable, got {value!r}")


_BY_VALUE = (str, bytes, int, float, complex, bool, type(None))


def _comparable(value: Any) -> Any:
    kind = type(value)  # isinstance would run code of a proxy
    if issubclass(kind, Declaration):
        return value
    if issubclass(kind, Mapping):
        return "mapping", frozenset((key, _comparable(item)) for key, item in value.items())
    if issubclass(kind, (tuple, list)):
        return kind, tuple(map(_comparable, value))
    return kind, value if kind in _BY_VALUE else id(value)


def _is_empty(value: Any) -> bool:
    """True if a field has no value to show. ``bool()`` is called for known types only: an array's would raise."""
    return value is None or value is ABSENT or (issubclass(type(value), (str, int, tuple, Mapping)) and not value)
