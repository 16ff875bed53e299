"""Reads a ``patch.py`` for ``mx_driving.patcher`` 1.0 or 2.0 into the declarations of a plugin."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Union

from mx_driving_compat.predefined.table import find_entry
from mx_driving_compat.reading.calls.atomic import CONSTRUCTORS, AtomicReader, brief
from mx_driving_compat.reading.calls.classes import PatchClasses
from mx_driving_compat.reading.calls.configuration import Configuration
from mx_driving_compat.reading.calls.effects import effects
from mx_driving_compat.reading.calls.settings import Setting
from mx_driving_compat.reading.declarations import Construction, Migration, PatchDeclaration, Remark
from mx_driving_compat.reading.output.replacements import rewrite_imports, with_functions
from mx_driving_compat.reading.output.settings import settings_lines
from mx_driving_compat.reading.program.source import Source, line_of
from patchcore.plugin import PluginNames

__all__ = ["read_migration"]

#: The copy of the file imports the API from there.
_OWN_DISTRIBUTION = "mx-driving-compat"


def read_migration(path: Path, names: PluginNames) -> Migration:
    """Read the file ``path`` for a plugin called ``names``.

    Raises:
        SettingsError: it cannot be read, or is no Python.
    """
    source = Source.read(path)
    reader = AtomicReader(source, names)
    classes = PatchClasses(source, reader)
    configuration = Configuration(source, reader, classes)
    configuration.read()
    patches = stacked(uniquely_named(configuration.patches))
    text, unwritten = rewrite_imports(source)
    left = [*configuration.left, *unwritten, *effects(source), *_missed(source, classes.seen, configuration)]
    left += (remark for patch in patches for remark in patch.remarks)
    disabled = list(_disabled(configuration, patches))
    left += (item for item in disabled if isinstance(item, Remark))
    configuration.settings += (item for item in disabled if isinstance(item, Setting))
    notes = [*configuration.notes, *_once(note for patch in patches for note in patch.notes)]
    return Migration(
        patches=tuple(patches),
        provided=tuple(dict.fromkeys(configuration.provided)),
        settings=tuple(settings_lines(configuration.settings)),
        functions=dict(sorted(reader.functions.items())),
        left=tuple(_by_line(left)),
        notes=tuple(_by_line(notes)),
        distributions=tuple(sorted({*configuration.distributions, _OWN_DISTRIBUTION})),
        replacements=with_functions(text, reader.lambdas.values()),
    )


def uniquely_named(patches: Iterable[PatchDeclaration]) -> list[PatchDeclaration]:
    """Return the patches with valid names; a name that an earlier patch has gets a number."""
    taken: set[str] = set()
    made = []
    for patch in patches:
        plain = "".join(c if c.isalnum() or c in "_.+-" else "_" for c in patch.name) or "patch"
        name, number = plain, 1
        while name in taken:
            number += 1
            name = f"{plain}_{number}"
        taken.add(name)
        made.append(patch._replace(name=name))
    return made


def stacked(patches: list[PatchDeclaration]) -> list[PatchDeclaration]:
    """Return the patches with ``after=`` where two have the same target: the last one wins, as in the file."""
    writers: dict[str, str] = {}
    made = []
    for patch in patches:
        targets = list(_targets(patch))
        after = list(dict.fromkeys(writers[target] for target in targets if target in writers))
        conflicts = patch.keywords.get("conflicts", ())
        after = [name for name in after if name not in conflicts]
        made.append(patch._replace(keywords={**patch.keywords, "after": after}) if after else patch)
        writers.update(dict.fromkeys(targets, patch.name))
    return made


def _missed(source: Source, seen: set[int], configuration: Configuration) -> Iterator[Remark]:
    """Yield a remark for each call on the API that was not read."""
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call):
            continue
        if id(node) not in seen and source.imported(node.func) in CONSTRUCTORS:
            advice = "it is made where no patches() and no patcher was seen to take it; declare it by hand"
            yield Remark(line_of(node), brief(node), advice)
        elif id(node) not in configuration.seen and configuration.is_unmistakable(node):
            yield Remark(line_of(node), brief(node), "it stands where it could not be followed; declare it by hand")


def _disabled(configuration: Configuration, patches: list[PatchDeclaration]) -> Iterator[Union[Setting, Remark]]:
    """Yield settings for disabled patches, by their names in plugins, and remarks for names that no patch has."""
    known: dict[str, list[str]] = {}
    for patch in patches:
        for name in {patch.known_as, *patch.keywords.get("legacy_names", ())}:
            known.setdefault(name, []).append(patch.name)
        for target in _targets(patch):
            known.setdefault(target.replace(":", "."), []).append(target)
    used = {find_entry(provided.name) for provided in configuration.provided}
    for setting in configuration.disabled:
        names = list(known.get(setting.value, ()))
        predefined = find_entry(setting.value)
        if predefined is not None and (not names or predefined in used):
            configuration.distributions.add(predefined.distribution)
            names += predefined.patches
        if names:
            yield setting._replace(value=list(dict.fromkeys(names)))
        else:
            yield Remark(
                setting.line, f"disable {setting.value}", "no patch here is called so; nothing to do, or a typo"
            )


def _targets(patch: PatchDeclaration) -> Iterator[str]:
    return (str(c.arguments[0]) for c in patch.changes if isinstance(c, Construction) and c.function == "Replace")


def _once(remarks: Iterable[Remark]) -> list[Remark]:
    """Return the first of equal remarks."""
    first: dict[tuple[str, str], Remark] = {}
    for remark in _by_line(remarks):
        first.setdefault((remark.what, remark.advice), remark)
    return list(first.values())


def _by_line(remarks: Iterable[Remark]) -> list[Remark]:
    return sorted(dict.fromkeys(remarks), key=lambda remark: remark.line)
