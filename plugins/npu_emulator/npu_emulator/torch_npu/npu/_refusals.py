"""Names of torch_npu that cannot be emulated: they are there, and say why when they are used."""

from __future__ import annotations

from typing import Any, Callable, NoReturn

from npu_emulator.errors import NotEmulated

__all__ = ["missing_name", "refuse", "refusing_class", "refusing_function"]


def refuse(name: str, reason: str) -> NoReturn:
    """Raise that something cannot be emulated.

    Args:
        name: of it, as users write it.
        reason: a clause without a full stop.

    Raises:
        NotEmulated: always.
    """
    raise NotEmulated(f"{name} cannot be emulated: {reason}. It needs an NPU and the real torch_npu.")


def refusing_function(name: str, reason: str) -> Callable[..., NoReturn]:
    """Return a function that takes anything and raises :class:`NotEmulated`.

    Args:
        name: of the function, as users write it.
        reason: a clause without a full stop.
    """

    def refusing(*_: Any, **__: Any) -> NoReturn:
        refuse(name, reason)

    refusing.__name__ = refusing.__qualname__ = name.rpartition(".")[2]
    refusing.__doc__ = f"Raise NotEmulated: {reason}."
    return refusing


def refusing_class(name: str, reason: str) -> type:
    """Return a class that can be named (``isinstance``, annotations) but not instantiated.

    Args:
        name: of the class, as users write it.
        reason: a clause without a full stop.
    """
    attributes = {
        "__doc__": f"Raise NotEmulated when instantiated: {reason}.",
        "__new__": refusing_function(name, reason),
    }
    return type(name.rpartition(".")[2], (), attributes)


def missing_name(module: str, name: str) -> AttributeError:
    """Return the error for a name that a stand-in module has not.

    Args:
        module: as users write it, such as ``torch_npu.npu``.
        name: the attribute that was looked up in it.
    """
    return AttributeError(
        f"module {module!r} has no attribute {name!r} here: this is npu_emulator's stand-in for torch_npu, which knows "
        "torch_npu's public names. If the real one has it, it needs an NPU or an addition to npu_emulator."
    )
