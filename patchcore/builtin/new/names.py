"""The names of a new plugin: its distribution, its package, its entry point."""

from __future__ import annotations

import importlib.machinery
import keyword
import re
import sys
import sysconfig
from typing import NamedTuple

from patchcore.errors import SettingsError

__all__ = ["PluginNames"]

# PEP 508, "Names"
_DISTRIBUTION = re.compile(r"[A-Z0-9](?:[A-Z0-9._-]*[A-Z0-9])?", re.IGNORECASE)
_ENDINGS = ("_patches", "_npu")
#: Packages that a plugin would hide, or that would hide it: ours, and the folder of its own tests.
_TAKEN = ("patchcore", "patchcore_startup", "tests")


class PluginNames(NamedTuple):
    """The names of a plugin.

    Args:
        distribution: for pip, ``bevformer-npu-patches``.
        package: for ``import``, ``bevformer_npu_patches``.
        plugin: its entry point, and the first part of the names of its patches: ``bevformer``.

    Examples:
        >>> from patchcore.plugin import PluginNames
        >>> PluginNames.derive("shop-npu-patches")
        PluginNames(distribution='shop-npu-patches', package='shop_npu_patches', plugin='shop')
    """

    distribution: str
    package: str
    plugin: str

    @classmethod
    def derive(cls, name: str) -> PluginNames:
        """Return the names of the plugin whose distribution is called ``name``.

        Raises:
            SettingsError: a distribution cannot have this name, or its package could not be imported.
        """
        if not _DISTRIBUTION.fullmatch(name):
            likely = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("._-") or "my-model-npu"
            raise SettingsError(
                f"{name!r} is not the name of a distribution: letters, digits, and '.', '_' or '-' between them; "
                f"write: patchcore new {likely}"
            )
        package = re.sub(r"[._-]+", "_", name).lower()  # PEP 503, with '_'
        problem = _problem_of(package)
        if problem:
            raise SettingsError(
                f"the package of {name!r} would be {package!r}, which {problem}; write: patchcore new npu-{name}"
            )
        plugin = package
        for ending in _ENDINGS:
            plugin = plugin[: -len(ending)] if plugin.endswith(ending) and plugin != ending else plugin
        return cls(name, package, plugin)


def _problem_of(package: str) -> str:
    if not package.isidentifier() or keyword.iskeyword(package):
        return "Python cannot import: it is no identifier"
    if _is_in_standard_library(package):
        return "is a module of the standard library"
    return "would hide another one" if package in _TAKEN else ""


def _is_in_standard_library(name: str) -> bool:
    known = getattr(sys, "stdlib_module_names", None)
    if known is not None:
        return name in known
    if name in sys.builtin_module_names:  # Python 3.9
        return True
    folders = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")]
    folders += [f"{folder}/lib-dynload" for folder in folders]
    return importlib.machinery.PathFinder.find_spec(name, folders) is not None
