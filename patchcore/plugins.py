"""Loads plugins and calls their hooks, so that no plugin can take another one down.

patchcore's own features are plugins too, see :data:`BUILTINS`. They are loaded first, then those of the group
``patchcore_support``, with every Patcher; each can be left out with ``no:NAME``. A plugin that fails, while it is
loaded or in a hook, becomes a :class:`~patchcore.report.Problem` with its distribution and traceback; the others go on.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Callable, Optional

import pluggy

from patchcore import hookspecs
from patchcore.declare.changes import Change
from patchcore.declare.target import Target
from patchcore.engine.writers import Writers, class_key
from patchcore.errors import PatchcoreError, UnknownName, describe_error, did_you_mean
from patchcore.logs import logger
from patchcore.objects.extensions import Extensions, using
from patchcore.objects.modules import find_module
from patchcore.objects.printable import shown
from patchcore.planning.candidates import Candidate
from patchcore.planning.conditions import Environment
from patchcore.planning.distributions import headers
from patchcore.planning.plan import PlannedPatch
from patchcore.planning.provenance import COMMANDS, PATCHES, SUPPORT, Provenance
from patchcore.process import PLUGIN_MODULES
from patchcore.report import Problem, Remark, Section
from patchcore.settings import LocalModule, Setting

if TYPE_CHECKING:
    from importlib.metadata import Distribution

__all__ = ["BUILTINS", "Plugins", "installed_plugins"]

#: The features that ship with the core, each a package of that name in ``patchcore.builtin``, by the entry-point group
#: that such a plugin of somebody else would be declared in. The core knows nothing else of them.
BUILTINS = {
    SUPPORT: (
        "call", "each_module", "imports", "instances", "phases", "rewrite", "stdlib", "signatures", "holders", "drift",
        "check", "run", "audit", "doctor", "verify", "new", "suggest",
    ),
    COMMANDS: ("adopt", "list", "report", "explain", "bisect", "plan", "environment", "overview", "upgrade"),
}  # fmt: skip

#: The beginning of a name in the setting ``plugins`` that leaves a plugin out.
_WITHOUT = "no:"

#: Hooks by which a plugin takes names that only one can have. Those of patchcore come first: another plugin that takes
#: the same name is at fault.
_NAMING = ("register_settings", "register_commands", "register_run_options")

#: The hook that brings hooks. It is called before any other, so that plugins may load in any order.
_BRINGING = "register_hookspecs"

#: Folders of patchcore and importlib: their lines of a traceback do not help the author of a plugin.
_OURS = (os.path.dirname(__file__) + os.sep, os.path.dirname(importlib.__file__) + os.sep, "<frozen importlib")

Loader = Callable[[], Any]


def installed_plugins(group: str = PATCHES) -> list[tuple[Provenance, Loader]]:
    """Return every installed plugin of a group with the function that loads it, sorted by name and distribution.

    None is loaded. A distribution that is on the path twice, installed and editable for example, counts once: the first
    one, as for imports. A distribution with broken metadata becomes a plugin of ``npu_patches`` that fails to load.
    """
    return _look_for_plugins()[group]


def _look_for_plugins() -> dict[str, list[tuple[Provenance, Loader]]]:
    """Look through all distributions; return the plugins and their loaders for each group of entry points."""
    from patchcore.stdlib import metadata

    groups: dict[str, dict[tuple[str, str], tuple[Provenance, Loader]]] = {PATCHES: {}, SUPPORT: {}, COMMANDS: {}}
    seen: set[str] = set()
    path = [os.curdir if entry == "" else entry for entry in sys.path]  # metadata lists the folder "" again each time
    for distribution in metadata.distributions():
        if not _declares_plugins(distribution):
            continue
        try:
            name = headers(distribution)["Name"]
            canonical = re.sub(r"[-_.]+", "-", name).lower()  # PEP 503
            if canonical in seen:
                continue
            seen.add(canonical)
            # the first on the path may declare none
            first = next(iter(metadata.distributions(name=name, path=path)), None) or metadata.distribution(name)
            known = headers(first)
            name, version = known["Name"], known["Version"]
            for entry in first.entry_points:
                if entry.group in groups:
                    provenance = Provenance(entry.name, name, version, entry.value, group=entry.group)
                    groups[entry.group][entry.name, name] = provenance, entry.load
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            where = str(getattr(distribution, "_path", distribution))  # its name may be unreadable
            groups[PATCHES][where, where] = Provenance(where, where, group=PATCHES), partial(_raise, error)
    return {group: [found[key] for key in sorted(found)] for group, found in groups.items()}


@functools.lru_cache(maxsize=8)
def _support(path: tuple[str, ...]) -> list[tuple[Provenance, Loader]]:
    """Return the plugins of ``SUPPORT``, looked for once for each ``sys.path``: many Patchers discover nothing else."""
    return installed_plugins(SUPPORT)


class Plugins:
    """The loaded plugins of a Patcher, or of several that share them, and the problems of plugins that failed.

    Args:
        allowed: names of the installed plugins to load, ``None`` for all. ``no:NAME`` leaves a plugin out, installed or
            built-in. Built-in plugins and those of ``SUPPORT`` are loaded without being named.
        discover: whether to load installed plugins.
        modules: local modules that are plugins without being packaged.
        commands: whether to load the plugins that only add commands, too: for the command line.

    Raises:
        UnknownName: ``allowed`` names a plugin that is not installed.

    Examples:
        >>> from patchcore.plugin import Plugins
        >>> Plugins(discover=False).problems
        []
    """

    def __init__(
        self,
        *,
        allowed: Optional[Sequence[str]] = None,
        discover: bool = True,
        modules: Sequence[LocalModule] = (),
        commands: bool = False,
    ) -> None:
        self.manager = _Manager("patchcore")
        self.manager.add_hookspecs(hookspecs)
        self.problems: list[Problem] = []
        self._extensions: Optional[Extensions] = None
        self._known: dict[str, Provenance] = {}
        self.builtins: dict[str, Provenance] = {}
        self.support: dict[str, Provenance] = {}
        self.provenances: dict[str, Provenance] = {}  # of the others
        self.denied: list[Provenance] = []
        self.absent: list[str] = []  # names of plugins that the parent process has and this one cannot find
        # Hook wrappers have a manager of their own: pluggy calls all implementations of a hook in one call, in which
        # one that raises ends the others. Each implementation is called by itself here, with all wrappers around it.
        self._wrappers = _Wrappers("patchcore")
        self._wrappers.add_hookspecs(hookspecs)
        self._unconcerned: list[tuple[str, str, Any]] = []  # plugin, hook and implementation
        named = None if allowed is None or not discover else [name for name in allowed if not name.startswith(_WITHOUT)]
        without = [name[len(_WITHOUT) :] for name in allowed or () if name.startswith(_WITHOUT)]
        loaded = (PATCHES, SUPPORT, COMMANDS) if commands else (PATCHES, SUPPORT)
        builtin = [_builtin(name, group) for group, names in BUILTINS.items() for name in names]
        looked_for = _look_for_plugins() if discover else {SUPPORT: _support(tuple(sys.path))}
        support = looked_for[SUPPORT]
        installed = [*looked_for.get(PATCHES, ()), *looked_for.get(COMMANDS, ())]
        self.load(item for item in builtin if item[0].plugin not in without and item[0].group in loaded)
        self.builtins, self.provenances = self.provenances, {}
        self.load(item for item in support if item[0].plugin not in without)
        self.support, self.provenances = self.provenances, {}
        if discover:
            _refuse_unknown(without, [item[0] for item in (*builtin, *support, *installed)])
        if named is not None:
            unnamed = {item[0].plugin for item in support}  # these are loaded without being named
            named = [name for name in named if name not in unnamed]
        declared = _allow(installed, None if without and not named else named, without, self.denied)
        declared = [item for item in declared if item[0].group in loaded]
        declared += ((Provenance(local.name, value=local.name), partial(_import_local, local)) for local in modules)
        self.load(declared)

    @property
    def complete(self) -> bool:
        """False when some plugin was not loaded or has failed, so that patches may be missing."""
        return not self.problems and not self.denied and not self.absent

    @property
    def installed(self) -> list[Provenance]:
        """Those that are loaded and do not come with patchcore."""
        return [*self.support.values(), *self.provenances.values()]

    def implements(self, hook: str) -> bool:
        """True if a plugin implements ``hook``; otherwise the caller need not prepare its arguments.

        The hook may be of a plugin that is not loaded.
        """
        caller = getattr(self.manager.hook, hook, None)
        return caller is not None and bool(caller.get_hookimpls())

    def each(self, hook: str, **arguments: Any) -> Iterator[tuple[Provenance, Any]]:
        """Call ``hook`` on each plugin that implements it, and yield the plugin and its answer.

        A plugin that raises is noted as a problem. The order is pluggy's: the plugin that was loaded last comes first.
        Hook wrappers go around the call of each plugin.
        """
        return self._each(hook, arguments)

    def collect(self, hook: str, **arguments: Any) -> Iterator[tuple[Provenance, list[Any]]]:
        """Call a hook that returns several things, and yield each plugin with a list of them.

        Works like :meth:`each`. A plugin may return a generator; if the generator raises, the plugin has failed.
        """
        return self._each(hook, arguments, collecting=True)

    def _each(
        self, hook: str, arguments: dict[str, Any], *, collecting: bool = False
    ) -> Iterator[tuple[Provenance, Any]]:
        # pluggy keeps them in the order in which it calls them from the end: `tryfirst` is last in its list
        implementations = getattr(self.manager.hook, hook).get_hookimpls()[::-1]
        if hook in _NAMING:
            implementations.sort(key=lambda found: not self._provenance_of(found.plugin_name).is_built_in)
        for implementation in implementations:
            if implementation.wrapper or implementation.hookwrapper:
                continue
            provenance = self._provenance_of(implementation.plugin_name)
            try:
                result = self._call(hook, implementation, arguments)
                if collecting:
                    answers, result = result, []
                    for items in answers:
                        if hasattr(items, "_fields") or not hasattr(items, "__iter__"):  # a record is a tuple, too
                            raise TypeError(f"expected a list, got {shown(items)}")
                        result += items
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # also sys.exit(): a plugin may end itself, not the program
                self.note(provenance, hook, error)
            else:
                yield provenance, result

    def notify(self, hook: str, **arguments: Any) -> None:
        """Call ``hook`` on each plugin that implements it, as :meth:`each` does, and ignore the answers."""
        for _ in self._each(hook, arguments):
            pass

    def first(self, hook: str, accept: Callable[[Any], bool], expected: str, **arguments: Any) -> Any:
        """Return the first answer other than ``None``. An answer that ``accept`` refuses is a problem of its plugin."""
        return self.decide(hook, accept, expected, **arguments)[1]

    def advice(self, name: str, command: str) -> Any:
        """Return the text that the hook ``advise`` returns for something missing, or ``None``."""
        return self.first("advise", lambda text: isinstance(text, str), "a text", name=name, command=command)

    def advice_on_modules(self, names: Iterable[str]) -> list[str]:
        """Return a line of advice for each of these modules that is missing, if a plugin has advice on it."""
        advice = {name: self.advice(name, "import") for name in dict.fromkeys(names) if not find_module(name)}
        return [f"no module named {name!r}: {text}" for name, text in advice.items() if text]

    def decide(
        self, hook: str, accept: Callable[[Any], bool], expected: str, **arguments: Any
    ) -> tuple[Optional[Provenance], Any]:
        """Return the plugin whose answer :meth:`first` returns, and the answer; two times ``None`` if there is none."""
        for provenance, answer in self._each(hook, arguments):
            if answer is None:
                continue
            if accept(answer):
                return provenance, answer
            self.note(provenance, hook, TypeError(f"expected {expected}, got {shown(answer)}"))
        return None, None

    def settings(self) -> list[Setting]:
        """Return the settings of all plugins. If two have the same key, the second is a problem of its plugin."""
        found: dict[str, tuple[Provenance, Setting]] = {}
        for provenance, settings in self.collect("register_settings"):
            for setting in settings:
                if not isinstance(setting, Setting):
                    problem: Exception = TypeError(f"expected patchcore.Setting objects, got {shown(setting)}")
                elif setting.key in found:
                    problem = ValueError(
                        f"the setting {setting.key!r} is already registered by {found[setting.key][0]}"
                    )
                else:
                    found[setting.key] = provenance, setting
                    continue
                self.note(provenance, "register_settings", problem)
        return [setting for _, setting in found.values()]

    def registry_tables(self) -> list[str]:
        """Return the attributes in which registries keep their entries; see the hook ``registry_tables``."""
        return [str(name) for _, names in self.collect("registry_tables") for name in names]

    def emulated_devices(self) -> frozenset[str]:
        """Return the kinds of device that a plugin emulates in this process; see the hook ``emulated_devices``.

        Examples:
            >>> from patchcore.plugin import Plugins
            >>> "a100" in Plugins(discover=False).emulated_devices()
            False
        """
        return frozenset(str(kind) for _, kinds in self.collect("emulated_devices") for kind in kinds)

    @property
    def extensions(self) -> Extensions:
        """The writers, guards, marks, handovers and registry tables of the plugins; the hooks are called once."""
        if self._extensions is None:
            marks, handovers = self.functions("register_marks"), self.functions("register_handovers")
            self._extensions = Extensions(
                writers={kind if isinstance(kind, str) else class_key(kind): w for kind, w in self.writers().items()},
                guards=self.functions("register_guards"),
                marks=marks,
                handovers=handovers,
                tables=self.registry_tables(),
            )
        return self._extensions

    def writers(self) -> Writers:
        """Return the writers of the kinds of change that plugins bring; see the hook ``register_writers``."""
        found: dict[Any, Any] = {}
        for provenance, (writers,) in self.each("register_writers"):
            if isinstance(writers, Mapping) and all(map(_is_writer, writers.items())):
                found.update((kind, factory) for kind, factory in writers.items() if kind not in found)
            else:
                error = TypeError(f"expected a mapping of change classes to writer factories, got {shown(writers)}")
                self.note(provenance, "register_writers", error)
        return found

    def functions(self, hook: str) -> list[Any]:
        """Return the functions, or their targets, that the plugins return from ``hook``."""
        return self.gather(hook, lambda f: isinstance(f, str) or callable(f), "functions or targets")

    def remarks(
        self, entry: PlannedPatch, *, thorough: bool, environment: Optional[Environment] = None
    ) -> list[Remark]:
        """Return the remarks of all plugins on a planned patch; see the hook ``remarks``."""
        asked = {"entry": entry, "environment": environment or Environment(), "thorough": thorough}
        expected = "patchcore.Remark objects"
        with using(self.extensions):  # a plugin may look at the slots of the patch
            return self.gather("remarks", lambda r: isinstance(r, Remark), expected, **asked)

    def gather(self, hook: str, accept: Callable[[Any], bool], expected: str, **arguments: Any) -> list[Any]:
        """Return the items that the plugins return from ``hook``; one that ``accept`` refuses is a problem instead."""
        gathered = []
        for provenance, found in self._each(hook, arguments, collecting=True):
            for one in found:
                if accept(one):
                    gathered.append(one)
                else:
                    self.note(provenance, hook, TypeError(f"expected {expected}, got {shown(one)}"))
        return gathered

    def find_home(self, target: Target, *, far: bool = False) -> Optional[Target]:
        """Return the target under which the object at ``target`` is defined; see the hook ``find_home``."""
        asked = {"target": target, "far": far}
        return self.first("find_home", lambda home: isinstance(home, Target), "a patchcore Target", **asked)  # type: ignore[no-any-return]

    def find_holders(self, originals: Iterable[Any], ours: Iterable[Any]) -> Sequence[tuple[Any, str, str]]:
        """Return the places that still hold originals; see the hook ``find_holders``."""
        expected = "a list of (original, kind, place)"
        asked = {"originals": originals, "ours": ours}
        return self.first("find_holders", lambda found: isinstance(found, (list, tuple)), expected, **asked) or ()

    def admit_concerned(self, candidates: Sequence[Candidate]) -> None:
        """Add the implementations whose ``hookimpl(concerns=...)`` is true of these patches; they stay added."""
        for entry in tuple(self._unconcerned):
            name, hook, function = entry
            with self._noting(self._provenance_of(name), hook):
                if function.patchcore_concerns(candidates):
                    self._unconcerned.remove(entry)
                    self._known.setdefault(f"{name}.{hook}", self._provenance_of(name))
                    self.add(_Concerned(hook, function), f"{name}.{hook}")

    def sections(self, hook: str = "report_sections", **arguments: Any) -> tuple[Section, ...]:
        """Return the sections of all plugins; see the hooks ``report_sections`` and ``list_sections``."""
        expected = "patchcore.Section objects"
        return tuple(self.gather(hook, lambda section: isinstance(section, Section), expected, **arguments))

    def load(self, declared: Iterable[tuple[Provenance, Loader]]) -> None:
        """Load plugins together, so that each may implement hooks that another one brings.

        Args:
            declared: each plugin with the function that loads it. A plugin whose function raises is a problem.
        """
        loaded = [found for found in (self._load(provenance, load) for provenance, load in declared) if found]
        for provenance, plugin in [found for found in loaded if self._add_hookspecs(*found)]:
            self._admit(provenance, plugin)

    def _provenance_of(self, name: str) -> Provenance:
        return self._known.get(name) or Provenance(name)

    def note(self, provenance: Provenance, where: str, error: BaseException) -> None:
        """Remember that a plugin failed, and log it."""
        from patchcore.stdlib import traceback

        text = _traceback(error)
        if not text and provenance.is_built_in:  # a fault of patchcore itself
            text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        problem = Problem(
            provenance.plugin, where, describe_error(error), provenance.distribution, provenance.version, text
        )
        self.problems.append(problem)
        logger().warning("%s", f"{problem}\n{text}".rstrip())

    @contextlib.contextmanager
    def _noting(self, provenance: Provenance, where: str) -> Iterator[None]:
        """End the block if it raises, and note that the plugin has failed."""
        try:
            yield
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # also sys.exit(): a plugin may end itself, not the program
            self.note(provenance, where, error)

    def _load(self, provenance: Provenance, load: Loader) -> Optional[tuple[Provenance, Any]]:
        module = (provenance.value or provenance.plugin).partition(":")[0]
        PLUGIN_MODULES.add(module.partition(".")[0] if provenance.distribution else module)
        with self._noting(provenance, "load"):
            return provenance, load()
        return None

    def _add_hookspecs(self, provenance: Provenance, plugin: Any) -> bool:
        """Add the hooks that a plugin brings for other plugins; return false if that fails."""
        bring = getattr(plugin, _BRINGING, None)
        if bring is None or self.manager.parse_hookimpl_opts(plugin, _BRINGING) is None:
            return True
        with self._noting(provenance, _BRINGING):
            specifications = bring()
            for manager in (self.manager, self._wrappers):
                manager.add_hookspecs(specifications)
            return True
        return False

    def _admit(self, provenance: Provenance, plugin: Any) -> None:
        name = provenance.plugin
        with self._noting(provenance, "load"):
            if name in self._known:
                taken = self._known[name]
                raise ValueError(f"the plugin name {name!r} is already used by {taken}; rename one of the entry points")
            self.add(plugin, name)
            self._known[name] = self.provenances[name] = provenance._replace(file=_file_of(plugin))

    def add(self, plugin: Any, name: str) -> None:
        """Add an object with further hooks; nothing happens if there is one with this name.

        Raises:
            ValueError: it implements a hook that does not exist.
        """
        if self.manager.has_plugin(name):
            return
        earlier = self.manager.get_name(plugin)
        if earlier is not None:
            raise ValueError(f"it is loaded already, as plugin {earlier!r}")
        self._extensions = None
        try:
            try:
                self.manager.register(plugin, name)
            except pluggy.PluginValidationError as error:
                raise ValueError(self._with_arguments(str(error))) from None
            hooks = self.manager.get_hookcallers(plugin) or []
            self._unconcerned += ((name, hook, function) for hook, function in self.manager.take_conditional())
            self._wrappers.take_conditional()
            for hook in hooks:
                if not hook.has_spec() and not all(found.optionalhook for found in hook.get_hookimpls()):
                    known = [name for name, caller in vars(self.manager.hook).items() if caller.has_spec()]
                    raise ValueError(f"patchcore has no hook {hook.name!r}{did_you_mean(hook.name, known)}")
            if any(_is_wrapper(implementation.opts) for hook in hooks for implementation in hook.get_hookimpls()):
                self._wrappers.register(plugin, name)
        except BaseException:
            if self.manager.get_plugin(name) is plugin:
                self.manager.unregister(plugin)
            raise

    def _with_arguments(self, message: str) -> str:
        """Return pluggy's message about a wrong implementation of a hook, with the arguments that the hook has."""
        found = re.search(r"for hook '(\w+)'", message)
        spec = getattr(self.manager.hook, found.group(1)).spec if found else None
        names = "" if spec is None else f"; its arguments are: {', '.join(spec.argnames) or 'none'}"
        return f"{' '.join(message.split())}{names}"

    def _call(self, hook: str, implementation: Any, arguments: dict[str, Any]) -> Any:
        """Call one implementation inside the hook wrappers. A wrapper that fails is noted and removed."""
        caller, function = getattr(self._wrappers.hook, hook), implementation.function
        while True:
            try:
                return caller.call_extra([function], arguments)
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                for wrapper in _at_fault(error, function, caller.get_hookimpls()):
                    self.note(self._provenance_of(wrapper.plugin_name), hook, error)
                    self._wrappers.unregister(wrapper.plugin)
                    break
                else:
                    raise


