"""Private names of torch, looked up where they are used and declared in one module of each distribution.

A release of torch may drop a private name. Each distribution that uses some has a module ``private`` with a
:class:`PrivateNames`: that module alone has to be read and changed then, and a test that looks each name up says which
are gone, in which release.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from patchcore.errors import PatchcoreError

__all__ = ["PrivateNameMissing", "PrivateNames"]


class PrivateNameMissing(PatchcoreError, AttributeError):
    """The torch that is installed does not have a private name; the text says which, and who uses it."""


class PrivateNames:
    """Private names of torch that a distribution uses; an attribute looks one up, and keeps it.

    Args:
        distribution: that uses them, for messages.
        names: by attribute, the place as a target: ``{"is_tracing": "torch._C:_is_tracing"}``.

    Raises:
        PrivateNameMissing: on looking up a name that torch does not have.
    """

    def __init__(self, distribution: str, names: Mapping[str, str]) -> None:
        self._distribution = distribution
        self._names = dict(names)

    def __getattr__(self, attribute: str) -> Any:
        place = self._names.get(attribute)
        if place is None:
            raise AttributeError(f"{self._distribution} declares no private name of torch as {attribute!r}")
        found = self._look_up(place)
        setattr(self, attribute, found)  # the next time, this method is not called
        return found

    def missing(self) -> Iterator[str]:
        """Yield a line for each name that the installed torch does not have; imports torch."""
        for place in self._names.values():
            try:
                self._look_up(place)
            except PrivateNameMissing as error:
                yield str(error)

    def _look_up(self, place: str) -> Any:
        module, _, path = place.partition(":")
        try:
            found: Any = importlib.import_module(module)
            for name in path.split(".") if path else ():
                found = getattr(found, name)
        except (ImportError, AttributeError) as error:
            release = getattr(sys.modules.get("torch"), "__version__", "(not imported)")
            raise PrivateNameMissing(
                f"torch {release} has no {place.replace(':', '.')}, which {self._distribution} uses; install a torch "
                "that has it, or a newer release of that distribution"
            ) from error
        return found
