"""Classes that are mappings to C code stay what they are when a special method of theirs is patched.

CPython derives C-level slots from special methods. ``__getitem__`` stands for two of them, and a class that gets one
written in Python gets both; it keeps both when the method is taken away again (``update_one_slot`` and
``resolve_slotdups`` in CPython's ``Objects/typeobject.c``). To ``PySequence_Check`` it is a sequence from then on. A
``torch.Tensor`` is none, and is treated as one with a length: ``torch.tensor([torch.tensor(1.0)])`` raises "len() of a
0-d tensor" for as long as the process lives (torch 2.13, ``compute_sizes`` in ``torch/csrc/utils/tensor_new.cpp``).
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Iterator
from typing import Any, Optional

__all__ = ["DOUBLE", "keep_mapping"]

#: Special methods that stand for a slot of sequences and one of mappings: the positions in ``PySequenceMethods`` and
#: ``PyMappingMethods`` (CPython's ``Include/cpython/object.h``, 3.9 to 3.14).
DOUBLE = {"__len__": (0, 0), "__getitem__": (3, 1), "__setitem__": (5, 2), "__delitem__": (5, 2)}

_POINTER = ctypes.sizeof(ctypes.c_void_p)
#: ``PyTypeObject``: the head of an object of variable size, then ten members before these two.
_SEQUENCE = object.__basicsize__ + _POINTER + 10 * _POINTER
_MAPPING = _SEQUENCE + _POINTER


@contextlib.contextmanager
def keep_mapping(cls: type, key: str) -> Iterator[None]:
    """Write ``cls.key`` inside the block; where that was a method of mappings alone, it is so afterwards.

    Subclasses that inherit the method are taken along.

    Args:
        cls: the class.
        key: one of :data:`DOUBLE`.
    """
    kept = list(_heirs(cls, key)) if _is_known and _is_mapping(cls, key) else []
    try:
        yield
    finally:
        for klass in kept:
            slot = _slot(klass, _SEQUENCE, DOUBLE[key][0])
            if slot is not None:
                slot.value = None


def _is_mapping(cls: type, key: str) -> bool:
    sequence, mapping = (_slot(cls, table, position) for table, position in zip((_SEQUENCE, _MAPPING), DOUBLE[key]))
    return (sequence is None or not sequence.value) and mapping is not None and bool(mapping.value)


def _heirs(cls: type, key: str) -> Iterator[type]:
    """``cls`` and the classes that have ``key`` from it, or from where it has it."""
    yield cls
    for klass in type.__subclasses__(cls):
        if key not in vars(klass):
            yield from _heirs(klass, key)


def _slot(cls: type, table: int, position: int) -> Optional[Any]:
    """Return the pointer at ``position`` of a method table of ``cls``; ``None`` where the class has no such table."""
    start = ctypes.c_void_p.from_address(id(cls) + table).value
    return None if start is None else ctypes.c_void_p.from_address(start + position * _POINTER)


def _has_expected_layout() -> bool:
    """Tell by types whose slots are known whether this interpreter lays them out as described."""
    if sys.implementation.name != "cpython":
        return False
    if _slot(int, _SEQUENCE, 0) is not None or _slot(int, _MAPPING, 0) is not None:
        return False
    return _is_mapping(dict, "__getitem__") and bool(_slot(list, _SEQUENCE, 3)) and not _is_mapping(list, "__getitem__")


_is_known = _has_expected_layout()
