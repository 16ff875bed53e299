"""The entry point: ``patchcore run --compat mindspeed`` and ``patchcore plan --compat mindspeed``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchcore import hookimpl
from patchcore.plugin import Compat

if TYPE_CHECKING:
    from patchcore import Patcher

__all__ = ["register_compat"]


@hookimpl(optionalhook=True)
def register_compat() -> list[Compat]:
    """Return the interface of MindSpeed's features."""
    return [Compat("mindspeed", modules=("mindspeed",), take_part=_take_part, plan="mindspeed_compat.planning")]


def _take_part(patcher: Patcher) -> None:
    from mindspeed_compat.run import take_part  # for the processes of such a run

    take_part(patcher)