class _Concerned:
    """One implementation that a plugin has marked with ``concerns=``, as a plugin."""

    def __init__(self, hook: str, function: Any) -> None:
        setattr(self, hook, function)


class _Manager(pluggy.PluginManager):
    """Skips the names of a module that cannot be hooks: pluggy would spend most of its time on them.

    Implementations with ``concerns=`` are skipped as well, until :class:`Plugins` adds them by themselves.
    """

    def __init__(self, project_name: str) -> None:
        super().__init__(project_name)
        self._conditional: list[tuple[str, Any]] = []

    def take_conditional(self) -> list[tuple[str, Any]]:
        """Return the hooks and implementations with ``concerns=`` of the plugin that was registered last."""
        found, self._conditional = self._conditional, []
        return found

    def parse_hookimpl_opts(self, plugin: Any, name: str) -> Any:
        if not _may_be_hook(plugin, name, "patchcore_impl"):
            return None
        options = super().parse_hookimpl_opts(plugin, name)
        function = None if options is None or type(plugin) is _Concerned else getattr(plugin, name)
        if hasattr(function, "patchcore_concerns"):
            self._conditional.append((name, function))
            return None
        return options

    def parse_hookspec_opts(self, brought: Any, name: str) -> Any:
        return super().parse_hookspec_opts(brought, name) if _may_be_hook(brought, name, "patchcore_spec") else None


