"""The hook that the plugin ``verify`` brings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from patchcore.hookspecs import hookspec

if TYPE_CHECKING:
    from patchcore.builtin.verify.framework import Framework

__all__ = ["verify_framework"]


@hookspec(firstresult=True)
def verify_framework() -> Optional[Framework]:
    """Return how calls are made on a device and how their results are compared, or ``None``; the first answer counts.

    A subclass of :class:`patchcore.builtin.verify.framework.Framework`, which is what is used without a plugin.
    """
