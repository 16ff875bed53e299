"""Refuses replacements that cannot take every call of their target."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from patchcore.builtin.signatures.signatures import CALLED_AS_DECLARED, alike, misfit, passes_on
from patchcore.declare.changes import Skip, SlotChange
from patchcore.declare.slots import BodySlot, Slot
from patchcore.errors import DeclarationError
from patchcore.objects.binding import wrapped_callable

__all__ = ["refuse_misfit"]


def refuse_misfit(change: SlotChange, slot: Slot, below: Any, product: Any) -> None:
    """Check that a replacement accepts every call that its target accepts; see :data:`patchcore.engine.writers.Guard`.

    Raises:
        DeclarationError: it does not.
    """
    if not issubclass(type(below), _CHECKED) or type(product) is Skip or change.signatures == "any":
        return
    if not slot.in_class and type(below) is FunctionType and not isinstance(slot, BodySlot):
        below = slot.as_own(below)  # through an instance, Python binds a function that it finds in the class
    callee = change.callee(product)
    if callee is None or alike(below, *callee):
        return
    of_body = isinstance(slot, BodySlot)
    form = _form(slot.raw if isinstance(slot, BodySlot) else below)
    if not of_body and form is not _form(product):
        return  # another form (a static method for a method) means other arguments on purpose
    original, taker = wrapped_callable(below), wrapped_callable(callee[0])
    bound = slot.in_class and form is not staticmethod
    if passes_on(original, taker, bound=bound, before=callee[1]):
        return
    why = misfit(original, taker, bound=bound, before=callee[1])
    if why is not None:
        name = getattr(taker, "__qualname__", repr(taker))
        raise DeclarationError(
            f"{name} does not accept every call of {slot.name}: {why}; give it the parameters of the target, "
            "or *args and **kwargs, or declare signatures='any' in the patch"
        )


def _form(raw: Any) -> Any:
    return type(raw) if issubclass(type(raw), _FORMS) else None


#: Descriptors that decide how the function inside them is called.
_FORMS = (staticmethod, classmethod, property)
#: The types of originals that are checked.
_CHECKED = (*CALLED_AS_DECLARED, *_FORMS)
