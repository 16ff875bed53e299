"""The entry point: every hook of patchcore, each for one thing that the team wants."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from logging import WARNING
from pathlib import Path
from typing import Any, Optional

import patchcore as pc
from team_cluster.environment import SetEnvironment


class Audit:
    """What this process has to tell in the report: its run and job, what plugins contribute, how patches fare."""

    def __init__(self) -> None:
        self.run = self.job = ""
        self.statuses: dict[str, str] = {}
        self.contributed: dict[str, int] = {}


AUDIT = Audit()


# What the plugin brings: a patch, its settings, a kind of change.


@pc.hookimpl
def register_patches(settings: pc.Settings) -> list[pc.Patch]:
    """Set how many threads the library ``pointcloud`` starts, if the user says so."""
    threads = settings.get("threads")
    if threads is None:
        return []
    change = SetEnvironment("POINTCLOUD_THREADS", str(threads), before="pointcloud")
    return [pc.Patch("team_cluster.threads", change, summary="limits the threads of pointcloud")]


@pc.hookimpl
def register_settings() -> list[pc.Setting]:
    """Let users set the number of threads and the plugins they trust, in any source of settings."""
    from patchcore.plugin import check_names

    threads = pc.Setting("threads", _check_threads, affects_patches=True)
    return [threads, pc.Setting("trusted", check_names, default=())]


def _check_threads(value: Any, where: str, directory: Optional[Path]) -> int:
    if not str(value).isdecimal():  # environment and command line give texts, pyproject.toml gives numbers
        raise pc.SettingsError(f"{where} = {value!r}; expected a number of threads")
    return int(value)


@pc.hookimpl
def register_writers() -> dict[str, str]:
    """Name the writer of the new kind of change; nothing is imported before such a change is applied."""
    return {"team_cluster.environment:SetEnvironment": "team_cluster.writer:EnvironmentWriter"}


@pc.hookimpl
def registry_tables() -> list[str]:
    """Let targets name entries of the registries of pointcloud: ``pointcloud:MODELS["Voxels"]``."""
    return ["_entries"]


# What the plugin decides about patches, those of other plugins among them.


@pc.hookimpl
def register_guards() -> list[str]:
    """Have every write of every patch checked by the function below."""
    return ["team_cluster.plugin:refuse_lambda"]


def refuse_lambda(change: Any, slot: Any, below: Any, product: Any) -> None:
    """Refuse a lambda: the worker processes of the cluster get functions by pickle, which finds them by name."""
    if getattr(change.source, "__name__", "") == "<lambda>":
        raise pc.DeclarationError(f"{slot.name}: a lambda cannot be pickled; write a function with a name")


@pc.hookimpl
def register_marks() -> list[str]:
    """Have each wrapper marked by the function below."""
    return ["team_cluster.plugin:name_original"]


def name_original(function: Any, original: Any, is_method: bool) -> None:
    """Tell the sampler of the cluster under which name to count the time of a wrapper."""
    function.sampled_as = f"{original.__module__}.{original.__qualname__}"


@pc.hookimpl
def register_handovers() -> list[str]:
    """Have calls with a cloud of points on another machine go there, before any patch runs here."""
    return ["team_cluster.plugin:to_its_machine"]


def to_its_machine(original: Any) -> Optional[tuple[Any, Any]]:
    """Return what hands calls of a function of pointcloud over: clouds elsewhere have a method ``run_there``."""
    return (_is_elsewhere, _run_there) if getattr(original, "__module__", "") == "pointcloud" else None


def _is_elsewhere(*args: Any, **kwargs: Any) -> bool:
    return any(hasattr(value, "run_there") for value in (*args, *kwargs.values()))


def _run_there(function: Any, *args: Any, **kwargs: Any) -> Any:
    cloud = next(value for value in (*args, *kwargs.values()) if hasattr(value, "run_there"))
    return cloud.run_there(function, *args, **kwargs)


@pc.hookimpl
def remarks(entry: Any, thorough: bool) -> Iterator[pc.Remark]:
    """Have ``patchcore check`` fail for a patch that does not say what it is for, and ``strict`` refuse it."""
    if thorough and not entry.patch.summary:
        advice = "give the patch a summary="
        yield pc.Remark("it has no summary", level=WARNING, finding=True, advice=advice, topic="summary")


@pc.hookimpl
def find_home(target: pc.Target) -> Optional[pc.Target]:
    """Say that pointcloud.legacy takes its names from pointcloud, which it does in a way that no source shows."""
    return target._replace(module="pointcloud") if target.module == "pointcloud.legacy" else None


@pc.hookimpl
def before_apply(patch: pc.Patch, context: pc.Context) -> Optional[pc.Skip]:
    """Veto the patches of plugins that are not trusted, if the user names some that are."""
    trusted, plugin = context.settings.get("trusted"), context.provenance.plugin
    return pc.Skip(f"plugin {plugin} is not trusted") if trusted and plugin not in trusted else None


@pc.hookimpl
def after_collect(answers: Mapping[str, Sequence[Any]]) -> None:
    """Note for the report how many patches each plugin contributes."""
    AUDIT.contributed = {plugin: len(patches) for plugin, patches in answers.items() if patches}


@pc.hookimpl
def after_apply(patch: pc.Patch, outcome: Any) -> None:
    """Note the status of each patch for the report."""
    AUDIT.statuses[patch.name] = outcome.status


@pc.hookimpl
def on_failure(patch: pc.Patch, error: Exception, context: pc.Context) -> Optional[str]:
    """End the job if a patch of a trusted plugin fails; leave other patches to the policy of the user."""
    return "raise" if context.provenance.plugin in context.settings.get("trusted") else None


# What the plugin tells: reports, lists, a command, and a hook for other plugins.


@pc.hookimpl
def find_holders(originals: Iterable[Any]) -> list[tuple[Any, str, str]]:
    """Look at tables of modules only: the walk of the built-in plugin over all objects takes minutes in our jobs."""
    by_id = {id(original): original for original in originals}
    tables = [
        (f"{module}:{name}", table)
        for module, found in sys.modules.copy().items()
        for name, table in getattr(found, "__dict__", {}).copy().items()
        if type(table) is dict
    ]
    return [
        (by_id[id(value)], "table", f"{where}[{key!r}]")
        for where, table in tables
        for key, value in table.copy().items()
        if id(value) in by_id
    ]


@pc.hookimpl
def report_sections() -> list[pc.Section]:
    """Add the job and the statuses to the reports of this process."""
    data = [{"patch": name, "status": status} for name, status in AUDIT.statuses.items()]
    lines = (f"job {AUDIT.job or '(none)'}", *(f"{row['patch']}: {row['status']}" for row in data))
    whole = {"run": AUDIT.run, "job": AUDIT.job, "plugins": AUDIT.contributed, "patches": data}
    return [pc.Section("audit", lines, data=whole)]


@pc.hookimpl
def emulated_devices() -> list[str]:
    """Name the device of pointcloud on login nodes, which simulate it: ``patchcore verify`` takes no times there."""
    return ["pointcloud"] if os.environ.get("CLUSTER_NODE") == "login" else []


@pc.hookimpl
def register_hookspecs() -> Any:
    """Bring the hook ``contacts``, which other plugins implement."""
    from team_cluster import hookspecs

    return hookspecs


@pc.hookimpl
def contacts() -> list[str]:
    """Implement the plugin's own hook, as another plugin would."""
    return ["cluster@example.org"]


