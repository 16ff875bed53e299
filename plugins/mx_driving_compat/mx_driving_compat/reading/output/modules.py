"""Writes the declarations of a ``patch.py`` as the modules of a plugin: plain code, for ``ruff format`` to lay out."""

from __future__ import annotations

import json
import keyword
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mx_driving_compat.reading.declarations import Code, Construction, Migration, PatchDeclaration, Remark
from patchcore.plugin import PluginNames

__all__ = ["functions_module", "plugin_module", "plugin_test"]

#: A value or a call that is longer gets a line for each of its parts, a comment further lines.
_WIDTH = 80
#: The limit of the new project's settings for ruff.
_LINE_LENGTH = 120
_HEAD = '''\
"""The patches of this plugin, which its entry point names. Written from {file} by `patchcore new`."""

from __future__ import annotations
'''
_LATER = '''\
def _find(name: str) -> Any:
    """Return what replacements.py calls ``name``; it is imported now, and with it the libraries it imports."""
    from {package} import replacements

    return attrgetter(name)(replacements)
'''
_LATER_CALL = '''\
def _later(name: str) -> Callable[..., Any]:
    """Return a function that calls ``name`` of replacements.py."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return _find(name)(*args, **kwargs)

    return call
'''
_WRAPPED = '''\
def _wrapped(wrapper: str, replacement: str) -> Callable[[Any], Any]:
    """Return a factory of ``wrapper(replacement)``, both of replacements.py."""

    def make(original: Any) -> Any:
        return _find(wrapper)(_find(replacement))

    return make
'''
_REGISTER = '''\
@pc.hookimpl
def register_patches() -> list[pc.Patch]:
    """Return the patches, in the order in which they apply."""
    return {listed}
'''
_FUNCTIONS = '''\
"""What plugin.py puts in classes, as functions: taken from its class, a static method would stay one.

As soon as they are functions of replacements.py, this module can go.
"""

from __future__ import annotations

from {package} import replacements

'''
_TEST = '''\
"""The plugin declares what it is to declare, and what it declares is there."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import patchcore as pc
import pytest

from {package} import plugin

PATCHES = {patches}
REFERENCES = {references}
REPLACEMENTS = Path(plugin.__file__).with_name("replacements.py")


def defined_names() -> set[str]:
    """Return the names that replacements.py defines, without importing it."""
    names = set()
    for node in ast.walk(ast.parse(REPLACEMENTS.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def test_every_patch_is_registered() -> None:
    assert [patch.name for patch in plugin.register_patches()] == PATCHES


@pytest.mark.parametrize("patch", plugin.register_patches(), ids=str)
def test_targets_have_modules(patch: pc.Patch) -> None:
    assert all(change.target.module for change in patch.changes)


@pytest.mark.parametrize("reference", REFERENCES)
def test_replacements_are_there(reference: str) -> None:
    assert reference.partition(".")[0] in defined_names()


def test_listing_imports_no_library() -> None:
    code = "import sys, {package}.plugin; print('{package}.replacements' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
'''


def plugin_module(migration: Migration, names: PluginNames, file: str) -> str:
    """Return ``plugin.py``.

    Args:
        migration: the declarations that were read.
        names: of the plugin.
        file: name of the file that was read.
    """
    variables = _variables(migration.patches)
    declarations = [_declaration(patch, variables[patch.name], file) for patch in migration.patches]
    helpers = [helper.format(package=names.package) for helper in _helpers("".join(declarations))]
    head = _HEAD.format(file=file) + "\n"
    if helpers:
        head += "from operator import attrgetter\nfrom typing import Any, Callable\n\n"
    head += "import patchcore as pc\n"
    register = _REGISTER.format(listed=_value([Code(name) for name in variables.values()], 4))
    # ruff's rule for imports wants one empty line before a constant, and two before a function.
    start = [head, *helpers] if helpers else ["\n".join([head, *declarations[:1]])]
    rest = declarations if helpers else declarations[1:]
    return _with_excuses("\n\n".join([*start, *rest, register]))


def functions_module(migration: Migration, names: PluginNames) -> str:
    """Return ``functions.py``."""
    lines = [f"{name} = replacements.{reference}" for name, reference in migration.functions.items()]
    return _FUNCTIONS.format(package=names.package) + "\n".join(lines) + "\n"


def plugin_test(migration: Migration, names: PluginNames) -> str:
    """Return the test of the plugin."""
    references = sorted({root for patch in migration.patches for root in _references(patch, migration, names)})
    return _TEST.format(
        package=names.package,
        patches=_value([patch.name for patch in migration.patches], 0),
        references=_value(references, 0),
    )


