"""The vendors that plugins contribute, and the additions of other plugins to them."""

from __future__ import annotations

import copy
import functools
import threading
import warnings
from collections.abc import Mapping
from typing import NamedTuple, Optional

from npu_graph.errors import FallbackWarning, UnknownVendor, VendorUnavailable
from npu_graph.options import FALLBACK, Fallback
from npu_graph.schemas import check_conversion
from npu_graph.vendor import Vendor, answer
from patchcore import Settings
from patchcore.plugin import Plugins, Provenance, did_you_mean

__all__ = ["Choice", "Contributed", "Vendors", "contributed", "obstacle", "use", "vendors"]


class Contributed(NamedTuple):
    """A vendor and the plugin it comes from."""

    vendor: Vendor
    provenance: Provenance


class Choice(NamedTuple):
    """The vendor that a graph is compiled for.

    Args:
        vendor: made ready.
        stands_in_for: the vendor that was asked for where it is another one, and why it is not used: ``c: no C
            compiler``; else empty.
    """

    vendor: Vendor
    stands_in_for: str = ""


def obstacle(vendor: Vendor) -> Optional[str]:
    """Return why a vendor cannot be used on this machine, ``None`` where it can."""
    try:
        return answer(vendor.available(), "it says so itself")
    except Exception as error:
        return f"{type(vendor).__name__}.available failed: {type(error).__name__}: {error}"


def contributed(plugins: Plugins) -> dict[str, Contributed]:
    """Return the vendors of plugins by name, without torch; another object is noted as that plugin's problem."""
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
    """The vendors of some plugins, each prepared once, when it is first used.

    Args:
        plugins: loaded plugins.
    """

    def __init__(self, plugins: Plugins) -> None:
        self._plugins = plugins
        self._contributed = contributed(plugins)
        self._ready: dict[str, Vendor] = {}
        self._told: set[str] = set()
        self._lock = threading.RLock()  # a conversion may be the first to ask for another vendor

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the vendors."""
        return tuple(self._contributed)

    def get(self, name: str) -> Vendor:
        """Return a copy of a vendor with all its conversions, its own and those that other plugins add.

        A plugin that fails to add some is noted and logged; its earlier additions stay.

        Raises:
            UnknownVendor: there is none of this name.
            Exception: the vendor's own :meth:`~npu_graph.vendor.Vendor.setup` fails.
        """
        found = self._find(name)
        with self._lock:
            if name not in self._ready:
                self._ready[name] = self._prepare(found)
        return self._ready[name]

    def choose(self, name: str, fallback: Optional[Fallback] = None) -> Choice:
        """Return a vendor, as :meth:`get` does; if it cannot be used on this machine, the vendor set as its fallback.

        That another one stands in is said once, as a :class:`~npu_graph.errors.FallbackWarning`.

        Raises:
            UnknownVendor: there is none of this name, or of the fallback's, whether it is needed or not.
            VendorUnavailable: the vendor cannot be used, and no fallback is named that can.
        """
        wanted = self._find(name)
        other = None if fallback is None else self._find(fallback.vendor, f"{fallback.origin}: ")
        reason = obstacle(wanted)
        if reason is None:
            return Choice(self.get(name))
        message = f"vendor {name} is not usable here: {reason}"
        if fallback is None or other is None:
            usable = [each for each in self._contributed if each != name and obstacle(self._find(each)) is None]
            hint = f"; to go on with another vendor ({', '.join(usable)}): {FALLBACK}={usable[0]}" if usable else ""
            raise VendorUnavailable(message + hint)
        if further := obstacle(other):
            raise VendorUnavailable(f"{message}; nor is {fallback.vendor}, which {fallback.origin} names: {further}")
        message += f"; vendor {fallback.vendor} stands in for it ({fallback.origin})"
        with self._lock:
            told = message in self._told
            self._told.add(message)
        if not told:
            warnings.warn(message, FallbackWarning, stacklevel=2)
        return Choice(self.get(fallback.vendor), f"{name}: {reason}")

    def _find(self, name: str, origin: str = "") -> Vendor:
        if name not in self._contributed:
            known = ", ".join(self._contributed) or "none"
            problems = "".join(f"; {problem}" for problem in self._plugins.problems)
            nearest = did_you_mean(name, self._contributed)
            raise UnknownVendor(f"{origin}no plugin contributes a vendor {name!r} (known: {known}){nearest}{problems}")
        return self._contributed[name].vendor

    def _prepare(self, contributed: Vendor) -> Vendor:
        vendor = copy.copy(contributed)  # declarations from here on are those of these plugins
        vendor.declarations = contributed.declarations.copy()
        for conversion in vendor.declarations.conversions.values():  # declared before there was a torch to ask
            check_conversion(conversion.operator, conversion.function, conversion.provider)
        vendor.setup()
        self._plugins.notify("register_conversions", vendor=vendor)
        return vendor


#: The plugins of the run that this process takes part in, with the modules of ``-p``; nothing in here elsewhere.
_of_the_run: list[Plugins] = []


def use(plugins: Plugins) -> None:
    """Take the vendors of these plugins: those that a run has loaded in this process."""
    _of_the_run[:] = [plugins]
    vendors.cache_clear()


@functools.cache
def vendors() -> Vendors:
    """Return the vendors of the run's plugins, else of those that the settings of this process allow."""
    if _of_the_run:
        return Vendors(_of_the_run[0])
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
            f"the vendor name {vendor.name!r} is already used by {others[vendor.name].provenance}; choose another"
        )
