"""The compiled core: does the work of the core in Python at the speed of C++, and without its gaps.

It is compiled for one build of torch by ``python -m npu_emulator build`` and found again in a cache folder. Nothing
here compiles on its own.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Optional

from npu_emulator.errors import EmulationError

if TYPE_CHECKING:
    from npu_emulator.device.native.core import NativeCore

__all__ = ["find", "is_built", "load"]

logger = logging.getLogger("npu_emulator")


def is_built() -> bool:
    """Return whether the cache has the compiled core for this torch and Python."""
    from npu_emulator.device.native.build import library_path

    return library_path().is_file()


def load() -> NativeCore:
    """Return the compiled core, not started.

    Raises:
        EmulationError: it is not built for this torch, or the library does not load.
    """
    from npu_emulator.device.native.core import NativeCore

    return NativeCore()


def find(core: str) -> Optional[NativeCore]:
    """Return the compiled core if the settings allow it and it is there.

    Args:
        core: one of :data:`npu_emulator.settings.CORES`.

    Returns:
        The core; ``None`` if the one in Python is to be used. For ``"auto"`` a library that does not load is one that
        is not there, with a warning in the log.

    Raises:
        EmulationError: ``core`` is ``"native"``, and it is not built or does not load.
    """
    if core == "python" or (core == "auto" and not is_built()):
        return None
    try:
        return load()
    except EmulationError as error:
        if core == "native":
            raise
        logger.warning("%s The core in Python is used.", error)
        return None