def _references(patch: PatchDeclaration, migration: Migration, names: PluginNames) -> Iterable[str]:
    for change in patch.changes:
        values = [*change.arguments, *change.keywords.values()] if isinstance(change, Construction) else []
        for value in values:
            text = value.text if isinstance(value, Code) else value if isinstance(value, str) else ""
            module, _, name = text.partition(":")
            if module == f"{names.package}.replacements":
                yield name
            elif module == f"{names.package}.functions":
                yield migration.functions[name]
            elif isinstance(value, Code):
                yield from re.findall(r'"([^"]+)"', text)


def _variables(patches: Sequence[PatchDeclaration]) -> dict[str, str]:
    """Return the name of a constant for each patch, by the patch's name."""
    taken: set[str] = set()
    variables = {}
    for patch in patches:
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", patch.name)
        plain = re.sub(r"\W+|_+", "_", words).strip("_").upper() or "PATCH"
        plain = plain if plain.isidentifier() and not keyword.iskeyword(plain) else f"PATCH_{plain}"
        name, number = plain, 1
        while name in taken:
            number += 1
            name = f"{plain}_{number}"
        taken.add(name)
        variables[patch.name] = name
    return variables


def _declaration(patch: PatchDeclaration, variable: str, file: str) -> str:
    lines = [f"# {file}:{patch.line}"]
    for what, advice in dict.fromkeys((note.what, note.advice) for note in patch.notes):
        lines += _comment(f"{what}: {advice}", 0)
    lines += [f"{variable} = pc.Patch(", f"    {_value(patch.name, 4)},"]
    if patch.changes:
        lines.append("    [")
        for change in patch.changes:
            if isinstance(change, Remark):
                lines += _comment(f"TODO {file}:{change.line}: {change.what}: {change.advice}", 8)
            else:
                lines.append(f"        {_call(change, 8)},")
        lines.append("    ],")
    lines += (f"    {name}={_value(value, 4)}," for name, value in patch.keywords.items())
    return "\n".join([*lines, ")", ""])


def _call(change: Construction, indent: int) -> str:
    arguments = [_value(value, indent + 4) for value in change.arguments]
    arguments += (f"{name}={_value(value, indent + 4)}" for name, value in change.keywords.items())
    return _bracketed(f"pc.{change.function}(", arguments, ")", indent)


def _value(value: Any, indent: int) -> str:
    """Return a literal; ``indent`` is that of the line on which it begins."""
    if isinstance(value, Code):
        return value.text
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return _bracketed("{", [f"{_value(k, 0)}: {_value(v, indent + 4)}" for k, v in value.items()], "}", indent)
    if isinstance(value, (list, tuple, set)) and value:
        parts = [_value(item, indent + 4) for item in value]
        if isinstance(value, list):
            return _bracketed("[", parts, "]", indent)
        if isinstance(value, set):
            return _bracketed("{", sorted(parts), "}", indent)  # in an order that does not change from run to run
        return _bracketed("(", parts, ")", indent) if len(value) > 1 else f"({parts[0]},)"
    return repr(value)


def _bracketed(opening: str, parts: Sequence[str], closing: str, indent: int) -> str:
    """Return the parts on one line if that is short, else a line for each."""
    line = f"{opening}{', '.join(parts)}{closing}"
    if not parts or (len(line) <= _WIDTH and "\n" not in line):
        return line
    space = " " * indent
    return "\n".join([opening, *(f"{space}    {part}," for part in parts), f"{space}{closing}"])


def _with_excuses(text: str) -> str:
    """Return the text with ``# noqa: E501`` on each line that a long literal makes too long."""
    return "".join(
        f"{line.rstrip()}  # noqa: E501\n" if len(line) > _LINE_LENGTH + 1 and " " in line.strip() else line
        for line in text.splitlines(keepends=True)
    )


def _comment(text: str, indent: int) -> list[str]:
    prefix = f"{' ' * indent}# "
    words = textwrap.TextWrapper(_LINE_LENGTH, initial_indent=prefix, subsequent_indent=prefix)
    words.break_long_words = words.break_on_hyphens = False
    return words.wrap(text)


def _helpers(body: str) -> list[str]:
    made = [text for name, text in (("_later(", _LATER_CALL), ("_wrapped(", _WRAPPED)) if name in body]
    return [_LATER, *made] if made else []
