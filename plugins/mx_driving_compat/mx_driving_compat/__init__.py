"""Offers the interface of ``mx_driving.patcher`` 1.0 and 2.0, so that migrations written for it run unchanged.

    import mx_driving_compat
    mx_driving_compat.install()

    from mx_driving.patcher import default_patcher    # mx_driving_compat.patcher from here on

``patchcore run --compat mx_driving train.py`` does the same for a program, without a line in it. It offers the
interface of the distribution mx-driving 26.2; docs/mx-driving-patcher.md has the differences that are intended.

Neither importing this package nor :func:`install` imports anything heavy.

``patcher/`` has the public names. Imports go downwards: ``patcher/``, ``run/``, ``collecting/``, ``predefined/``,
``imports/``, ``patches/``, ``messages/``. ``reading/`` reads a ``patch.py`` and needs none of these but the table of
predefined patches.
"""

from __future__ import annotations

from typing import Optional

from mx_driving_compat.finder import PublicNames

__all__ = ["Installation", "install", "is_installed"]

_finder: Optional[PublicNames] = None


class Installation:
    """The result of :func:`install`: undoes the installation, also at the end of a ``with`` block.

    Args:
        own: whether it was this call that did it.
    """

    def __init__(self, own: bool) -> None:
        self._own = own

    def uninstall(self) -> None:
        """Make ``mx_driving.patcher`` unavailable again; patches that were applied meanwhile stay applied."""
        global _finder
        if self._own and _finder is not None:
            _finder.disconnect()
            _finder = None
        self._own = False

    def __enter__(self) -> Installation:
        return self

    def __exit__(self, *error: object) -> None:
        self.uninstall()


def install() -> Installation:
    """Make imports of ``mx_driving.patcher`` return :mod:`mx_driving_compat.patcher`, with all its modules.

    The kernels of ``mx_driving``, the real ones or those of the emulated NPU, stay where they are; where there are
    none, ``mx_driving`` can be imported for the sake of its patcher, and for nothing else. Installing again changes
    nothing.

    Returns:
        A function that takes it back.

    Raises:
        SettingsError: the ``mx_driving.patcher`` of the distribution mx-driving was imported already.
    """
    global _finder
    if _finder is not None:
        return Installation(own=False)
    finder = PublicNames()
    finder.connect()
    _finder = finder
    return Installation(own=True)


def is_installed() -> bool:
    """Return whether :func:`install` is in effect."""
    return _finder is not None
