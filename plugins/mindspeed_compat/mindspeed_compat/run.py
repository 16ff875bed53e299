"""Takes part in each process of ``patchcore run --compat mindspeed``."""

from __future__ import annotations

from mindspeed_compat import install
from patchcore import Patcher

__all__ = ["take_part"]


def take_part(patcher: Patcher) -> None:
    """Take the place of MindSpeed's manager in this process.

    Args:
        patcher: of the run in this process.
    """
    install(count=patcher.settings.count)
