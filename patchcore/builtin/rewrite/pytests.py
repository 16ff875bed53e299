"""Test modules, which pytest compiles itself: it parses a module, rewrites its asserts and compiles the tree.

The rules edit the source as it is parsed; then pytest rewrites the asserts of the edited tree. pytest keeps bytecode
of its own: while a ``Rewrite`` is applied, two functions of pytest are edited, so that a module with edited lines is
neither read from this bytecode nor written to it.

The names are those of ``_pytest/assertion/rewrite.py`` of pytest 8 and 9. With another pytest, tests are not edited.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import sys
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Optional, Protocol

from patchcore.builtin.rewrite.changes import Rules, Source
from patchcore.builtin.rewrite.compiling import Body

__all__ = ["CACHES", "MODULE", "TESTERS", "Finish", "Tester", "finish_of", "is_edited", "source_of"]

MODULE = "_pytest.assertion.rewrite"

#: Completes an edited tree before it is compiled.
Finish = Callable[[Body], None]

#: The functions of pytest that read and write its bytecode: what they return without, and the file that is tested.
_CACHES = {"_read_pyc": ("None", "source"), "_write_pyc": ("False", "co.co_filename")}


class Tester(Protocol):
    """Edits modules of tests."""

    def edits(self, name: str, file: str) -> bool:
        """Return true if the module ``name`` with the source ``file`` may get edited lines."""


#: Those that :func:`is_edited` calls.
TESTERS: weakref.WeakSet[Tester] = weakref.WeakSet()


def source_of(frame: FrameType) -> str:
    """Return the source of the tests that pytest compiles in ``frame``; empty if the frame is none of pytest's."""
    source = frame.f_locals.get("source")
    if frame.f_code.co_name != "_rewrite_test" or type(source) is not bytes:
        return ""
    try:
        return importlib.util.decode_source(source)
    except (SyntaxError, UnicodeError):
        return ""


def finish_of(frame: FrameType, file: str) -> Finish:
    """Return the function that rewrites the asserts of a tree as pytest does in ``frame``."""
    rewrite = frame.f_globals["rewrite_asserts"]
    source, config = frame.f_locals["source"], frame.f_locals.get("config")
    return functools.partial(_rewrite, rewrite, source, file, config)


def _rewrite(rewrite: Callable[..., None], source: bytes, file: str, config: object, tree: Body) -> None:
    rewrite(tree, source, file, config)


def name_of(frame: Optional[FrameType]) -> str:
    """Return the name of the module that pytest's loader executes in ``frame``; empty if it is another frame."""
    module = None if frame is None else frame.f_locals.get("module")
    return str(getattr(module, "__name__", ""))


def is_edited(file: object) -> bool:
    """Return true if the tests in ``file`` may get edited lines. The edited functions of pytest call it."""
    name = name_of(sys._getframe(2))
    return any(each.edits(name, str(file)) for each in list(TESTERS))


def _find(text: str) -> list[int]:
    starts = tuple(f"def {name}(" for name in _CACHES)
    return [number for number, line in enumerate(text.split("\n"), 1) if line.startswith(starts)]


def _edit(tree: ast.Module, source: Source) -> list[int]:
    """Let the functions of pytest that read and write bytecode return at once for tests that are edited."""
    lines = []
    for function in tree.body:
        if isinstance(function, ast.FunctionDef) and function.name in _CACHES:
            result, file = (ast.parse(text, mode="eval").body for text in _CACHES[function.name])
            test = ast.Call(source.reference(f"{__name__}:is_edited"), [file], [])
            place = int(ast.get_docstring(function) is not None)
            start = function.body[place]
            statement = ast.copy_location(ast.If(test, [ast.Return(result)], []), start)
            for node in ast.walk(statement):
                ast.copy_location(node, start)
            function.body.insert(place, statement)
            lines.append(start.lineno)
    return lines


#: Edits the module of pytest.
CACHES = Rules(_edit, find=_find)
