"""The entry point: ``patchcore run --compat mindspeed`` and ``patchcore plan --compat mindspeed``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchcore import Patch, hookimpl
from patchcore.plugin import Compat

if TYPE_CHECKING:
    from patchcore import Patcher, Settings

__all__ = ["register_compat", "register_patches"]


@hookimpl
def register_patches(settings: Settings) -> list[Patch]:
    """Return a patch without changes for each feature that the user disables: only MindSpeed knows its features."""
    if "mindspeed" not in (settings.get("compat") or ()):
        return []
    names = [choice.name for choice in settings.choices if not choice.enable]
    features = dict.fromkeys(name for name in names if name.startswith("mindspeed."))
    return [Patch(name, summary="a feature of MindSpeed, which decides about it in the program") for name in features]


@hookimpl(optionalhook=True)
def register_compat() -> list[Compat]:
    """Return the interface of MindSpeed's features."""
    return [Compat("mindspeed", modules=("mindspeed",), take_part=_take_part, plan="mindspeed_compat.planning")]


def _take_part(patcher: Patcher) -> None:
    from mindspeed_compat.run import take_part  # for the processes of such a run

    take_part(patcher)
