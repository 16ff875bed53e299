"""The options of the backend: ``torch.compile(options=...)`` > environment > vendor > default."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Union

from patchcore import SettingsError
from patchcore.plugin import did_you_mean, user_cache

if TYPE_CHECKING:
    from npu_graph.vendor import Vendor

__all__ = [
    "CACHE_DIR",
    "CACHE_MAX_MB",
    "CHECK",
    "FALLBACK",
    "KEEP_EAGER",
    "Fallback",
    "Options",
    "cache_folder",
    "cache_limit",
    "fallback_from",
]

KEEP_EAGER = "PATCHCORE_GRAPH_KEEP_EAGER"
CHECK = "PATCHCORE_GRAPH_CHECK"
CACHE_DIR = "PATCHCORE_GRAPH_CACHE_DIR"
CACHE_MAX_MB = "PATCHCORE_GRAPH_CACHE_MAX_MB"
FALLBACK = "PATCHCORE_GRAPH_FALLBACK"

#: Some ten thousand kernels of the C vendor.
_DEFAULT_MB = 1000
_MOST_MB = 1e12  # an exabyte: nobody has more, and larger numbers are no integers any more

_CHECKS = {"": "off", "0": "off", "off": "off", "1": "raise", "raise": "raise", "warn": "warn"}
_KEYS = ("keep_eager", "check", "cache_dir", "cache_max_mb", "fallback")


class Fallback(NamedTuple):
    """The vendor that stands in for one that cannot be used, and where it is named."""

    vendor: str
    origin: str


def fallback_from(given: Mapping[str, Any], environ: Optional[Mapping[str, str]] = None) -> Optional[Fallback]:
    """Return the fallback that ``given`` names under ``fallback``, or else the environment; ``None`` for none.

    Raises:
        SettingsError: the value is no name.
    """
    environ = os.environ if environ is None else environ
    name, origin = (given["fallback"], "fallback") if "fallback" in given else (environ.get(FALLBACK, ""), FALLBACK)
    if name is not None and not isinstance(name, str):
        raise SettingsError(f"{origin}: expected the name of a vendor (fallback='reference') or None, got {name!r}")
    return Fallback(name.strip(), origin) if name and name.strip() else None


@dataclass(frozen=True)
class Options:
    """How graphs are compiled for one vendor.

    Args:
        keep_eager: names of overloads (``aten.rsqrt.default``) and packets (``aten.rsqrt``) that stay eager, each with
            who said so.
        check: compare each subgraph with eager in every call: ``off``, ``warn`` (log the first that deviates, go on
            with the results of eager), or ``raise``.
        cache_dir: where kernels are kept.
        cache_limit: how many bytes they may take there, those of all vendors; ``None`` for any number.
    """

    keep_eager: Mapping[str, str]
    check: str
    cache_dir: Path
    cache_limit: Optional[int]

    @classmethod
    def load(
        cls, vendor: Vendor, given: Mapping[str, Any] = {}, environ: Optional[Mapping[str, str]] = None
    ) -> Options:
        """Merge ``given``, the environment and the vendor's values; the first wins. Operators to keep eager add up.

        Args:
            vendor: whose graphs are compiled. In the environment, ``reference:aten.add`` is for that vendor only.
            given: by key; ``keep_eager`` is a list or a text with commas.
            environ: ``os.environ`` by default.

        Raises:
            SettingsError: an unknown key (with the nearest one), operator or value, saying where.
        """
        environ = os.environ if environ is None else environ
        for key in given:
            if key not in _KEYS:
                raise SettingsError(f"torch.compile(options=...) has no key {key!r}{did_you_mean(key, _KEYS)}")
        keep_eager = {str(name): f"vendor {vendor.name}" for name in vendor.keep_eager}
        keep_eager.update((name, KEEP_EAGER) for name in _operators(environ.get(KEEP_EAGER, ""), vendor, KEEP_EAGER))
        keep_eager.update((name, "options") for name in _operators(given.get("keep_eager", ""), vendor, "keep_eager"))
        check, origin = (given["check"], "check") if "check" in given else (environ.get(CHECK, ""), CHECK)
        check = {True: "raise", False: "off"}.get(check, check) if isinstance(check, bool) else str(check)
        if check not in _CHECKS:
            raise SettingsError(f"{origin}: expected 1, raise, warn, 0 or off, got {check!r}")
        return cls(keep_eager, _CHECKS[check], cache_folder(given, environ), cache_limit(given, environ))

    def kept_by(self, operator: str) -> Optional[str]:
        """Return the source that keeps the overload of this name eager, ``None`` without one."""
        return self.keep_eager.get(operator) or self.keep_eager.get(operator.rpartition(".")[0])


def _operators(given: Union[str, Iterable[Any]], vendor: Vendor, origin: str) -> list[str]:
    entries = given.split(",") if isinstance(given, str) else map(str, given)
    names = []
    for entry in filter(None, map(str.strip, entries)):
        owner, colon, name = entry.rpartition(":")
        if colon and owner != vendor.name:
            continue
        if not _is_operator(name):
            known = vendor.declarations.conversions
            raise SettingsError(
                f"{origin}: torch has no operator {name!r}{did_you_mean(name, known)}; expected an overload as "
                f"aten.rsqrt.default, or a packet as aten.rsqrt"
            )
        names.append(name)
    return names


def _is_operator(name: str) -> bool:
    import torch

    found: Any = torch.ops
    parts = name.split(".")
    if not 2 <= len(parts) <= 3:
        return False
    try:
        for part in parts:
            found = getattr(found, part)
    except (AttributeError, RuntimeError):
        return False
    return True


def cache_folder(given: Mapping[str, Any] = {}, environ: Optional[Mapping[str, str]] = None) -> Path:
    """Return the folder of kernels: ``given["cache_dir"]``, that of the environment, or that of the user.

    Raises:
        SettingsError: it is that of the user, who has no home.
    """
    environ = os.environ if environ is None else environ
    named = given.get("cache_dir") or environ.get(CACHE_DIR)
    try:
        return Path(named).expanduser().absolute() if named else user_cache(environ) / "patchcore" / "graph"
    except RuntimeError as error:
        raise SettingsError(f"no folder for kernels: {error}; name one: {CACHE_DIR}=$PWD/kernels") from error


def cache_limit(given: Mapping[str, Any] = {}, environ: Optional[Mapping[str, str]] = None) -> Optional[int]:
    """Return how many bytes kernels may take: from ``cache_max_mb``, in megabytes, 0 for ``None``, any number.

    Raises:
        SettingsError: the value is no such number.
    """
    environ = os.environ if environ is None else environ
    origin = "cache_max_mb" if "cache_max_mb" in given else CACHE_MAX_MB
    text = given["cache_max_mb"] if "cache_max_mb" in given else environ.get(CACHE_MAX_MB) or _DEFAULT_MB
    try:
        megabytes = float(text)
    except (TypeError, ValueError):
        megabytes = -1.0
    if not 0 <= megabytes <= _MOST_MB:
        raise SettingsError(f"{origin}: expected a number of megabytes, or 0 for no limit, got {text!r}")
    return int(megabytes * 1e6) or None
