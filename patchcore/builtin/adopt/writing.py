"""Writes the plugin: its package with the declarations, its test, and its description."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator

from patchcore.builtin.adopt.adoption import MAKES, Adopted, Adoption, Group
from patchcore.builtin.new.about import PluginMetadata
from patchcore.builtin.new.names import PluginNames
from patchcore.builtin.new.templates import render_package, render_pyproject
from patchcore.objects.printable import counted

__all__ = ["adopted_project"]

#: How long a line of a change may be; a longer one is divided.
_LINE = 100

_PLUGIN = '''"""The patches that {program} makes, found by ``patchcore adopt``."""

from __future__ import annotations

import patchcore as pc

{patches}

PATCHES = (
{names}
)


@pc.hookimpl
def register_patches() -> tuple[pc.Patch, ...]:
    """Return the patches, in the order in which they apply."""
    return PATCHES
'''

_TEST = '''"""Every patch is applied whole, and reverted."""

from __future__ import annotations

import importlib

import pytest
from {package}.plugin import PATCHES

import patchcore as pc


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.name)
def test_is_applied_and_reverted(patch: pc.Patch) -> None:
    patcher = pc.Patcher({patches})
    with patcher:
{reach}        for change in patch.changes:
            importlib.import_module(change.target.module)
        record = patcher.report()[patch.name]
        if record.status == "skipped":
            pytest.skip(record.reason)
        for change in record.changes:  # a name that is added exists if the lines that added it have run here
            assert change.status == "applied" or change.reason.endswith(" already exists"), str(change)
    assert not patcher.applied
'''


def adopted_project(adoption: Adoption, names: PluginNames, about: PluginMetadata, program: str) -> dict[str, str]:
    """Return the files of the plugin: texts by path, relative to the project's folder.

    Args:
        adoption: at least one group.
        names: of the plugin.
        about: its author, licence and source.
        program: whose patches they are, for texts.
    """
    program = textwrap.shorten(program, 60, placeholder=" ...")
    constants = [_constant(group.name) for group in adoption.groups]
    patches = "\n".join(_patch(constant, group, names) for constant, group in zip(constants, adoption.groups))
    plugin = _PLUGIN.format(
        program=program, patches=patches.rstrip(), names="\n".join(f"    {name}," for name in constants)
    )
    return {
        "pyproject.toml": render_pyproject(names, f"Patches of {program}, as a patchcore plugin", about),
        "README.md": "\n".join(_readme(adoption, names, program)),
        f"{names.package}/__init__.py": render_package(names),
        f"{names.package}/py.typed": "",
        f"{names.package}/plugin.py": plugin,
        "tests/test_plugin.py": _TEST.format(
            package=names.package,
            reach="".join(map(_reach, dict.fromkeys(group.phase for group in adoption.groups))),
            # libraries may not be importable without the modules that the program makes
            patches="PATCHES" if any(group.modules for group in adoption.groups) else "[patch]",
        ),
    }


def _reach(phase: str) -> str:
    """Return the line of the test that reaches a phase."""
    when, _, module = phase.partition(":")
    if when in ("after", "before") and module:
        return f"        importlib.import_module({json.dumps(module)})\n"
    return f"        pc.reach({json.dumps(phase)})\n" if phase else ""


def _constant(name: str) -> str:
    constant = re.sub(r"\W", "_", name).upper()
    return constant if constant.isidentifier() else f"PATCH_{constant}"


def _patch(constant: str, group: Group, names: PluginNames) -> str:
    lines = [f"{constant} = pc.Patch("]
    lines.append(f"    {json.dumps(f'{names.plugin}.{group.name}')},")
    lines.append("    [")
    lines += [f"        pc.DummyImport({json.dumps(name)})," for name in group.modules]
    lines += [line for change in group.changes for line in _change(change, '"always"' if group.modules else "True")]
    lines.append("    ],")
    summary = f"{counted(len(group.changes), 'place')} that {group.maker} patched"
    if group.modules:
        summary = f"{counted(len(group.modules), 'module')} that {group.maker} made"
    lines.append(f"    summary={json.dumps(summary)},")
    if group.requires:
        lines.append(
            f"    requires={json.dumps(list(group.requires))},  # seen on these; widen it where you have looked"
        )
    if any(change.misfit for change in group.changes):
        lines.append('    signatures="any",  # some do not accept every call of their target, see README.md')
    if group.after:
        after = [f"{names.plugin}.{name}" for name in group.after]
        lines.append(f"    after={json.dumps(after)},  # in this order the program applied them")
    if group.phase:
        lines.append(f"    phase={json.dumps(group.phase)},")
    lines.append(")")
    return "\n".join(lines)


def _change(change: Adopted, create: str) -> Iterator[str]:
    target, replacement = json.dumps(change.target), change.replacement
    if replacement.endswith(MAKES):
        arguments = [target, f"factory={json.dumps(replacement[: -len(MAKES)])}"]
    else:
        arguments = [target, json.dumps(replacement), *([f"create={create}"] if change.adds else [])]
    line = f"        pc.Replace({', '.join(arguments)}),"
    if len(line) <= _LINE:
        yield line
    else:
        yield from ("        pc.Replace(", *(f"            {each}," for each in arguments), "        ),")


def _readme(adoption: Adoption, names: PluginNames, program: str) -> Iterator[str]:
    yield f"# {names.distribution}"
    yield ""
    yield f"The patches that {program} made by itself, declared. Take them out of the program; these lines made them:"
    yield ""
    written: dict[str, str] = {}
    for group in adoption.groups:
        written.update(dict.fromkeys(group.modules, ""))
        written.update((change.target, change.written) for change in group.changes)
    for target, place in written.items():
        yield f"- `{target}`: {place or 'a line that the audit has not seen'}"
    for target, home in adoption.followers.items():
        yield f"- `{target}`: follows `{home}`, and needs no declaration"
    misfits = {change.target: change.misfit for group in adoption.groups for change in group.changes if change.misfit}
    if misfits:
        yield ""
        yield "New code that does not accept every call of its target:"
        yield ""
        for target, text in misfits.items():
            yield f"- `{target}`: {text}"
    if adoption.conflicts:
        yield ""
        yield "Conflicts in the program, which the plugin has as they were; decide what is meant:"
        yield ""
        for target, text in adoption.conflicts.items():
            yield f"- `{target}`: {text}"
    if adoption.left:
        yield ""
        yield "Left in the program:"
        yield ""
        for left in adoption.left:
            yield f"- `{left.target}`: {left.why}"
    yield ""
