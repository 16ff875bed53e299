"""The abstract base classes that Python removed from ``collections``, for libraries that still look for them there.

Python 3.3 moved them to ``collections.abc`` and 3.10 removed the old names ("What's New In Python 3.10", Removed).
"""

from __future__ import annotations

import collections.abc
import sys
from typing import Union

import patchcore as pc

#: Names that ``collections`` had. A later Python may remove some from ``collections.abc``, too (3.14: ``ByteString``).
NAMES = (
    *("Awaitable", "Coroutine", "AsyncIterable", "AsyncIterator", "AsyncGenerator", "Hashable", "Iterable", "Iterator"),
    *("Generator", "Reversible", "Sized", "Container", "Callable", "Collection", "Set", "MutableSet", "Mapping"),
    *("MutableMapping", "MappingView", "KeysView", "ItemsView", "ValuesView", "Sequence", "MutableSequence"),
    "ByteString",
)


def removed_here() -> Union[bool, pc.Skip]:
    """Return whether this Python has removed the names."""
    if sys.version_info < (3, 10):
        return pc.Skip("collections of this Python has the names still")
    return True


COLLECTIONS_COMPAT = pc.Patch(
    "collections.compat",
    [
        pc.Replace(f"collections:{name}", getattr(collections.abc, name), create=True)
        for name in NAMES
        if name in collections.abc.__all__
    ],
    summary="collections.Iterable, Mapping, ... where Python has removed them",
    when=removed_here,
    legacy_names=["Iterable", "collections_compat", "CollectionsCompat"],
    priority=-100,  # before anything that imports libraries which read the names
    default=False,
)
