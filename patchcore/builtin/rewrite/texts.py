"""Edits the texts that a program compiles itself: ``builtins.compile`` is patched while a ``Rewrite`` is applied.

These programs call ``compile``: pdb, cProfile, coverage and debuggers for the script that they run, consoles and
IPython for the lines that a user types, libraries for configurations written in Python. Whether a change edits the text
depends on the module that calls ``compile``; for pdb and others of :data:`_RUNNERS` it depends on the file of the text.
``exec`` and ``eval`` of a text do not call ``compile``, nor does ``python -c``.

The edited code imports the objects that it uses. If the code is run with separate locals, the functions in it cannot
see these imports, because functions see globals only. Therefore the objects are added to the builtins as well. A name
stays there as long as code that uses it exists.
"""

from __future__ import annotations

import ast
import builtins
import copy
import functools
import importlib.util
import linecache
import sys
import weakref
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any, NamedTuple, Optional, Protocol

from patchcore.builtin.rewrite import pytests
from patchcore.builtin.rewrite.compiling import FUTURE, Body, nested, put_imports
from patchcore.declare.changes import resolve
from patchcore.declare.target import Target

__all__ = ["Compiles", "Text", "TextCodes", "compile_by"]

#: Top-level modules that compile the scripts, cells and lines of others.
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
#: Top-level modules whose texts are not edited here: modules, which their loader edits, or cells that are not run.
_ELSEWHERE = frozenset(("IPython", "importlib", "patchcore", "runpy"))

_compile = builtins.compile


class Text(NamedTuple):
    """A text that a program compiles.

    Args:
        name: of the module that compiles it; ``__main__`` if it runs the text for somebody else.
        place: path of the source of that module, or of the script that it runs.
        file: the name of the file that the code is to have.
        source: the text.
        tree: of the text, if the program passed a tree to ``compile``; else ``None``.
        mode, flags, optimize: see :func:`compile`.
        finish: called with each tree of the text before it is compiled; ``None`` if nothing is to be done.
    """

    name: str
    place: str
    file: str
    source: str
    tree: Optional[Body]
    mode: str
    flags: int
    optimize: int
    finish: Optional[pytests.Finish] = None

    def parse(self) -> Body:
        """Return the tree of the text; the caller may edit it.

        Raises:
            SyntaxError, ValueError, RecursionError: the text cannot be parsed.
        """
        if self.tree is not None:
            return copy.deepcopy(self.tree)
        found: Body = _compile(self.source, self.file, self.mode, self.flags | ast.PyCF_ONLY_AST, True)
        return found

    def compile(self, tree: Optional[Body] = None) -> CodeType:
        """Compile an edited tree; without one, the text of the program."""
        source: Any = tree if tree is not None else self.tree if self.tree is not None else self.source
        if self.finish is not None:
            source = self.parse() if tree is None else tree
            self.finish(source)
        code: CodeType = _compile(source, self.file, self.mode, self.flags, True, self.optimize)
        return code


class Compiles(Protocol):
    """Compiles texts with their trees edited."""

    def code_of_text(self, text: Text) -> Optional[CodeType]:
        """Return the code to run for a text; ``None`` if no change edits it."""


class _Part(NamedTuple):
    """A code object of an edited text, of its top level or of a function in it.

    Args:
        code: a weak reference to the code.
        text: the text.
        place: which code of the text it is, in the order of the source.
    """

    code: weakref.ref[CodeType]
    text: Text
    place: int


class TextCodes:
    """The codes of edited texts that still exist, and the names among the builtins by which they find objects."""

    def __init__(self) -> None:
        self._parts: dict[int, _Part] = {}  # by id of the code
        self._users: dict[str, set[int]] = {}  # by name among the builtins, the ids of the codes that use it

    def compile(self, text: Text, tree: Body, needs: Mapping[str, Target]) -> CodeType:
        """Compile the edited tree of ``text``, which uses ``needs``."""
        found = {name: resolve(target) for name, target in needs.items()}
        put_imports(tree, needs)
        code = text.compile(tree)
        self._add(text, code, found)
        return code

    def exchanged(self, text_code: Callable[[Text], Optional[CodeType]]) -> dict[int, CodeType]:
        """Return the codes to exchange: by the ``id`` of a code, the code that its functions must get.

        Args:
            text_code: returns the code that the applied changes make of a text; ``None`` if no change edits it.
        """
        texts: dict[int, list[_Part]] = {}
        for part in list(self._parts.values()):
            texts.setdefault(id(part.text), []).append(part)
        found = {}
        for parts in texts.values():
            text = parts[0].text
            made = text_code(text)
            if made is None:
                made = text.compile()
                self._add(text, made, {})
            order = list(nested(made))
            for part in parts:
                old, new = part.code(), order[part.place] if part.place < len(order) else None
                if old is not None and new is not None and old.co_name == new.co_name and old != new:
                    found[id(old)] = new
        return found

    def _add(self, text: Text, code: CodeType, objects: Mapping[str, Any]) -> None:
        vars(builtins).update(objects)
        for place, each in enumerate(nested(code)):
            key = id(each)
            self._parts[key] = _Part(weakref.ref(each, functools.partial(self._forget, key)), text, place)
            for name in objects:
                if name in each.co_names:
                    self._users.setdefault(name, set()).add(key)

    def _forget(self, key: int, code: object) -> None:
        self._parts.pop(key, None)
        for name, users in list(self._users.items()):
            users.discard(key)
            if not users:
                del self._users[name]
                vars(builtins).pop(name, None)


def compile_by(rewriter: Compiles, original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the ``compile`` for programs whose texts ``rewriter`` compiles; it calls ``original`` for others."""

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
        if name == pytests.MODULE and isinstance(source, ast.Module) and not more:
            text = pytests.source_of(caller)
            if text:
                name, finish = pytests.name_of(caller.f_back), pytests.finish_of(caller, filename)
                code = rewriter.code_of_text(
                    Text(name, filename, filename, text, None, mode, flags, optimize, finish=finish)
                )
                if code is not None:
                    return code
        elif root not in _ELSEWHERE and not flags & ast.PyCF_ONLY_AST and type(filename) is str and not more:
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

    return compile


def _text(source: Any, filename: str, tree: Optional[Body]) -> str:
    """Return the source as a text; empty if there is no text for it."""
    if type(source) is str:
        return source
    if tree is not None:  # consoles and IPython keep the text there
        return "".join(linecache.getlines(filename))
    try:
        return importlib.util.decode_source(source) if type(source) is bytes else ""
    except (SyntaxError, UnicodeError):
        return ""
