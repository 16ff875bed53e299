"""Finds the entries of registries, the objects in which libraries keep classes by name.

A target names an entry as an item of the registry: ``mmengine.registry:MODELS["ResNet"]``. The registry keeps its
entries in an attribute whose name differs between libraries: plugins return the names from the hook
``registry_tables``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Optional

from patchcore.objects.modules import namespace_of

__all__ = ["find_table", "is_entry"]


def find_table(registry: Any, tables: Iterable[str]) -> Optional[tuple[str, dict[Any, Any]]]:
    """Return the name and the dictionary of a registry's entries; ``None`` if the object is no registry.

    Args:
        registry: any object.
        tables: names of attributes in which registries keep their entries.

    Examples:
        >>> from patchcore.plugin import find_table
        >>> class Registry:
        ...     def __init__(self):
        ...         self.entries = {"Till": object}
        >>> find_table(Registry(), ["entries"])
        ('entries', {'Till': <class 'object'>})
    """
    space = namespace_of(registry)
    if space is None:
        return None
    return next(((name, space[name]) for name in tables if issubclass(type(space.get(name)), dict)), None)


def is_entry(name: str, tables: Iterable[str]) -> bool:
    """True if the name of a slot contains the attribute of a registry, as in ``lib:MODELS._entries['Net']``."""
    return any(f".{table}[" in name for table in tables)
