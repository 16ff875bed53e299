"""Who made a patch: the lines that wrote it, as the watch on writes saw them, or else a guess from sources."""

from __future__ import annotations

import ast
import functools
import os
import sys
from collections.abc import Iterator, Sequence
from types import FunctionType
from typing import Any, NamedTuple, Optional

from patchcore.builtin.audit.copies import Difference
from patchcore.builtin.audit.owners import (
    PYTHON,
    UNKNOWN,
    file_of_module,
    owner_of_file,
    owner_of_module,
    same_distribution,
)
from patchcore.builtin.audit.rules import source_tree
from patchcore.builtin.audit.writes import Frame, Write
from patchcore.objects.modules import ABSENT

__all__ = ["Writer", "guess", "short", "writer_of"]

#: Distributions that only write for others, besides the standard library: their callers are the owners of a patch.
#: Their functions `patch_object`, `wrap_function_wrapper` (wrapt/patches.py) and `_patch.__enter__` (mock/mock.py).
_MANAGERS = frozenset({"wrapt", "mock"})

#: Frames of patchcore are between a patch and the line that applied it.
_OURS = "patchcore"


class Writer(NamedTuple):
    """The code that made a patch.

    Args:
        owner: the distribution, see :mod:`patchcore.builtin.audit.owners`.
        place: ``file:line`` that wrote.
        caller: ``file:line`` of the first caller in another file, empty if there is none. If ``place`` is in a manager
            of patches, this is the code that uses it.
        after: the import during which, or after which, it was written; empty if it is not known.
        guessed: true if sources were searched, false if the write was seen.
    """

    owner: str
    place: str = ""
    caller: str = ""
    after: str = ""
    guessed: bool = False


def writer_of(write: Write) -> Writer:
    """Return the code that did ``write``."""
    if not write.frames or owner_of_file(write.frames[0].file) == _OURS:
        return Writer(_OURS, after=write.during)
    frames = [frame for frame in write.frames if owner_of_file(frame.file) not in (_OURS, UNKNOWN)]
    if not frames:
        return Writer(UNKNOWN, after=write.during)
    inner = frames[0]
    caller = next((frame for frame in frames[1:] if frame.file != inner.file), None)
    return Writer(_owner_of(frames), _place(inner), _place(caller), write.during)


def _owner_of(frames: Sequence[Frame]) -> str:
    """Return the owner of the first frame that is not in a manager of patches or in the standard library."""
    owners = [owner_of_file(frame.file) for frame in frames]
    chosen = (owner for owner in owners if not owner.startswith((PYTHON, "<")) and owner not in _MANAGERS)
    return next(chosen, owners[0])


def _place(frame: Optional[Frame]) -> str:
    return "" if frame is None else f"{short(frame.file)}:{frame.line}"


def short(file: str) -> str:
    """Return a file relative to the folder from which it is imported, or to the current folder."""
    roots = [os.path.dirname(os.__file__), os.getcwd(), *filter(None, sys.path)]
    fitting = [root for root in map(os.path.abspath, roots) if file.startswith(root.rstrip(os.sep) + os.sep)]
    return file[len(max(fitting, key=len).rstrip(os.sep)) + 1 :] if fitting else file


def guess(difference: Difference, home: str) -> Optional[Writer]:
    """Return the line of a loaded module that looks most like the write, ``None`` if there is none.

    Args:
        difference: the patch.
        home: the owner of the new code; its modules are searched first. Empty if the code was removed.
    """
    own = owner_of_module(difference.module)
    loaded = [name for name in list(sys.modules) if name == "__main__" or not _is_of(name, own)]
    near = [name for name in loaded if home and same_distribution(owner_of_module(name), home)]
    for names in (near, [name for name in loaded if name not in set(near) and not _is_of(name, _OURS)]):
        found = sorted(_sites(difference, names), reverse=True)
        if found:
            _, module, line = found[0]
            return Writer(owner_of_module(module), f"{short(_file(module))}:{line}", guessed=True)
    return None


def _is_of(module: str, owner: str) -> bool:
    return owner_of_module(module) == owner


def _file(module: str) -> str:
    return file_of_module(module) or module


def _sites(difference: Difference, modules: Sequence[str]) -> Iterator[tuple[int, str, int]]:
    """Yield how much a line looks like the write, its module and its number."""
    name = difference.name
    defined = _code_file(difference.now)
    for module in modules:
        if name.encode() not in _source(module):
            continue
        tree = source_tree(module)
        for node in ast.walk(tree) if tree is not None else ():
            likeness = _likeness(node, difference)
            if likeness:
                yield likeness + 2 * (defined == _file(module)), module, int(getattr(node, "lineno", 0))


def _likeness(node: ast.AST, difference: Difference) -> int:
    """Return 0 for a node that is no write of the name, and more the more certain it is."""
    name = difference.name
    if difference.kind == "body":
        return 3 if isinstance(node, ast.Attribute) and _stores(node, "__code__", "__defaults__") else 0
    if isinstance(node, ast.Attribute):
        of_self = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
        return 3 if _stores(node, name) and not of_self and difference.kind != "module" else 0
    if isinstance(node, ast.Subscript):
        return 2 if isinstance(node.ctx, (ast.Store, ast.Del)) and _is_text(_index(node), name) else 0
    if isinstance(node, ast.Call):
        texts = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        if any(text == name or text.endswith(f".{name}") for text in texts):
            return 3 if isinstance(node.func, ast.Name) and node.func.id in ("setattr", "delattr") else 1
    return 0


def _stores(node: ast.Attribute, *names: str) -> bool:
    return node.attr in names and isinstance(node.ctx, (ast.Store, ast.Del))


def _index(node: ast.Subscript) -> Any:
    return node.slice


def _is_text(node: Any, text: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == text


def _code_file(value: Any) -> str:
    return value.__code__.co_filename if value is not ABSENT and type(value) is FunctionType else ""


@functools.cache
def _source(module: str) -> bytes:
    """Return the source of a loaded module, empty if it has none."""
    file = _file(module)
    try:
        with open(file, "rb") as stream:
            return stream.read() if file.endswith(".py") else b""
    except OSError:
        return b""
