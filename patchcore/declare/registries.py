"""Finds the entries of registries, the objects in which libraries keep classes by name.

A target names an entry as an item of the registry: ``mmengine.registry:MODELS["ResNet"]``. The registry keeps its
entries in an attribute whose name differs between libraries; plugins tell the names with the hook ``registry_tables``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Optional

from patchcore.objects.modules import namespace

__all__ = ["is_entry", "learn_tables", "table_of"]

#: The names of attributes that hold the entries of registries, from plugins. A dictionary keeps their order.
_TABLES: dict[str, None] = {}


def learn_tables(names: Iterable[str]) -> None:
    """Add names of attributes in which registries keep their entries; each attribute holds a dictionary."""
    _TABLES.update(dict.fromkeys(names))


def table_of(registry: Any) -> Optional[dict[Any, Any]]:
    """Return the dictionary of a registry's entries; ``None`` if the object is no registry."""
    space = namespace(registry)
    if space is None:
        return None
    return next((space[name] for name in _TABLES if issubclass(type(space.get(name)), dict)), None)


def is_entry(name: str) -> bool:
    """Return true if the name of a slot contains the attribute of a registry, as in ``lib:MODELS._entries['Net']``."""
    return any(f".{table}[" in name for table in _TABLES)
