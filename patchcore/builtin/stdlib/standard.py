"""Distinguishes the standard library from other modules."""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, ExtensionFileLoader, FileFinder, SourceFileLoader

__all__ = ["is_standard"]


@cache
def is_standard(root: str) -> bool:
    """Return whether a top-level module is of the standard library."""
    if sys.version_info >= (3, 10):
        return root in sys.stdlib_module_names
    if root in sys.builtin_module_names:
        return True
    # The files are looked at, not sys.modules: a program may have put anything there, None included.
    folder = os.path.dirname(os.__file__)
    sources = FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES))
    compiled = FileFinder(os.path.join(folder, "lib-dynload"), (ExtensionFileLoader, EXTENSION_SUFFIXES))
    return any(spec is not None and spec.loader for spec in (sources.find_spec(root), compiled.find_spec(root)))
