"""The hook that the plugin ``verify`` brings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from patchcore.hookspecs import hookspec

if TYPE_CHECKING:
    from patchcore.builtin.verify.framework import Framework

__all__ = ["verify_framework"]


@hookspec(firstresult=True)
def verify_framework() -> Optional[Framework]:
    """Return the :class:`~patchcore.builtin.verify.framework.Framework` that makes and compares calls, or ``None``.

    The first answer counts. Without one, the class itself is used: it knows the CPU and the values of Python.
    """
