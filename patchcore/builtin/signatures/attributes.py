"""Names the public attributes of a target that its replacement lacks."""

from __future__ import annotations

import functools
from types import BuiltinFunctionType, FunctionType
from typing import Any, Optional

from patchcore.declare.changes import SlotChange
from patchcore.declare.slots import BodySlot, Slot
from patchcore.objects.binding import helpers, wrapped_callable
from patchcore.objects.modules import is_class

__all__ = ["note_lost_attributes"]

#: The types of replacements that are compared: the attributes of others may be computed by their code.
_COMPARED = (FunctionType, BuiltinFunctionType, functools.partial)
_ACCESSORS = {"fset": "setter", "fdel": "deleter"}
#: How many names are listed.
_LISTED = 3


def note_lost_attributes(change: SlotChange, slot: Slot, below: Any, product: Any) -> Optional[str]:
    """Return which public attributes of the original its replacement lacks; see :data:`patchcore.engine.writers.Guard`.

    ``cache_clear`` of :func:`functools.lru_cache` is one, ``register`` of :func:`functools.singledispatch`, the setter
    of a property. Those of a replaced class are not compared. A body is written into the function, which keeps its own.
    """
    if isinstance(slot, BodySlot) or (type(below) is FunctionType and not vars(below)):
        return None
    original, taker = wrapped_callable(below), wrapped_callable(product)
    lost: list[str] = []
    if issubclass(type(below), property) and issubclass(type(product), property):
        lost = [text for name, text in _ACCESSORS.items() if getattr(below, name) and not getattr(product, name)]
    elif type(taker) in _COMPARED and callable(original) and not is_class(original):
        if type(original) is FunctionType:
            names = [name for name in vars(original) if not name.startswith("_")]
        else:
            names = [name for name, _ in helpers(original)]
        lost = [name for name in names if not hasattr(taker, name)]
    if not lost:
        return None
    more = len(lost) - _LISTED
    listed = [*lost[:_LISTED], f"{more} more"] if more > 0 else lost
    return f"the replacement lacks attributes of the original: {', '.join(listed)}"
