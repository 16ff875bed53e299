"""The entry point: ``patchcore run --compat mx_driving`` and ``patchcore new --from patch.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional, Union

from patchcore import SettingsError, Skip, hookimpl, install_command
from patchcore.plugin import Compat, version_of

if TYPE_CHECKING:
    from pathlib import Path

    from patchcore import Patcher
    from patchcore.plugin import PluginMetadata, PluginNames, PluginSource

__all__ = ["advise", "read_plugin_source", "register_compat"]


@hookimpl(optionalhook=True)
def register_compat() -> list[Compat]:
    """Return the interface of ``mx_driving.patcher``."""
    return [Compat("mx_driving", modules=("mx_driving",), take_part=_take_part)]


@hookimpl
def advise(name: str, command: str) -> Optional[str]:
    """Return which patch has a name of ``mx_driving.patcher``, and the distribution to install."""
    from mx_driving_compat.predefined.table import find_entry

    entry = find_entry(name) if command == "patch" else None
    if entry is None:
        return None
    place = f"{name} of mx_driving.patcher is {' and '.join(entry.patches)} of {entry.distribution}"
    if version_of(entry.distribution) is None:
        return f"{place}: {install_command(entry.distribution)}"
    return f"{place}, whose plugin is not loaded (see --plugin, PATCHCORE_PLUGINS, patchcore doctor)"


@hookimpl(optionalhook=True)
def read_plugin_source(path: Path, names: PluginNames, about: PluginMetadata) -> Union[PluginSource, Skip]:
    """Return the plugin that a ``patch.py`` for ``mx_driving.patcher`` becomes, or why it cannot be read."""
    from mx_driving_compat.reading.plugin_source import plugin_source  # for those who read a file

    try:
        return plugin_source(path, names, about)
    except SettingsError as error:
        return Skip(str(error))


def _take_part(patcher: Patcher) -> None:
    from mx_driving_compat.run.taking_part import take_part  # for the processes of such a run

    take_part(patcher)
