"""Plugins: from entry points to loaded, isolated implementations of hooks.

A plugin that fails, at load or in any hook, becomes a :class:`~patchcore.report.Problem` with its distribution and traceback;
the others go on.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Callable, Optional

import pluggy

from patchcore import hookspecs
from patchcore.errors import UnknownName, describe_error, did_you_mean
from patchcore.provenance import Provenance
from patchcore.report import Problem

__all__ = ["GROUP", "Plugins", "installed_plugins"]

#: The entry-point group that plugins are declared in.
GROUP = "npu_patches"


def installed_plugins() -> list[tuple[Provenance, Any]]:
    """Return every declared plugin with its entry point, sorted by name and distribution, loading none.

    A distribution that is found twice on the path (installed and editable) counts once, as imports do.
    """
    if sys.version_info >= (3, 10):
        from importlib.metadata import distributions
    else:
        from importlib_metadata import distributions

    found: dict[tuple[str, str], tuple[Provenance, Any]] = {}
    seen: set[str] = set()
    for distribution in distributions():
        entries = [entry for entry in distribution.entry_points if entry.group == GROUP]
        if not entries:
            continue
        name = distribution.metadata["Name"]
        if name.lower() in seen:
            continue
        seen.add(name.lower())
        for entry in entries:
            found[entry.name, name] = Provenance(entry.name, name, distribution.version, entry.value), entry
    return [found[key] for key in sorted(found)]


class Plugins:
    """The loaded plugins of one Patcher, and what went wrong with the others.

    Args:
        allowed: names of the plugins to load, ``None`` for all.
        discover: load installed plugins at all.
        modules: names of local modules that are plugins without being packaged.

    Raises:
        UnknownName: ``allowed`` names a plugin that is not installed.
    """

    def __init__(
        self, *, allowed: Optional[Sequence[str]] = None, discover: bool = True, modules: Sequence[str] = ()
    ) -> None:
        self.manager = pluggy.PluginManager("patchcore")
        self.manager.add_hookspecs(hookspecs)
        self.problems: list[Problem] = []
        self.provenances: dict[str, Provenance] = {}
        self.denied: list[Provenance] = []
        self._callers: dict[str, list[tuple[Provenance, Any]]] = {}
        for provenance, entry in _allow(installed_plugins() if discover else [], allowed, self.denied):
            self._load(provenance, entry.load)
        for name in modules:
            self._load(Provenance(name, value=name), lambda name=name: importlib.import_module(name))

    def each(self, hook: str, **arguments: Any) -> Iterator[tuple[Provenance, Any]]:
        """Call ``hook`` on each plugin that implements it and yield who returned what; a failure is noted, not raised."""
        for provenance, caller in self._callers_of(hook):
            try:
                result = caller(**arguments)
                result = list(_iterated(result)) if hook == "register_patches" else result
            except Exception as error:
                self.note(provenance, hook, error)
            else:
                yield provenance, result

    def first(self, hook: str, accept: Callable[[Any], bool], expected: str, **arguments: Any) -> Any:
        """Return the first answer other than ``None``; an answer that ``accept`` refuses is noted and passed over."""
        for provenance, answer in self.each(hook, **arguments):
            if answer is None or answer == []:
                continue
            if accept(answer):
                return answer
            self.note(provenance, hook, TypeError(f"expected {expected}, got {answer!r}"))
        return None

    def note(self, provenance: Provenance, where: str, error: BaseException) -> None:
        """Remember that a plugin failed."""
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        self.problems.append(
            Problem(provenance.plugin, where, describe_error(error), provenance.distribution, provenance.version, text)
        )

    def _load(self, provenance: Provenance, load: Callable[[], Any]) -> None:
        try:
            if provenance.plugin in self.provenances:
                taken = self.provenances[provenance.plugin]
                raise ValueError(
                    f"the plugin name {provenance.plugin!r} is taken by {taken}; rename one of the entry points"
                )
            plugin = load()
            self.manager.register(plugin, name=provenance.plugin)
            self._check(plugin, provenance)
        except Exception as error:
            self.note(provenance, "load", error)
            if self.manager.has_plugin(provenance.plugin) and provenance.plugin not in self.provenances:
                self.manager.unregister(name=provenance.plugin)
            return
        self.provenances[provenance.plugin] = Provenance(
            provenance.plugin, provenance.distribution, provenance.version, provenance.value, _file_of(plugin)
        )

    def _check(self, plugin: Any, provenance: Provenance) -> None:
        hooks = [name for name in vars(hookspecs) if hasattr(self.manager.hook, name)]
        for name in dir(plugin):
            options = self.manager.parse_hookimpl_opts(plugin, name)
            hook = (options or {}).get("specname") or name
            if options is not None and hook not in hooks:
                raise ValueError(f"patchcore has no hook {hook!r}{did_you_mean(hook, hooks)}")

    def _callers_of(self, hook: str) -> list[tuple[Provenance, Any]]:
        """A caller per implementing plugin, in pluggy's order, so that one failing plugin does not end the others' calls."""
        if hook not in self._callers:
            caller = getattr(self.manager.hook, hook)
            plugins = list(dict.fromkeys(impl.plugin for impl in reversed(caller.get_hookimpls())))
            everyone = self.manager.get_plugins()
            self._callers[hook] = [
                (
                    self._provenance_of(plugin),
                    self.manager.subset_hook_caller(hook, [p for p in everyone if p is not plugin]),
                )
                for plugin in plugins
            ]
        return self._callers[hook]

    def _provenance_of(self, plugin: Any) -> Provenance:
        name = self.manager.get_name(plugin)
        return self.provenances[name] if name in self.provenances else Provenance(str(name))


def _allow(
    installed: Iterable[tuple[Provenance, Any]], allowed: Optional[Sequence[str]], denied: list[Provenance]
) -> list[tuple[Provenance, Any]]:
    found = list(installed)
    if allowed is None:
        return found
    names = {provenance.plugin for provenance, _ in found}
    for name in allowed:
        if name not in names:
            known = ", ".join(sorted(names)) or "none"
            raise UnknownName(
                f"no plugin {name!r} is installed{did_you_mean(name, names)} Installed: {known}".replace("? I", "? I")
            )
    denied += (provenance for provenance, _ in found if provenance.plugin not in allowed)
    return [item for item in found if item[0].plugin in allowed]


def _iterated(result: Any) -> Iterable[Any]:
    # without firstresult, pluggy returns a list with one result per implementation: here there is one
    for patches in result:
        yield from patches


def _file_of(plugin: Any) -> Optional[str]:
    try:
        return inspect.getfile(plugin if inspect.ismodule(plugin) or inspect.isclass(plugin) else type(plugin))
    except TypeError:
        return None
