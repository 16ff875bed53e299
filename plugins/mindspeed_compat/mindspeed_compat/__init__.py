"""Carries out the patches of MindSpeed's features: each place has its feature as owner, and is reverted exactly.

    import mindspeed_compat
    mindspeed_compat.install()

    import mindspeed.megatron_adaptor    # as before

``patchcore run --compat mindspeed pretrain_gpt.py ...`` does the same for a program, without a line in it. MindSpeed's
code decides as before which features are needed, and which patches they register. Only its ``apply_patches`` and
``remove_patches`` are carried out by patchcore.

Neither importing this package nor :func:`install` imports anything heavy.

``takeover`` takes the place of MindSpeed's manager; ``declared`` makes patches from registrations; ``locating`` finds
the place that a target of MindSpeed means; ``registrations`` keeps which feature has registered a function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from mindspeed_compat.takeover import Takeover
from patchcore import Patcher

__all__ = ["Installation", "feature_patches", "install", "is_installed", "remarks", "takeover_in_effect"]

_takeover: Optional[Takeover] = None


class Installation:
    """The result of :func:`install`: undoes the installation, also at the end of a ``with`` block.

    Args:
        own: whether it was this call that did it.
    """

    def __init__(self, own: bool) -> None:
        self._own = own

    def uninstall(self) -> None:
        """Revert all patches of MindSpeed's features, and give MindSpeed its own manager back."""
        global _takeover
        if self._own and _takeover is not None:
            _takeover.disconnect()
            _takeover = None
        self._own = False

    def __enter__(self) -> Installation:
        return self

    def __exit__(self, *error: object) -> None:
        self.uninstall()


def install(*, count: bool = False, disable: Sequence[str] = ()) -> Installation:
    """Carry out what MindSpeed's features register, from now on. Installing again changes nothing.

    MindSpeed may be imported already, but must not have applied patches.

    Args:
        count: count the calls of patched targets, as ``Patcher(count=True)`` does.
        disable: patches of features to leave out, ``["mindspeed.FEATURE"]``. MindSpeed goes on as if they were applied.
            A name that means no feature is an ``UnknownName`` when MindSpeed applies patches.

    Returns:
        What takes it back.

    Raises:
        SettingsError: MindSpeed has applied patches already.
    """
    global _takeover
    if _takeover is not None:
        return Installation(own=False)
    takeover = Takeover(count=count, disable=disable)
    takeover.connect()
    _takeover = takeover
    return Installation(own=True)


def is_installed() -> bool:
    """Return whether :func:`install` is in effect."""
    return _takeover is not None


def feature_patches() -> list[Patcher]:
    """Return the Patchers that hold the patches of the features: one for each ``apply_patches`` that had news."""
    return [] if _takeover is None else list(_takeover.patchers)


def remarks() -> list[str]:
    """Return findings that MindSpeed does not report: places with two spellings, replacements that are replaced."""
    return [] if _takeover is None else list(_takeover.remarks)


def takeover_in_effect() -> Optional[Takeover]:
    """Return the object that carries out the registrations; ``None`` before :func:`install`."""
    return _takeover
