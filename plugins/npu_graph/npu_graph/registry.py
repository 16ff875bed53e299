"""The vendors that plugins contribute, and what others add to them."""

from __future__ import annotations

import copy
import functools
import threading
from collections.abc import Mapping
from typing import NamedTuple

from npu_graph.errors import UnknownVendor
from npu_graph.schemas import check_conversion
from npu_graph.vendor import Vendor
from patchcore.errors import did_you_mean
from patchcore.plugins import Plugins
from patchcore.provenance import Provenance
from patchcore.settings import Settings

__all__ = ["Contributed", "Vendors", "contributed", "vendors"]


class Contributed(NamedTuple):
    """A vendor and the plugin it comes from."""

    vendor: Vendor
    provenance: Provenance


def contributed(plugins: Plugins) -> dict[str, Contributed]:
    """Return the vendors of plugins by name, without torch; what is not one is noted as that plugin's problem."""
    found: dict[str, Contributed] = {}
    # the plugin that was loaded first keeps its name; pluggy calls the last one first
    for provenance, answers in reversed(list(plugins.each("register_vendors"))):
        for given in answers:
            try:
                for vendor in given:
                    _check(vendor, found)
                    found[vendor.name] = Contributed(vendor, provenance)
            except Exception as error:
                plugins.note(provenance, "register_vendors", error)
    return found


class Vendors:
    """The vendors of some plugins, each made ready once, when it is first asked for.

    Args:
        plugins: loaded plugins.
    """

    def __init__(self, plugins: Plugins) -> None:
        self._plugins = plugins
        self._contributed = contributed(plugins)
        self._ready: dict[str, Vendor] = {}
        self._lock = threading.RLock()  # a conversion may be what first asks for another vendor

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the vendors."""
        return tuple(self._contributed)

    def get(self, name: str) -> Vendor:
        """Return a copy of a vendor with all its conversions, its own and those that other plugins add.

        A plugin that fails to add some is noted and logged; what it had added before stays.

        Raises:
            UnknownVendor: there is none of this name.
            Exception: the vendor's own :meth:`~npu_graph.vendor.Vendor.setup` fails.
        """
        found = self._contributed.get(name)
        if found is None:
            known = ", ".join(self._contributed) or "none"
            problems = "".join(f"; {problem}" for problem in self._plugins.problems)
            nearest = did_you_mean(name, self._contributed)
            raise UnknownVendor(f"no plugin contributes a vendor {name!r} (known: {known}){nearest}{problems}")
        with self._lock:
            if name not in self._ready:
                self._ready[name] = self._prepare(found.vendor)
        return self._ready[name]

    def _prepare(self, contributed: Vendor) -> Vendor:
        vendor = copy.copy(contributed)  # what is declared from here on is of these plugins
        vendor.declarations = contributed.declarations.copy()
        for conversion in vendor.declarations.conversions.values():  # declared before there was a torch to ask
            check_conversion(conversion.operator, conversion.function, conversion.provider)
        vendor.setup()
        self._plugins.notify("register_conversions", vendor=vendor)
        return vendor


@functools.cache
def vendors() -> Vendors:
    """Return the vendors of the plugins that the settings of this process allow, local modules among them."""
    settings = Settings.load()
    return Vendors(Plugins(allowed=settings.plugins, modules=settings.modules))


def _check(vendor: object, others: Mapping[str, Contributed]) -> None:
    if not isinstance(vendor, Vendor):
        raise TypeError(f"expected npu_graph.Vendor objects, got {vendor!r}")
    if not vendor.name.isidentifier():
        raise ValueError(f"the name of a vendor is an identifier (it becomes a name in settings), got {vendor.name!r}")
    if not hasattr(vendor, "declarations"):
        raise TypeError(f"{type(vendor).__name__}.__init__ does not call super().__init__()")
    if type(vendor).supports is Vendor.supports and not vendor.dtypes:
        raise ValueError(
            f"vendor {vendor.name!r} takes no dtype, so that all would stay eager: dtypes = frozenset({{'float32'}})"
        )
    if isinstance(vendor.dtypes, str) or not all(isinstance(dtype, str) for dtype in vendor.dtypes):
        raise TypeError(f"vendor {vendor.name!r}: dtypes are a set of names, {{'float32'}}, got {vendor.dtypes!r}")
    if vendor.name in others:
        raise ValueError(
            f"the vendor name {vendor.name!r} is taken by {others[vendor.name].provenance}; choose another"
        )
