"""Private names of a library, which its next release may drop. A distribution declares those it uses in one place."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any, Callable

from patchcore.errors import PatchcoreError

__all__ = ["PrivateNameMissing", "look_up", "reader"]


class PrivateNameMissing(PatchcoreError, AttributeError):
    """The library that is installed does not have a private name; the text has the name and who uses it."""


def reader(names: Mapping[str, str], distribution: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module that has private names as attributes, looked up whenever they are used.

    Args:
        names: the place of each, see :func:`look_up`, by the attribute.
        distribution: that uses them, for messages.
    """

    def __getattr__(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"{distribution} declares no private name {name!r}")
        return look_up(names[name], distribution)

    return __getattr__


def look_up(place: str, distribution: str) -> Any:
    """Return what a private name stands for; imports its module.

    Args:
        place: ``package.module:Class.attribute``, or ``package.module`` alone.
        distribution: that uses the name, for the message.

    Raises:
        PrivateNameMissing: the library does not have it.
    """
    module, _, path = place.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for name in path.split(".") if path else ():
            found = getattr(found, name)
    except (ImportError, AttributeError) as error:
        library = module.partition(".")[0]
        release = getattr(sys.modules.get(library), "__version__", "(which cannot be imported)")
        raise PrivateNameMissing(
            f"{library} {release} has no {place.replace(':', '.')}, which {distribution} uses; install a release of "
            f"{library} that has it, or a newer {distribution}"
        ) from error
    return found
