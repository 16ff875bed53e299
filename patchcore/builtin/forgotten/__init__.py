"""Built-in plugin ``forgotten``: reports plugins that define patches and return none, because a hook is missing, say.

It also reports an installed plugin without any hook. A local module without hooks and patches is fine: its user may
want to import it and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from patchcore.hookspecs import hookimpl
from patchcore.objects.printable import counted

if TYPE_CHECKING:
    from patchcore.plugins import Plugins

__all__ = ["after_collect"]

_HINT = "write: @patchcore.hookimpl, and below it def register_patches(): return [...]"


@hookimpl
def after_collect(plugins: Plugins, answers: Mapping[str, Sequence[Any]]) -> None:
    from patchcore.errors import PluginError

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
    from patchcore.declare.patch import Patch

    space = getattr(plugin, "__dict__", None)
    if not isinstance(space, dict):
        return []
    return [
        name
        for name, value in space.items()
        if type(value) is Patch or (type(value) in (list, tuple) and any(type(item) is Patch for item in value))
    ]
