"""The hook by which ``patchcore new --from FILE`` reads files that other patchers were written for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional, Union

from patchcore.hookspecs import hookspec

if TYPE_CHECKING:
    from pathlib import Path

    from patchcore.builtin.new.about import PluginMetadata
    from patchcore.builtin.new.names import PluginNames
    from patchcore.builtin.new.source import PluginSource
    from patchcore.declare.changes import Skip

__all__ = ["read_plugin_source"]


@hookspec(firstresult=True)
def read_plugin_source(path: Path, names: PluginNames, about: PluginMetadata) -> Optional[Union[PluginSource, Skip]]:
    """Return the file at ``path`` as the sources of a plugin called ``names``; read it without running it.

    ``about`` is for the plugin's pyproject.toml: ``patchcore.plugin.render_pyproject(names, "...", about)``.

    The first :class:`PluginSource` is used. Return ``None`` for a file of a kind that this plugin does not know, and
    ``Skip("why")`` for one that it knows and cannot read: the reason is printed if no other plugin reads the file.
    """
