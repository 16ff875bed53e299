"""A session: the settings and options of ``patchcore run``, passed to every process of the run in its environment."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import patchcore_startup
from patchcore.builtin.run.compat import chosen_compat
from patchcore.builtin.run.roles import Engine, registered_engines
from patchcore.errors import SettingsError
from patchcore.patcher import Patcher
from patchcore.planning.conditions import OFF
from patchcore.planning.plan import Plan
from patchcore.settings import Choice, Given, LocalModule, Settings

__all__ = ["RUN_ID", "LoadedPlugin", "Session", "settings_of"]

#: Version of the description in the environment; a process whose patchcore has another one cannot take part.
_PROTOCOL = 2

#: Environment variable that names the run, for one that is launched in several places: the nodes of a job.
RUN_ID = "PATCHCORE_RUN_ID"


class LoadedPlugin(NamedTuple):
    """A plugin that the launcher has loaded: every process of the run is expected to have it.

    Args:
        name: of the entry point, or of the local module.
        distribution, version: of the plugin, as text; empty for local modules.
    """

    name: str
    distribution: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} ({self.distribution} {self.version})" if self.distribution else self.name


class Session(NamedTuple):
    """A run, as the processes that take part in it know it.

    Args:
        run: the id of the run, which reports have.
        launcher: process id of ``patchcore run``, which becomes the program's.
        settings: the settings for every process, wherever it runs.
        arguments: those of ``patchcore run``, for the options that plugins have added.
        plugins: the plugins that the launcher has loaded.
        libraries: the top-level modules that patches are for, and that they need.
        problems: the problems of plugins that the launcher has shown.
        engines: that may start processes of the run.

    Examples:
        >>> import patchcore as pc
        >>> from patchcore.plugin import Session
        >>> class Plugin:
        ...     @pc.hookimpl
        ...     def start_process(self, patcher, session):
        ...         print(f"run {session.run}")
        >>> Plugin().start_process(None, Session("3f2a", 4711, pc.Settings()))
        run 3f2a
    """

    run: str
    launcher: int
    settings: Settings
    arguments: tuple[str, ...] = ()
    plugins: tuple[LoadedPlugin, ...] = ()
    libraries: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    engines: tuple[Engine, ...] = ()

    @classmethod
    def of(cls, patcher: Patcher, plan: Plan, arguments: Iterable[str] = ()) -> Session:
        """Return a new session for the patches of ``patcher``.

        Args:
            patcher: made by discovery; patches that were handed to it as objects stay in this process.
            plan: of that Patcher.
            arguments: those of ``patchcore run``.
        """
        loaded = (LoadedPlugin(p.plugin, p.distribution or "", p.version or "") for p in patcher.plugins.installed)
        run = os.environ.get(RUN_ID) or os.urandom(4).hex()
        wanted = [entry for entry in plan if entry.verdict != OFF]
        libraries = {target.root for entry in wanted for target in entry.targets}
        libraries |= {name.partition(".")[0] for entry in wanted for name in entry.patch.needs}
        libraries |= {
            module for compat in chosen_compat(patcher.settings, patcher.plugins) for module in compat.modules
        }
        words = {word for entry in wanted for change in entry.patch.changes for word in change.script_words}
        libraries -= {"*"}
        libraries |= {f"{patchcore_startup.WORD}{word}" for word in words}
        libraries.discard("patchcore")  # profiling and brake load the modules that they patch
        problems = tuple(map(str, patcher.plugins.problems))
        return cls(
            run,
            os.getpid(),
            patcher.settings,
            tuple(arguments),
            tuple(loaded),
            tuple(sorted(libraries)),
            problems,
            registered_engines(patcher.plugins),
        )

    @classmethod
    def parse(cls, text: str) -> Session:
        """Return the session that :meth:`environment` described.

        Raises:
            SettingsError: the text is something else, or comes from another version of patchcore.
        """
        try:
            protocol = _protocol_of(text)
            if protocol == _PROTOCOL:
                view = patchcore_startup.decode_session(text)
                return cls(
                    run=view["run"],
                    launcher=view["launcher"],
                    settings=settings_of(view["settings"]),
                    arguments=tuple(view["arguments"]),
                    plugins=tuple(LoadedPlugin(*plugin) for plugin in view["plugins"]),
                    libraries=tuple(view["libraries"]),
                    problems=tuple(view["problems"]),
                    engines=tuple(
                        Engine(name, tuple(workers), tuple(daemons)) for name, workers, daemons in view["engines"]
                    ),
                )
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise SettingsError(
                f"{patchcore_startup.SESSION} is not what patchcore run wrote ({type(error).__name__}: {error}); "
                f"unset it, patchcore run sets it"
            ) from error
        raise SettingsError(
            f"patchcore run of another version started this process (protocol {protocol}, here {_PROTOCOL}); install "
            f"the same patchcore for every Python of the run"
        )

    def encode(self) -> str:
        """Return the description of the run for the environment of a process: ASCII without quotes, spaces or commas.

        Examples:
            >>> import patchcore as pc
            >>> from patchcore.plugin import Session
            >>> session = Session("3f2a", 4711, pc.Settings())
            >>> Session.parse(session.encode()) == session
            True
        """
        described = {**self._asdict(), "settings": self.settings._asdict()}
        # A Python without patchcore starts this one to find out the distributions to install.
        described["python"] = sys.executable
        version = f"{_PROTOCOL}{patchcore_startup.STRICT if self.settings.on_failure == 'raise' else ''}"
        return patchcore_startup.encode_session(version, [str(self.launcher), *self.libraries], described)

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return ``environ`` with the variables by which every Python started with it takes part in the run."""
        path = environ.get("PYTHONPATH")
        entries = [] if not path else [entry for entry in path.split(os.pathsep) if entry != patchcore_startup.SITE]
        return {
            **environ,
            patchcore_startup.SESSION: self.encode(),
            "PYTHONPATH": os.pathsep.join([patchcore_startup.SITE, *entries]),
        }


def _protocol_of(text: str) -> int:
    """Return the version of a description; the first version was JSON."""
    if text.startswith("{"):
        return int(json.loads(text)["protocol"])
    return int(text.partition(":")[0].rstrip(patchcore_startup.STRICT))


def settings_of(view: Mapping[str, Any]) -> Settings:
    """Return the settings that ``Settings._asdict`` described; tuples may have become lists in JSON.

    Raises:
        TypeError, KeyError, ValueError: ``view`` does not describe settings.
    """
    plugins = view["plugins"]
    return Settings(
        **{
            **view,
            "plugins": None if plugins is None else tuple(plugins),
            "modules": tuple(LocalModule(*module) for module in view["modules"]),
            "choices": tuple(Choice(*choice) for choice in view["choices"]),
            "values": {k: tuple(v) if isinstance(v, list) else v for k, v in view["values"].items()},
            "given": tuple(Given(*given) for given in view["given"]),
        }
    )
