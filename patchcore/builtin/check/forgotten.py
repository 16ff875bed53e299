"""Plugins that define patches and return none, because a hook is missing for example; and plugins without any hook.

A local module without hooks and patches is fine: its user may want to import it and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from patchcore.declare.patch import Patch
from patchcore.errors import PluginError
from patchcore.objects.printable import counted

if TYPE_CHECKING:
    from patchcore.plugins import Plugins

__all__ = ["note_forgotten"]

_HINT = "write: @patchcore.hookimpl, and below it def register_patches(): return [...]"


def note_forgotten(plugins: Plugins, answers: Mapping[str, Sequence[Any]]) -> None:
    """Note each plugin whose patches are not registered as a problem of that plugin; see the hook ``after_collect``.

    Args:
        plugins: the loaded plugins.
        answers: the values that each plugin returned from ``register_patches``, by name of the plugin.
    """
    known = {(problem.plugin, problem.message) for problem in plugins.problems}  # patches may be collected again
    for name, provenance in plugins.provenances.items():
        plugin = plugins.manager.get_plugin(name)
        hooks = {caller.name for caller in plugins.manager.get_hookcallers(plugin) or ()}
        named = _patches_in(plugin)
        where = provenance.value or name
        if named and ("register_patches" not in hooks or not answers.get(name, named)):
            what = "register_patches returns none" if "register_patches" in hooks else "no register_patches"
            some = ", ".join(named[:3]) + (", ..." if len(named) > 3 else "")
            hook, text = "register_patches", f"{where} has {counted(len(named), 'patch')} ({some}), but {what}; {_HINT}"
        elif not hooks and provenance.distribution is not None:
            hook, text = "load", f"{where} implements no hook of patchcore; {_HINT}"
        else:
            continue
        if (name, text) not in known:
            plugins.note(provenance, hook, PluginError(text))


def _patches_in(plugin: Any) -> list[str]:
    """Return the names in a plugin's namespace that hold patches, or lists of them."""
    space = getattr(plugin, "__dict__", None)
    if not isinstance(space, dict):
        return []
    return [
        name
        for name, value in space.items()
        if type(value) is Patch or (type(value) in (list, tuple) and any(type(item) is Patch for item in value))
    ]