def _may_be_hook(plugin: Any, name: str, mark: str) -> bool:
    if type(plugin) is not ModuleType:
        return True
    value = plugin.__dict__.get(name)  # pluggy takes functions and methods only
    return mark in value.__dict__ if type(value) is FunctionType else type(value) is MethodType


class _Wrappers(_Manager):
    """The hook wrappers among the plugins' implementations."""

    def parse_hookimpl_opts(self, plugin: Any, name: str) -> Any:
        options = super().parse_hookimpl_opts(plugin, name)
        return options if options is not None and _is_wrapper(options) else None


def _traceback(error: BaseException) -> str:
    """Return the traceback of an error of a plugin, without lines of patchcore before and after those of the plugin.

    Empty if the plugin has no line in it: it returned a value that patchcore refuses, and the message names it.
    """
    from patchcore.stdlib import traceback

    shown = traceback.TracebackException(type(error), error, error.__traceback__)
    frames = list(shown.stack)
    theirs = [i for i, frame in enumerate(frames) if not frame.filename.startswith(_OURS)]
    if not theirs:
        return ""
    # an error of patchcore itself is shown to the end; a PatchcoreError is one of the plugin
    end = theirs[-1] + 1 if isinstance(error, PatchcoreError) else len(frames)
    lines = [(frame.filename, frame.lineno or 0, frame.name, frame.line) for frame in frames[theirs[0] : end]]
    shown.stack = traceback.StackSummary.from_list(lines)  # without a line of carets below each
    return "".join(shown.format())


