"""The entry point: ``patchcore run --compat mx_driving`` and ``patchcore new --from patch.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Union

from patchcore import Skip, hookimpl
from patchcore.builtin.run.compat import Compat
from patchcore.errors import SettingsError

if TYPE_CHECKING:
    from pathlib import Path

    from patchcore.builtin.new.names import Names
    from patchcore.builtin.new.source import PluginSource
    from patchcore.patcher import Patcher

__all__ = ["read_plugin_source", "register_compat"]


@hookimpl(optionalhook=True)
def register_compat() -> list[Compat]:
    """Return the interface of ``mx_driving.patcher``."""
    return [Compat("mx_driving", modules=("mx_driving",), take_part=_take_part)]


@hookimpl(optionalhook=True)
def read_plugin_source(path: Path, names: Names) -> Union[PluginSource, Skip]:
    """Return the plugin that a ``patch.py`` for ``mx_driving.patcher`` becomes, or why it cannot be read."""
    from mx_driving_compat.reading.plugin_source import plugin_source  # for those who read a file

    try:
        return plugin_source(path, names)
    except SettingsError as error:
        return Skip(str(error))


def _take_part(patcher: Patcher) -> None:
    from mx_driving_compat.run.taking_part import take_part  # for the processes of such a run

    take_part(patcher)
