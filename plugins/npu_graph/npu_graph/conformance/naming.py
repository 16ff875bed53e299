"""Whose backend a name means."""

from __future__ import annotations

import importlib.metadata as metadata
from typing import Any, Optional

from npu_graph.backend import Backend
from npu_graph.errors import UnknownVendor
from npu_graph.listing import BACKENDS
from npu_graph.registry import vendors
from patchcore.plugin import did_you_mean

__all__ = ["find_backend"]


def find_backend(name: Optional[str]) -> Backend:
    """Return the backend of a vendor's name (``acme``), or of the name that ``torch.compile`` has (``patchcore_acme``).

    Loads no torch.

    Raises:
        UnknownVendor: there is none; the message has the nearest name.
    """
    known = vendors().names
    if name in known:
        return Backend(name)
    entries = {entry.name: entry for entry in _entry_points()}
    if name in entries:
        backend = entries[name].load()
        if isinstance(backend, Backend):
            return backend
        raise UnknownVendor(f"--backend: {name} is a backend of torch.compile, but none of npu_graph ({backend!r})")
    listed = ", ".join(sorted(known)) or "none"
    if name is None:
        raise UnknownVendor(f"say whose backend is to be tried: --backend NAME (known: {listed})")
    raise UnknownVendor(
        f"--backend: no plugin contributes a vendor {name!r} (known: {listed}){did_you_mean(name, [*known, *entries])}"
    )


def _entry_points() -> Any:
    found = metadata.entry_points()
    if hasattr(found, "select"):
        return found.select(group=BACKENDS)
    return found.get(BACKENDS, ())  # Python 3.9
