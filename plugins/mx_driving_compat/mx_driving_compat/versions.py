"""Finds the installed version of a package, for prechecks; imports the package only if no metadata has it.

Migrations overwrite ``mmcv.__version__`` so that one library takes another for the version it wants. The installed
version does not change by that, so a distribution's metadata comes first here.
"""

from __future__ import annotations

import functools
import re
import sys
from types import FunctionType
from typing import Any, Optional

from patchcore.plugin import find_module, namespace_of, version_of, version_of_provider

__all__ = ["check_version", "get_version", "is_mmcv_v1x", "is_mmcv_v2x", "mmcv_version"]

_LEADING_NUMBERS = r"(\d+)(?:\.(\d+))?"

#: By package: the loaded module, which keeps its version whatever is installed afterwards, and the version.
_found: dict[str, tuple[Any, str]] = {}


def get_version(package: str) -> Optional[str]:
    """Return the version of import package ``package``, ``None`` when it is not installed or cannot be imported.

    In this order: the metadata of the distribution that provides it (mmcv, mmcv-full or mmcv-lite for ``"mmcv"``), its
    ``__version__`` where it is loaded, its ``__version__`` after importing it.

    Args:
        package: name for ``import``; of ``"mmcv.ops"``, where there is such a module, the version of mmcv.
    """
    known = _found.get(package)
    if known is not None and known[0] is sys.modules.get(package):
        return known[1]
    version = installed_version(package) or _told_by_package(package)
    module = sys.modules.get(package)  # the lookup may have imported it
    if version is not None and module is not None:
        _found[package] = (module, version)
    return version


def check_version(package: str, major: Optional[int] = None, minor: Optional[int] = None) -> bool:
    """Return whether ``package`` is installed in this major and minor version; ``None`` allows any.

    Args:
        package: as in :func:`get_version`.
        major: 2 for ``2.*``.
        minor: 1 for ``*.1.*``. A version that ends before it, ``"2"``, is of minor version 0.
    """
    version = get_version(package)
    numbers = None if version is None else _numbers(version)
    if numbers is None:
        return False
    return major in (None, numbers[0]) and minor in (None, numbers[1])


class _MMCVVersion:
    """The version of mmcv, looked up at each access. Calling it returns the version; it is false without mmcv."""

    @property
    def version(self) -> Optional[str]:
        """The version of mmcv, ``None`` when it is not installed."""
        return get_version("mmcv")

    @property
    def is_v1x(self) -> bool:
        """True if mmcv 1.x is installed."""
        return check_version("mmcv", major=1)

    @property
    def is_v2x(self) -> bool:
        """True if mmcv 2.x is installed."""
        return check_version("mmcv", major=2)

    @property
    def has_mmcv(self) -> bool:
        """True if mmcv is installed."""
        return self.version is not None

    @property
    def has_mmengine(self) -> bool:
        """True if mmengine is installed."""
        return get_version("mmengine") is not None

    @property
    def available(self) -> bool:
        """The same as ``has_mmcv``."""
        return self.has_mmcv

    def __bool__(self) -> bool:
        return self.has_mmcv

    def __call__(self) -> Optional[str]:
        return self.version

    def __repr__(self) -> str:
        return f"MMCVVersion(version={self.version!r}, is_v1x={self.is_v1x}, is_v2x={self.is_v2x})"


#: The version of mmcv as an object: ``mmcv_version.is_v2x``, ``mmcv_version()``.
mmcv_version = _MMCVVersion()


def is_mmcv_v1x() -> bool:
    """Return whether mmcv 1.x is installed."""
    return mmcv_version.is_v1x


def is_mmcv_v2x() -> bool:
    """Return whether mmcv 2.x is installed."""
    return mmcv_version.is_v2x


def installed_version(package: str) -> Optional[str]:
    """Return the version of ``package`` in the metadata of the distribution that provides it; imports nothing."""
    found = version_of(package)
    if found is None and find_module(package):
        found = version_of_provider(package.partition(".")[0])
    return found


def _told_by_package(package: str) -> Optional[str]:
    """Return the version in a package without metadata, such as a source checkout on the path."""
    if not find_module(package):
        return None
    root = package.partition(".")[0]
    if root not in sys.modules:
        try:
            __import__(root)
        except Exception:  # a package that cannot be imported cannot be patched
            return None
    # mmcv.version still has the value of mmcv.__version__ from before somebody overwrote it
    for name, keys in ((f"{root}.version", ("__version__",)), (root, ("__version__", "version", "VERSION"))):
        members = namespace_of(sys.modules.get(name)) or {}
        for key in keys:
            version = _as_text(members.get(key))
            if version is not None:
                return version
    return None


def _as_text(value: Any) -> Optional[str]:
    if isinstance(value, FunctionType):
        try:
            value = value()
        except Exception:  # a function of that name that does something else
            return None
    return str(value) if isinstance(value, str) else None  # torch's version is of a subclass


@functools.cache
def _numbers(version: str) -> Optional[tuple[int, Optional[int]]]:
    """Return the major and the minor version, the latter ``None`` if unknown; ``None`` if both are."""
    from packaging.version import InvalidVersion, Version

    try:
        parsed = Version(version)
    except InvalidVersion:  # "2.x-dev"
        match = re.match(_LEADING_NUMBERS, version)
        return None if match is None else (int(match[1]), None if match[2] is None else int(match[2]))
    return parsed.major, parsed.minor
