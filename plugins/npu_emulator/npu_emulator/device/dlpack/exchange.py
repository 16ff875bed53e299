"""Types of torch's C++ whose constructors cannot make objects of NPUs, and the classes put in their places.

Types of C++ cannot be patched, so they are exchanged for subclasses: programs find these by the original names, and
torch's C++ takes their objects for its own.
"""

from __future__ import annotations

from types import ModuleType

import torch

__all__ = ["StandIn", "exchange"]


class StandIn(type):
    """Metaclass of a class that stands for its base: all objects of the base count as objects of it.

    Classes that programs derive from it are classes as any other.
    """

    def __instancecheck__(cls, instance: object) -> bool:
        """Return whether an object is one of the base."""
        base = cls.__base__
        assert base is not None, "a stand-in has a base"
        return super().__instancecheck__(instance) if isinstance(base, StandIn) else isinstance(instance, base)

    def __subclasscheck__(cls, subclass: type) -> bool:
        """Return whether a class derives from the base."""
        base = cls.__base__
        assert base is not None, "a stand-in has a base"
        return super().__subclasscheck__(subclass) if isinstance(base, StandIn) else issubclass(subclass, base)


def exchange(stand_in: StandIn, *modules: ModuleType) -> None:
    """Put a class in the place of its base, also for pickle.

    Args:
        stand_in: has the name of its base.
        modules: ``torch``, and others where the base has that name. Not those whose code checks the exact type.
    """
    stand_in.__module__, stand_in.__qualname__ = torch.__name__, stand_in.__name__
    for module in modules:
        setattr(module, stand_in.__name__, stand_in)