def _is_writer(item: tuple[Any, Any]) -> bool:
    kind, factory = item
    is_kind = isinstance(kind, str) or (isinstance(kind, type) and issubclass(kind, Change))
    return is_kind and (isinstance(factory, str) or callable(factory))


def _is_wrapper(options: Any) -> bool:
    return bool(options.get("wrapper") or options.get("hookwrapper"))


def _at_fault(error: BaseException, function: Any, wrappers: Sequence[Any]) -> list[Any]:
    """Return the wrappers that raised ``error``, judged by the innermost line; none if ``function`` raised it."""
    by_code: dict[Optional[CodeType], list[Any]] = {_code(wrapper.function): [wrapper] for wrapper in wrappers}
    by_code[_code(function)] = []
    from patchcore.stdlib import traceback

    found = list(wrappers)  # if no line is theirs, pluggy has raised, because a wrapper does not yield exactly once
    for frame, _ in traceback.walk_tb(error.__traceback__):
        found = by_code.get(frame.f_code, found)
    return found


def _code(function: Any) -> Optional[CodeType]:
    return getattr(function, "__code__", None)


def _builtin(name: str, group: str) -> tuple[Provenance, Loader]:
    module = f"patchcore.builtin.{name}"
    return Provenance(f"patchcore.{name}", value=module, group=group), partial(importlib.import_module, module)


