"""Keeps the C-level slots of a class exact while a special method is patched, and after it is reverted.

CPython keeps a table of C functions for each class, and computes it from the special methods. Two of its rules are not
reversible (``update_one_slot`` and ``resolve_slotdups`` in CPython's ``Objects/typeobject.c``):

- ``tp_new`` is not computed again when ``__new__`` is deleted. ``object.__new__`` then takes the class for one that
  has a ``__new__`` in Python, and refuses arguments: ``A(3)`` raises, for the class and its subclasses.
- Some methods stand for two slots, one of mappings or numbers and one of sequences. A class that gets such a method
  gets both, and keeps both when the method is deleted. A ``torch.Tensor`` is a mapping only; ``torch.tensor([t])``
  raises "len() of a 0-d tensor" once it is also a sequence (torch 2.13, ``compute_sizes`` in
  ``torch/csrc/utils/tensor_new.cpp``). A subclass of ``list`` that has a slot for the operator ``+`` does not ask the
  right operand for its ``__radd__`` any more.

:func:`exact` therefore gives the class and its subclasses the slots that they inherit before it lets CPython compute
them, as it does when a class is made.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple, Optional

from patchcore.objects.modules import class_namespace, is_class, mro

try:
    import ctypes
except ImportError:  # a Python that was built without libffi
    _POINTER = 0
else:
    _POINTER = ctypes.sizeof(ctypes.c_void_p)

__all__ = [
    "COMPARE",
    "HASH",
    "SLOTS",
    "Position",
    "exact",
    "is_known",
    "is_reversible",
    "read_slot",
    "remark",
    "write_slot",
]

#: Where the members of ``PyTypeObject`` begin: after the head of an object of variable size.
_MEMBERS = object.__basicsize__ + _POINTER


class Position(NamedTuple):
    """Where a slot is (CPython's ``Include/cpython/object.h``, 3.9 to 3.14).

    Args:
        table: the member of ``PyTypeObject`` that points to the table of the slot; ``None`` for ``PyTypeObject``.
        place: of the slot in its table.
        number: of the slot in the stable ABI (``Include/typeslots.h``).
    """

    table: Optional[int]
    place: int
    number: int


#: ``tp_hash`` and ``tp_richcompare``.
HASH, COMPARE = Position(None, 12, 59), Position(None, 22, 67)

_NUMBER, _SEQUENCE, _MAPPING = 9, 10, 11
_NEW = (Position(None, 36, 65),)
_ADD = (Position(_NUMBER, 0, 7), Position(_SEQUENCE, 1, 40))
_MULTIPLY = (Position(_NUMBER, 2, 29), Position(_SEQUENCE, 2, 46))
_LENGTH = (Position(_MAPPING, 0, 4), Position(_SEQUENCE, 0, 45))
_ITEM = (Position(_MAPPING, 1, 5), Position(_SEQUENCE, 3, 44))
_ASSIGN = (Position(_MAPPING, 2, 3), Position(_SEQUENCE, 5, 39))

#: The special methods whose slots CPython does not compute again, each with its slots.
SLOTS = {
    "__new__": _NEW,
    "__add__": _ADD,
    "__radd__": _ADD,
    "__iadd__": (Position(_NUMBER, 19, 14), Position(_SEQUENCE, 8, 42)),
    "__mul__": _MULTIPLY,
    "__rmul__": _MULTIPLY,
    "__imul__": (Position(_NUMBER, 21, 18), Position(_SEQUENCE, 9, 43)),
    "__len__": _LENGTH,
    "__getitem__": _ITEM,
    "__setitem__": _ASSIGN,
    "__delitem__": _ASSIGN,
}


@contextlib.contextmanager
def exact(cls: type, key: str) -> Iterator[None]:
    """Write or delete ``cls.key`` inside the block; its slots are those of a class that is made like this.

    Subclasses that inherit the method are taken along. A class that C code takes for a mapping and not for a sequence
    stays one, patched too.

    Args:
        cls: the class.
        key: one of :data:`SLOTS`.
    """
    if not is_known:
        yield
        return
    positions = SLOTS[key]
    # a base comes before its subclasses, which inherit from it
    heirs = sorted(_heirs(cls, key), key=lambda klass: len(mro(klass)))
    before = [[read_slot(klass, position) for position in positions] for klass in heirs]
    try:
        for klass in heirs:
            for position in positions:
                write_slot(klass, position, _inherited(klass, position))
        yield
    except GeneratorExit:
        # A Ctrl-C came between this block and its body. The journal has written again by now, so the values from before
        # are out of date.
        raise
    except BaseException:
        for klass, values in zip(heirs, before):
            for position, value in zip(positions, values):
                write_slot(klass, position, value)
        raise
    if positions[0].table == _MAPPING:
        for klass, (mapping, sequence) in zip(heirs, before):
            if mapping and not sequence:
                write_slot(klass, positions[1], None)


def is_reversible(cls: type, key: str) -> bool:
    """Return whether ``cls.key`` can be written and taken back without a trace in the slots that this module knows."""
    return is_known or sys.implementation.name != "cpython" or key in class_namespace(cls)


def remark(cls: type, key: str) -> str:
    """Return how ``cls`` behaves differently in C code while ``cls.key`` is patched; empty if it does not."""
    if not is_known or key not in SLOTS or key in class_namespace(cls):
        return ""
    positions = SLOTS[key]
    first, *others = (read_slot(cls, position) for position in positions)
    if not others or bool(first) == bool(others[0]):
        return ""
    if positions[0].table == _NUMBER:
        what = "the operator calls the left operand first and creates a new object"
        return "" if first else f"while this is patched, {what}"
    if first:
        return "C code treats a subclass that is defined while this is patched as a sequence"
    return "C code treats the class as a mapping while this is patched"


def _heirs(cls: type, key: str) -> Collection[type]:
    """Return ``cls`` and the classes that inherit ``key`` from it, or from the same class as it."""
    found = {id(cls): cls}  # by id: a metaclass may decide what is equal
    todo = [cls]
    while todo:
        subclasses = type.__subclasses__(todo.pop())
        new = {id(k): k for k in subclasses if key not in class_namespace(k) and id(k) not in found}
        found.update(new)
        todo += new.values()
    return found.values()


def _inherited(cls: type, position: Position) -> Optional[int]:
    """Return the inherited value of a slot of ``cls``, before CPython looks at its methods (``inherit_slots``)."""
    if position.table is None:  # tp_new; a class has it from the base whose layout it has
        base = _base(cls)
        return None if base is None else read_slot(base, position)
    for base in mro(cls)[1:]:
        value = read_slot(base, position)
        above = _base(base)
        if value is not None and (above is None or value != read_slot(above, position)):
            return value
    return None


def _base(cls: type) -> Optional[type]:
    return type.__dict__["__base__"].__get__(cls)  # type: ignore[no-any-return]


def _slot(cls: type, position: Position) -> Optional[Any]:
    """Return the pointer of a slot of ``cls``; ``None`` where the class has no such table.

    Raises:
        TypeError: it is no class, and its memory has another layout.
    """
    if not is_class(cls):
        raise TypeError(f"{cls!r} is no class")
    start: Optional[int] = id(cls) + _MEMBERS
    if position.table is not None:
        start = ctypes.c_void_p.from_address(id(cls) + _MEMBERS + position.table * _POINTER).value
    return None if start is None else ctypes.c_void_p.from_address(start + position.place * _POINTER)


def read_slot(cls: type, position: Position) -> Optional[int]:
    """Return the address that a slot of ``cls`` holds; only where :data:`is_known`."""
    slot = _slot(cls, position)
    return None if slot is None else slot.value


def write_slot(cls: type, position: Position, value: Optional[int]) -> None:
    """Put an address in a slot of ``cls``; only where :data:`is_known`."""
    slot = _slot(cls, position)
    if slot is not None and slot.value != value:
        slot.value = value


def _has_expected_layout() -> bool:
    """True if this interpreter has the described layout of types: three classes are read as its own API reads them."""
    if sys.implementation.name != "cpython" or not _POINTER:
        return False
    every = dict.fromkeys(position for positions in SLOTS.values() for position in positions)
    body = dict.fromkeys(SLOTS, lambda *args: None)
    official = ctypes.pythonapi.PyType_GetSlot
    official.restype, official.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_int)
    probes = (type("Methods", (), body), type("Sequence", (list,), {}), type("Mapping", (dict,), {}))
    return all(official(probe, position.number) == read_slot(probe, position) for probe in probes for position in every)


#: True where the slots of classes can be read and written.
is_known = _has_expected_layout()
