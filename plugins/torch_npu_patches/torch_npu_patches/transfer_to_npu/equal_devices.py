"""``torch.device("cuda", 0) == x.device`` for a tensor on ``npu:0``: the two compare and hash as one.

``torch.device`` is a type written in C, and Python refuses to set its ``__eq__``. So the two slots of the type are
written, ``tp_richcompare`` and ``tp_hash`` (CPython's ``Include/cpython/object.h``): they get CPython's own functions
that call methods written in Python, and the methods go into the dictionary of the type. ``.type``, ``str`` and ``repr``
of a device stay as they are. A revert puts the earlier functions back.
"""

from __future__ import annotations

import gc
import sys
import sysconfig
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

import patchcore as pc
from patchcore.plugin import Slot, SlotChange
from torch_npu_patches.transfer_to_npu.devices import CUDA, NPU

if TYPE_CHECKING:
    from patchcore.plugin import type_slots

__all__ = ["EqualDevices", "comparing_as_npu"]

_METHODS = ("__eq__", "__ne__", "__hash__")


class Comparison(NamedTuple):
    """How objects of a type compare and hash.

    Args:
        methods: in the dictionary of the type, by name; ``None`` for one that is not in it.
        compare, hash: addresses of functions written in C.
    """

    methods: dict[str, Any]
    compare: int
    hash: int


class _Comparing(Slot):
    """The comparison of a type written in C; its values are of the kind :class:`Comparison`."""

    __slots__ = ()
    space = "comparison"
    #: By ``id`` of the type, the value written last: reading makes a new object.
    _written: dict[int, Comparison] = {}

    def read(self) -> Comparison:
        found = _comparison_of(self.owner)
        known = self._written.get(id(self.owner))
        return known if known == found else self._written.setdefault(id(self.owner), found)

    def inherited(self) -> Any:
        return self.read()

    def write(self, raw: Any) -> None:
        import ctypes

        from patchcore.plugin import type_slots  # and ctypes, for processes that have torch

        space = _dictionary_of(self.owner)
        for name, method in raw.methods.items():
            if method is None:
                space.pop(name, None)
            else:
                space[name] = method
        type_slots.write_slot(self.owner, type_slots.COMPARE, raw.compare)
        type_slots.write_slot(self.owner, type_slots.HASH, raw.hash)
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(self.owner))
        self._written[id(self.owner)] = raw


class EqualDevices(SlotChange):
    """Have devices of CUDA compare and hash as the NPUs of the same number."""

    makes_product = True

    def __init__(self) -> None:
        super().__init__(target=pc.Target.parse("torch:device"))

    @property
    def kind(self) -> str:
        return "compare"

    @property
    def source(self) -> Any:
        return comparing_as_npu

    def find_slot(self, target: pc.Target, module: Any) -> Slot:
        if not issubclass(type(module.device), type):  # a test has put something else there, or in place of torch
            raise pc.TargetError(f"{target} is no class, but an object of {type(module.device).__name__}")
        return _Comparing(module.device, "comparison", f"{target}.__eq__, .__ne__, .__hash__")

    def build(self, below: Any, slot: Slot) -> Any:
        why = unsupported()
        return pc.Skip(why) if why else comparing_as_npu(slot.owner, below)


def unsupported() -> str:
    """Return why the slots of types cannot be written in this Python; empty if they can."""
    from patchcore.plugin import type_slots  # and ctypes, for processes that have torch

    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "only CPython with its lock (GIL) lets the comparison of a type written in C be changed"
    if not type_slots.is_known:
        return "types have another layout in this build of Python"
    return ""


def comparing_as_npu(cls: Any, below: Comparison) -> Comparison:
    """Return the comparison of ``torch.device`` by which ``cuda:0`` is equal to ``npu:0``, and hashes as it does.

    Args:
        cls: ``torch.device``.
        below: its comparison now.
    """
    import ctypes

    from patchcore.plugin import type_slots  # and ctypes, for processes that have torch

    hash_below = ctypes.PYFUNCTYPE(ctypes.c_ssize_t, ctypes.py_object)(below.hash)

    def same(one: Any, other: Any) -> bool:
        kinds = one.type, other.type
        return one.index == other.index and (kinds[0] == kinds[1] or kinds in ((CUDA, NPU), (NPU, CUDA)))

    def __eq__(self: Any, other: Any) -> Any:
        return same(self, other) if type(other) is cls else NotImplemented

    def __ne__(self: Any, other: Any) -> Any:
        return not same(self, other) if type(other) is cls else NotImplemented

    def __hash__(self: Any) -> int:
        if self.type != CUDA:
            return hash_below(self)
        try:
            return hash_below(cls(NPU) if self.index is None else cls(NPU, self.index))
        except RuntimeError:  # torch_npu is not imported yet: nothing is on an NPU
            return hash_below(self)

    class Donor:
        """Has CPython's functions that call methods written in Python in its slots."""

    Donor.__eq__, Donor.__ne__, Donor.__hash__ = __eq__, __ne__, __hash__  # type: ignore[method-assign]
    functions: dict[str, Callable[..., Any]] = {"__eq__": __eq__, "__ne__": __ne__, "__hash__": __hash__}
    return Comparison(functions, _address(Donor, type_slots.COMPARE), _address(Donor, type_slots.HASH))


def _comparison_of(cls: type) -> Comparison:
    from patchcore.plugin import type_slots  # and ctypes, for processes that have torch

    space = _dictionary_of(cls)
    methods = {name: space.get(name) for name in _METHODS}
    return Comparison(methods, _address(cls, type_slots.COMPARE), _address(cls, type_slots.HASH))


def _address(cls: type, position: type_slots.Position) -> int:
    from patchcore.plugin import type_slots  # and ctypes, for processes that have torch

    return type_slots.read_slot(cls, position) or 0


def _dictionary_of(cls: type) -> dict[str, Any]:
    """Return the dictionary behind the read-only view that ``cls.__dict__`` is."""
    return next(found for found in gc.get_referents(cls.__dict__) if type(found) is dict)
