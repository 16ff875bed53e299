"""Who made a patch: the lines that wrote it, as the watch on writes saw them, or else a guess from sources."""

from __future__ import annotations

import functools
import os
import re
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
    owners = _modules_by_owner(len(sys.modules))
    near = [owner for owner in owners if home and owner != own and same_distribution(owner, home)]
    far = [owner for owner in owners if owner not in (own, _OURS, *near) and not owner.startswith(PYTHON)]
    for chosen in (near, far):
        found = sorted(_sites(difference, [name for owner in chosen for name in owners[owner]]), reverse=True)
        if found:
            _, module, line = found[0]
            return Writer(owner_of_module(module), f"{short(_file(module))}:{line}", guessed=True)
    return None


@functools.lru_cache(maxsize=1)
def _modules_by_owner(count: int) -> dict[str, list[str]]:
    """Return the names of the loaded modules by owner; ``count`` is how many are loaded."""
    found: dict[str, list[str]] = {}
    for name in list(sys.modules):
        found.setdefault(owner_of_module(name), []).append(name)
    return found


def _file(module: str) -> str:
    return file_of_module(module) or module


def _sites(difference: Difference, modules: Sequence[str]) -> Iterator[tuple[int, str, int]]:
    """Yield how much a line looks like the write, its module and its number.

    Lines are searched for with regular expressions: to parse the modules of torch_npu and torch took two minutes.
    """
    names = ("__code__", "__defaults__") if difference.kind == "body" else (difference.name,)
    defined = _code_file(difference.now)
    for module in modules:
        for name in names:
            if name in _words(module):
                for likeness, line in _lines(_text(_file(module)), name, of_item=difference.kind == "module"):
                    yield likeness + 2 * (defined == _file(module)), module, line


def _lines(text: str, name: str, *, of_item: bool) -> Iterator[tuple[int, int]]:
    """Yield how certainly a line writes a name, and its number.

    Args:
        text: of the module.
        name: that is written.
        of_item: look for writes to ``sys.modules`` only.
    """
    word = re.escape(name)
    patterns = [(2, rf"""\[\s*["']{word}["']\s*\]\s*=(?!=)""")]
    if not of_item:
        patterns += [
            (3, rf"""(?<!\bself)(?<!\bcls)\.{word}\s*=(?!=)|\bdel\s.*\.{word}\b"""),
            (3, rf"""\b(?:set|del)attr\(.*,\s*["']{word}["']"""),
            (1, rf"""\(.*["'](?:[\w.]+\.)?{word}["']"""),
        ]
    place = text.find(name)
    while place >= 0:
        start, end = text.rfind("\n", 0, place) + 1, text.find("\n", place)
        line = text[start : end if end >= 0 else len(text)]
        for likeness, pattern in patterns:
            if re.search(pattern, line):
                yield likeness, text.count("\n", 0, start) + 1
        place = text.find(name, start + len(line))


def _code_file(value: Any) -> str:
    return value.__code__.co_filename if value is not ABSENT and type(value) is FunctionType else ""


@functools.cache
def _words(module: str) -> frozenset[str]:
    """Return the words in the source of a loaded module; none if it has no source."""
    return frozenset(re.findall(r"\w+", _text(_file(module))))


@functools.lru_cache(maxsize=64)
def _text(file: str) -> str:
    if not file.endswith(".py"):
        return ""
    try:
        with open(file, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""
