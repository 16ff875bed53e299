"""Editing what a program compiles itself: ``builtins.compile`` while a change of the kind is in force.

Programs that run a script for somebody compile its text themselves: pdb, cProfile, coverage, debuggers. So do consoles
and IPython with what is typed, and configurations that are Python. All of them call ``compile``. The caller decides
whether a change concerns the text, or the file where the caller runs the script of a user. ``exec`` and ``eval`` of a
text do not call ``compile``, nor does ``python -c``.

The edited code imports what it uses. A function in it finds that among the builtins if the code is run with locals of
their own: functions see globals only.
"""

from __future__ import annotations

import ast
import builtins
import functools
import importlib.util
import linecache
import sys
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any, NamedTuple, Optional, Protocol

from patchcore.builtin.rewrite.compiling import FUTURE, Body, put_imports
from patchcore.declare.changes import resolve
from patchcore.declare.target import Target

__all__ = ["Compiles", "Text", "end", "start"]

#: What compiles the scripts, cells and lines of somebody else, by top-level module.
_RUNNERS = frozenset(
    (
        "_pydev_bundle",
        "_pydevd_bundle",
        "bdb",
        "cProfile",
        "codeop",
        "coverage",
        "doctest",
        "pdb",
        "profile",
        "timeit",
        "trace",
        "zipimport",
    )
)
#: What compiles modules, which are edited elsewhere, and cells only to look at them.
_ELSEWHERE = frozenset(("IPython", "importlib", "patchcore", "runpy"))

_compile = builtins.compile


class Text(NamedTuple):
    """What a program compiles.

    Args:
        name: of the module that compiles it; ``__main__`` if it runs the text for somebody else.
        place: path of the source of that module, or of the script that it runs.
        file: the name of the file that the code is to have.
        source: the text.
        tree: of the text, where the program has made it already.
        mode, flags, optimize: see :func:`compile`.
    """

    name: str
    place: str
    file: str
    source: str
    tree: Optional[Body]
    mode: str
    flags: int
    optimize: int

    def parse(self) -> Body:
        """Return the tree of the text.

        Raises:
            SyntaxError, ValueError, RecursionError: it has none.
        """
        if self.tree is not None:
            return self.tree
        found: Body = _compile(self.source, self.file, self.mode, self.flags | ast.PyCF_ONLY_AST, True)
        return found

    def compile(self, tree: Body, needs: Mapping[str, Target]) -> CodeType:
        """Compile an edited tree that uses ``needs``."""
        vars(builtins).update({name: resolve(target) for name, target in needs.items()})
        put_imports(tree, needs)
        code: CodeType = _compile(tree, self.file, self.mode, self.flags, True, self.optimize)
        return code


class Compiles(Protocol):
    """Compiles texts with their trees edited."""

    def code_of_text(self, text: Text) -> Optional[CodeType]:
        """Return the code to run for a text; ``None`` for Python's own."""


def start(rewriter: Compiles) -> None:
    """Have ``rewriter`` compile what the program compiles, until :func:`end`."""
    builtins.compile = _edited_by(rewriter, builtins.compile)


def end() -> None:
    """Give the program the ``compile`` that it had; not if somebody else has replaced it since."""
    builtins.compile = getattr(builtins.compile, "original", builtins.compile)


def _edited_by(rewriter: Compiles, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(_compile)
    def compile(
        source: Any,
        filename: Any,
        mode: str,
        flags: int = 0,
        dont_inherit: bool = False,
        optimize: int = -1,
        **more: Any,
    ) -> Any:
        caller = sys._getframe(1)
        if not dont_inherit:
            flags |= caller.f_code.co_flags & FUTURE
        space = caller.f_globals
        name = str(space.get("__name__", ""))
        started = getattr(space.get("__spec__"), "name", "") if name == "__main__" else name  # by python -m
        root = started.partition(".")[0]
        if root not in _ELSEWHERE and not flags & ast.PyCF_ONLY_AST and type(filename) is str and not more:
            runs = root in _RUNNERS
            tree = source if runs and isinstance(source, (ast.Module, ast.Interactive)) else None
            text = _text(source, filename, tree)
            if text and mode in ("exec", "single"):
                own = caller.f_code.co_filename  # pdb runs a text that compiles the script
                where = ("__main__", filename) if runs else (name, filename if own.startswith("<") else own)
                code = rewriter.code_of_text(Text(*where, filename, text, tree, mode, flags, optimize))
                if code is not None:
                    return code
        return original(source, filename, mode, flags, True, optimize, **more)

    compile.original = original  # type: ignore[attr-defined]
    return compile


def _text(source: Any, filename: str, tree: Optional[Body]) -> str:
    """Return the source as a text; empty if it is not known."""
    if type(source) is str:
        return source
    if tree is not None:  # a console or IPython keeps what it has read
        return "".join(linecache.getlines(filename))
    try:
        return importlib.util.decode_source(source) if type(source) is bytes else ""
    except (SyntaxError, UnicodeError):
        return ""
