"""Registries of classes by name: where their entries are.

Libraries keep such tables in objects, ``MODELS`` say. A target names an entry as an item of the object,
``mmengine.registry:MODELS["ResNet"]``; which attribute of the object is the table, the plugin for its library tells
with the hook ``registry_tables``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Optional

from patchcore.objects.modules import namespace

__all__ = ["is_entry", "learn_tables", "table_of"]

#: The attributes that hold the entries of registries, by plugins that said so.
_TABLES: dict[str, None] = {}


def learn_tables(names: Iterable[str]) -> None:
    """Take in names of attributes in which registries keep their entries, each a dictionary."""
    _TABLES.update(dict.fromkeys(names))


def table_of(registry: Any) -> Optional[dict[Any, Any]]:
    """Return the entries of a registry by name; ``None`` for anything else."""
    space = namespace(registry)
    if space is None:
        return None
    return next((space[name] for name in _TABLES if issubclass(type(space.get(name)), dict)), None)


def is_entry(name: str) -> bool:
    """Tell whether the name of a slot says that it is an entry of a registry, by the attribute that is the table."""
    return any(f".{table}[" in name for table in _TABLES)
