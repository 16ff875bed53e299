"""The changes of this layer. They skip names that this version lacks, and most wait for torch_npu."""

from __future__ import annotations

import importlib
from typing import Any, Callable, Union

import patchcore as pc
from patchcore.plugin import ABSENT, ClassSlot, Slot, SlotChange, bind_like, held_value

__all__ = ["Adapt", "AdaptConstruction", "Answer", "Count", "Counterpart", "Extend"]


class _NpuChange(SlotChange):
    """A change of torch that makes sense with torch_npu there only.

    Targets start at the module ``torch``, ``torch:cuda.set_device``: torch's modules are executed in the middle of its
    own import, and the replacement may need all of torch. :attr:`source` names something of torch_npu, so that the
    engine waits while that is being imported, as it is when torch_npu imports torch.
    """

    npu: pc.Target

    may_be_absent = True

    @property
    def kind(self) -> str:
        return "replace"

    @property
    def source(self) -> pc.Target:
        return self.npu


class Adapt(_NpuChange):
    """Put ``make(original)`` in the place of the target, where there is one.

    Args:
        target: the place that is adapted.
        make: called with the present object; returns the object to write, or a :class:`patchcore.Skip`.
        create: call ``make(None)`` where there is nothing, instead of leaving the target out.
    """

    make: Callable[[Any], Any]
    create: bool

    makes_product = True

    def __init__(self, target: str, make: Callable[[Any], Any], *, create: bool = False) -> None:
        super().__init__(target=pc.Target.parse(target), npu=pc.Target.parse("torch_npu:npu"), make=make, create=create)

    def build(self, below: Any, slot: Slot) -> Any:
        if below is ABSENT and not self.create:
            return pc.Skip(f"this version of torch has no {slot.name}")
        importlib.import_module("torch_npu")
        made = self.make(None if below is ABSENT else held_value(slot.as_own(below)))
        if isinstance(made, pc.Skip):
            return made
        return bind_like(below, made, in_class=isinstance(slot, ClassSlot))


class AdaptConstruction(_NpuChange):
    """Put ``make(original)`` in the place of the function that makes instances of a class in C.

    That is ``__call__`` of the class's metaclass. If the metaclass is ``type`` itself, which is that of every class,
    the class is replaced in the module that the target names.

    Args:
        target: the class, where programs find it.
        native: returns the class itself; another one may have its name.
        make: called with the present ``__call__`` of the metaclass.
        make_class: called with the class; returns the one to write.
    """

    native: Callable[[], type]
    make: Callable[[Any], Any]
    make_class: Callable[[Any], Any]

    makes_product = True

    def __init__(
        self, target: str, native: Callable[[], type], make: Callable[[Any], Any], make_class: Callable[[Any], Any]
    ) -> None:
        parsed, npu = pc.Target.parse(target), pc.Target.parse("torch_npu:npu")
        super().__init__(target=parsed, npu=npu, native=native, make=make, make_class=make_class)

    def find_slot(self, target: pc.Target, module: Any) -> Slot:
        metaclass = type(self.native())
        return super().find_slot(target, module) if metaclass is type else ClassSlot(metaclass, "__call__", str(target))

    def build(self, below: Any, slot: Slot) -> Any:
        importlib.import_module("torch_npu")
        if not isinstance(slot, ClassSlot):
            return self.make_class(below)
        return bind_like(below, self.make(held_value(slot.as_own(below))), in_class=True)


class Extend(Adapt):
    """Put ``make(original)`` in the place of a table: its entries and more. Its content in torch does not matter."""

    @property
    def adds(self) -> bool:
        return True


class Count(Extend):
    """Put ``make(original)`` in the place of a function: it counts the call and then calls torch's own."""


class Answer(pc.Replace):
    """Replace a function that queries torch by one with a fixed result. The code of torch's own does not matter."""

    may_be_absent = True

    @property
    def adds(self) -> bool:
        return True

    def build(self, below: Any, slot: Slot) -> Any:
        if below is ABSENT:
            return pc.Skip(f"this version of torch has no {slot.name}")
        return super().build(below, slot)


class Counterpart(_NpuChange):
    """Put a function or class of torch.npu itself in the place of that of torch.cuda.

    Args:
        target: the name in torch.cuda.
        npu: the name in torch_npu, ``torch_npu:npu.device_count``.
    """

    def __init__(self, target: str, npu: Union[str, pc.Target]) -> None:
        npu = npu if isinstance(npu, pc.Target) else pc.Target.parse(npu)
        super().__init__(target=pc.Target.parse(target), npu=npu)

    def build(self, below: Any, slot: Slot) -> Any:
        if below is ABSENT:
            return pc.Skip(f"this version of torch has no {slot.name}")
        return counterpart(self.npu)


def counterpart(npu: pc.Target) -> Any:
    """Return the object that ``npu`` names, or a :class:`patchcore.Skip` where torch_npu has nothing of that name."""
    found: Any = importlib.import_module(npu.module)
    for step in npu.path:
        found = getattr(found, str(step), ABSENT)
        if found is ABSENT:
            return pc.Skip(f"{npu} does not exist: what torch has stays")
    return found