def _contacts(plugins: Any) -> tuple[str, ...]:
    asked = plugins.collect("contacts")
    return tuple(f"{provenance.plugin}: {', '.join(found)}" for provenance, found in asked)


@pc.hookimpl
def list_sections(plugins: Any) -> list[pc.Section]:
    """Show in ``patchcore list`` whom to ask."""
    return [pc.Section("contacts", _contacts(plugins))]


@pc.hookimpl
def register_commands(subparsers: Any) -> None:
    """Add the command ``patchcore contacts``; its arguments are added when it is used."""
    subparsers.add_parser("contacts", help="print whom to ask about patches", fill=_add_arguments)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    from patchcore.plugin import add_selection

    add_selection(parser)
    parser.set_defaults(command=_print_contacts)


def _print_contacts(options: argparse.Namespace) -> int:
    from patchcore.plugin import patcher_from

    print("\n".join(_contacts(patcher_from(options).plugins)))
    return 0


@pc.hookimpl
def advise(name: str, command: str) -> Optional[str]:
    """Say where to get a command of the team that is not part of this plugin."""
    return "ask cluster@example.org for team-queue" if name == "queue" and not command else None


# What the plugin does in a run.


@pc.hookimpl(optionalhook=True)
def register_run_options(parser: argparse.ArgumentParser) -> None:
    """Add two options that set settings, and one that only :func:`configure_run` reads."""
    from patchcore.plugin import SETTING_PREFIX

    group = parser.add_argument_group("cluster")
    group.add_argument("--threads", dest=f"{SETTING_PREFIX}threads", metavar="N", help="threads of pointcloud")
    trusted = f"{SETTING_PREFIX}trusted"
    group.add_argument("--trusted", action="append", dest=trusted, metavar="PLUGIN", help="veto patches of others")
    group.add_argument("--job", default="", metavar="NAME", help="the name of the job, for reports")


@pc.hookimpl(optionalhook=True)
def configure_run(options: argparse.Namespace) -> None:
    """Note the name of the job."""
    AUDIT.job = options.job


@pc.hookimpl(optionalhook=True)
def register_engines() -> list[Any]:
    """Describe the team's queue: its workers are started again when they die, so nothing is raised at their start."""
    from patchcore.plugin import Engine

    return [Engine("team-queue", workers=("team_queue/worker.py",), daemons=("team_queue/monitor.py",))]


@pc.hookimpl(optionalhook=True)
def start_process(patcher: pc.Patcher, session: Any) -> None:
    """Note the identifier of the run."""
    AUDIT.run = session.run
