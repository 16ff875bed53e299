"""The hooks of plugins that bring hardware, with ``@patchcore.hookimpl``. Any argument may be left out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from patchcore import hookspec

if TYPE_CHECKING:
    from npu_graph.vendor import Vendor

__all__ = ["register_conversions", "register_vendors"]


@hookspec
def register_vendors() -> Iterable[Vendor]:  # type: ignore[empty-body]
    """Return the vendors this plugin contributes. Import nothing heavy: ``Vendor.setup`` may import torch."""


@hookspec
def register_conversions(vendor: Vendor) -> None:
    """Add conversions, rewrites or decompositions to ``vendor``, of any plugin; look at its ``name`` first.

    Called once for each vendor, before its first graph, after its own ``setup``; torch is loaded by then.
    """