def _refuse_unknown(without: Sequence[str], known: Sequence[Provenance]) -> None:
    names = [provenance.plugin for provenance in known]
    for name in without:
        if name not in names:
            raise UnknownName(f"{_WITHOUT}{name}: there is no plugin {name!r}{did_you_mean(name, names)}")


def _allow(
    installed: Sequence[tuple[Provenance, Loader]],
    allowed: Optional[Sequence[str]],
    without: Sequence[str],
    denied: list[Provenance],
) -> list[tuple[Provenance, Loader]]:
    names = {provenance.plugin for provenance, _ in installed if provenance.plugin not in without}
    for name in allowed or ():
        if name in without:
            raise UnknownName(
                f"the plugin {name!r} is both included and excluded by {_WITHOUT}{name}; remove one of these"
            )
        if name not in names:
            known = ", ".join(sorted(names)) or "none"
            hint = did_you_mean(name, names)
            meant = next((provenance.plugin for provenance, _ in installed if provenance.is_meant_by(name)), None)
            if meant is not None:
                hint = f"; write --plugin {meant}, the name of that plugin"
            elif name.replace(".", "").isidentifier() and find_module(name):
                hint = (
                    f"; {name} is a module: -p {name} loads the patches of a module, --plugin names installed plugins"
                )
            raise UnknownName(f"no plugin {name!r} is installed (installed: {known}){hint}")
    chosen = names if allowed is None else names.intersection(allowed)
    denied += (provenance for provenance, _ in installed if provenance.plugin not in chosen)
    return [item for item in installed if item[0].plugin in chosen]


def _declares_plugins(distribution: Distribution) -> bool:
    try:
        text = distribution.read_text("entry_points.txt") or ""
        return any(group in text for group in (PATCHES, SUPPORT, COMMANDS))
    except (OSError, ValueError):
        return False


def _raise(error: BaseException) -> None:
    raise error


def _import_local(module: LocalModule) -> Any:
    if module.directory is None:
        return importlib.import_module(module.name)
    sys.path.insert(0, module.directory)
    try:
        return importlib.import_module(module.name)
    finally:
        sys.path.remove(module.directory)
        if module.directory not in sys.path:
            sys.path.append(module.directory)  # patches may import other modules of this folder later


def _file_of(plugin: Any) -> Optional[str]:
    try:
        return inspect.getfile(plugin if inspect.ismodule(plugin) or inspect.isclass(plugin) else type(plugin))
    except TypeError:
        return None
