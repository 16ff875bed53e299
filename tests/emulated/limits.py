"""What the cores of the emulated NPU cannot do, and what they raise instead."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Limit:
    """Something of the real device that a core has not.

    Args:
        cores: those that it is true of.
        error: full name of the class of the error that says so; ``None``: nothing says so, a test has to state what
            happens instead.
        message: what the error says, as a regular expression.
    """

    cores: tuple[str, ...]
    error: str | None = None
    message: str = ""


NOT_EMULATED = "npu_emulator.errors.NotEmulated"

#: Everything that a core cannot do, by what it cannot do.
LIMITS = {
    "resize a storage": Limit(("python",), NOT_EMULATED, r"resize.*storage|storage.*resize"),
    # torch's own error: pinned memory is allocated in C++, which asks no Python. Tensor.pin_memory() works.
    "allocate pinned memory": Limit(
        ("python",), "builtins.NotImplementedError", r"PrivateUse1.*getPinnedMemoryAllocator"
    ),
    "reject a generator of another device": Limit(("python",)),
    "time a generic event": Limit(("python",), NOT_EMULATED, r"elapsed"),
    "compute with sparse CSR tensors": Limit(("python", "native"), "builtins.NotImplementedError", r"(?i)csr"),
}


@contextlib.contextmanager
def within_limit(name: str) -> Iterator[None]:
    """Run a block, and where it is beyond what the core can do, demand the error that says so.

    Args:
        name: one of :data:`LIMITS`, one with an error.
    """
    limit = LIMITS[name]
    if not is_limited(name):
        yield
        return
    assert limit.error is not None, f"nothing is raised for {name!r}: state what happens instead"
    with pytest.raises(Exception, match=limit.message) as caught:
        yield
    classes = [f"{base.__module__}.{base.__qualname__}" for base in type(caught.value).__mro__]
    assert limit.error in classes, f"expected {limit.error}, found {classes[0]}: {caught.value}"


def is_limited(name: str) -> bool:
    """Tell whether something of :data:`LIMITS` is beyond the core of this process."""
    from npu_emulator import device

    return device.active().name in LIMITS[name].cores
