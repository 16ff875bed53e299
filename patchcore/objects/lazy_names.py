"""Names of a module that are looked up when they are used (PEP 562): those of patchcore, private ones of libraries.

A private name of a library may be gone in its next release. A distribution declares those it uses in one place.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any, Callable

from patchcore.errors import PatchcoreError

__all__ = ["PrivateNameMissing", "lazy_names", "look_up", "private_name_getter"]


def lazy_names(module: str, names: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the functions ``__getattr__`` and ``__dir__`` of a module whose names come from other modules.

    Args:
        module: its name.
        names: the module that has each name. A package may stand there for a module in it, which is then imported.
    """

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        source = importlib.import_module(names[name])
        value = getattr(source, name) if hasattr(source, name) else importlib.import_module(f"{names[name]}.{name}")
        # Python looks in the namespace first and calls `__getattr__` only for names that are not there (PEP 562): from
        # now on this name costs no call.
        setattr(sys.modules[module], name, value)
        return value

    def list_names() -> list[str]:
        return sys.modules[module].__all__  # type: ignore[no-any-return]

    return get, list_names


class PrivateNameMissing(PatchcoreError, AttributeError):
    """The library that is installed does not have a private name; the text has the name and who uses it."""


def private_name_getter(names: Mapping[str, str], distribution: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module that has private names as attributes, looked up whenever they are used.

    Args:
        names: the place of each, see :func:`look_up`, by the attribute.
        distribution: that uses them, for messages.

    Examples:
        >>> from patchcore.plugin import private_name_getter
        >>> get = private_name_getter({"encode": "json.encoder:encode_basestring"}, "shop-npu-patches")
        >>> get("encode")("tea")
        '"tea"'
    """

    def __getattr__(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"{distribution} declares no private name {name!r}")
        return look_up(names[name], distribution)

    return __getattr__


def look_up(place: str, distribution: str) -> Any:
    """Return the object of a private name; imports its module.

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
