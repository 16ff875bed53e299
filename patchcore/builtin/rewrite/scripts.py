"""Runs a script with an edited syntax tree.

Python compiles the script of a program itself, and no loader can change it there. Before that, Python calls the hooks
of ``sys.path_hooks``, because the script may be an archive with a module ``__main__``. ``runpy.run_path`` does so, too.
:class:`patchcore_startup.ScriptHook` returns a :class:`ScriptFinder` for a script that a patch edits. The module
``__main__``, ``sys.path``, ``sys.argv`` and tracebacks are then the same as for a script that Python compiles.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, TracebackType
from typing import Any, Optional

from patchcore.builtin.rewrite.changes import name_of_object
from patchcore.builtin.rewrite.writer import BEGIN, Rewriter
from patchcore.engine.engine import ENGINE

__all__ = ["ScriptFinder", "begin", "find_script"]

#: Names of the files that start a script, as they are in frames: of Python up to 3.10, and later.
_RUNPY = ("runpy.py", "<frozen runpy>")


def find_script(path: str) -> ScriptFinder:
    """Return the finder for the script ``path``.

    Raises:
        ImportError: no applied patch edits it.
    """
    rewriter = ENGINE.watch.compiler
    if isinstance(rewriter, Rewriter):
        with open(path, "rb") as file:
            code = rewriter.code_of_script(path, file.read())
        if code is not None:
            return ScriptFinder(path, code)
    raise ImportError(path)


class ScriptFinder:
    """Finds the module ``__main__`` of one script.

    Args:
        path: of the script.
        code: of the module, edited.
    """

    def __init__(self, path: str, code: CodeType) -> None:
        self._path = path
        self._code = code

    def find_spec(self, name: str, target: Any = None) -> Optional[ModuleSpec]:
        """Return the spec of ``__main__``; of no other module."""
        if name != "__main__":
            return None
        return ModuleSpec(name, _ScriptLoader(self._path, self._code), origin=self._path)  # type: ignore[arg-type]


class _ScriptLoader:
    def __init__(self, path: str, code: CodeType) -> None:
        self._path = path
        self._code = code

    def get_code(self, name: str) -> CodeType:
        sys.path_importer_cache.pop(self._path, None)  # the patch may be reverted when the script is run again
        if sys.path[:1] == [self._path]:  # runpy puts the path of an archive there
            is_program = _is_program()
            del sys.path[0]
            if is_program and not getattr(sys.flags, "safe_path", False) and not sys.flags.isolated:
                sys.path.insert(0, os.path.dirname(os.path.realpath(self._path)))
            if is_program:
                _hide_runpy()
        return self._code

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        exec(self._code, module.__dict__)


def begin(space: dict[str, Any]) -> None:
    """Give the namespace of a script the names that Python gives it. The script calls this first."""
    del space[name_of_object(BEGIN)]
    path = space["__file__"]
    space["__loader__"] = SourceFileLoader("__main__", path)
    space.update(__spec__=None, __package__=None, __cached__=None)


def _is_program() -> bool:
    """Return true if Python runs the script as its program, false if a program runs it by ``runpy.run_path``."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_name == "_run_module_as_main" and frame.f_code.co_filename.endswith(_RUNPY)


def _hide_runpy() -> None:
    """Remove the frames of ``runpy`` from the traceback of an error that ends the script."""
    previous = sys.excepthook

    def show(kind: type[BaseException], error: BaseException, trace: Optional[TracebackType]) -> Any:
        while trace is not None and trace.tb_frame.f_code.co_filename.endswith(_RUNPY):
            trace = trace.tb_next
        previous(kind, error.with_traceback(trace), trace)

    sys.excepthook = show
