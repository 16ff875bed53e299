"""Environment, versions and settings of a run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from patchcore.builtin.html import Content, Element, code, fold, h, section, table
from patchcore.builtin.page.model import Run
from patchcore.objects.printable import counted

__all__ = ["environment_section", "options_section"]

#: What is the same in most processes, with its name for people.
_FACTS = {
    "python": "Python",
    "executable": "Interpreter",
    "host": "Host",
    "directory": "Directory",
    "ranks": "Ranks expected",
}


def environment_section(run: Run) -> Element:
    """Return the section: interpreter, hosts, libraries, plugins, files."""
    manifest = run.processes[0].content["manifest"]
    facts: list[tuple[Content, Content]] = [
        ("patchcore", _values(run, lambda content: content["manifest"]["patchcore"]))
    ]
    facts += (
        (name, _values(run, lambda content, key=key: content["environment"].get(key, "")))
        for key, name in _FACTS.items()
    )
    names = dict.fromkeys(name for process in run.processes for name in process.content["manifest"]["libraries"])
    libraries = [
        (
            code(name),
            _values(run, lambda content, name=name: content["manifest"]["libraries"].get(name) or "not installed"),
        )
        for name in sorted(names)
    ]
    counts: dict[tuple[str, str], int] = {}
    for patch in run.patches:
        counts[patch.plugin, patch.origin] = counts.get((patch.plugin, patch.origin), 0) + 1
    plugins = [(code(plugin), origin, str(count)) for (plugin, origin), count in counts.items()]
    files = [(code(name), code(value or "not found")) for name, value in manifest["files"].items()]
    return section(
        "environment",
        "Environment",
        table("Where it ran", ("Fact", "Value"), facts, class_="facts"),
        table("Libraries that patches are for", ("Library", "Version"), libraries) if libraries else None,
        table("Plugins", ("Plugin", "Distribution", "Patches"), plugins, numeric=1) if plugins else None,
        fold(
            counted(len(files), "file") + " that patches change, with their fingerprints",
            table("Files, as the first process found them", ("Module", "Fingerprint"), files),
        )
        if files
        else None,
    )


def options_section(run: Run) -> Element:
    """Return the section: what ``patchcore run`` was told, settings with their source, options of patches."""
    commands = dict.fromkeys(tuple(process.content.get("arguments", ())) for process in run.processes)
    settings = dict.fromkeys(
        (decided["name"], decided["value"], decided["origin"])
        for process in run.processes
        for decided in process.content.get("settings", ())
    )
    options = [
        (code(patch.name), code(key), code(value)) for patch in run.patches for key, value in patch.options.items()
    ]
    return section(
        "options",
        "Options",
        [h("p", code(f"patchcore run {shlex.join(command)}")) for command in commands if command],
        table("Settings, and who decided", ("Setting", "Value", "From"), [(n, code(v), o) for n, v, o in settings])
        if settings
        else h("p", "No setting was changed."),
        table("Options of patches", ("Patch", "Option", "Value"), options) if options else None,
    )


def _values(run: Run, value: Any) -> Content:
    """Return a value that processes have, and which have it where they do not have the same."""
    groups: dict[str, list[Any]] = {}
    for process in run.processes:
        content: Mapping[str, Any] = process.content
        groups.setdefault(str(value(content)), []).append(process)
    if len(groups) == 1:
        return code(next(iter(groups)))
    return [h("div", code(text), " on ", run.who(group)) for text, group in groups.items()]
