"""Lines of the program: which one called an operator, and which patches replace the function around it."""

from __future__ import annotations

import inspect
import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple, Optional

from patchcore import Target

__all__ = ["Replaced", "Site", "Sites"]

#: Packages whose frames are not the program's.
_OURS = ("patchcore", "patchcore_startup", "torch_npu_patches", "npu_migrate", "npu_emulator", "torch", "torch_npu")

#: Modules of the emulator that compute with operators of torch where a real library has a kernel of its own.
_STAND_INS = tuple(
    os.sep + os.path.join("npu_emulator", *parts, "")
    for parts in (("mx_driving",), ("torch_npu", "ops"), ("torch_npu", "optim"))
)

#: Where torch enters the autograd engine.
_ENGINE = (os.path.join("torch", "autograd", "graph.py"), os.path.join("torch", "autograd", "__init__.py"))


class Site(NamedTuple):
    """Where a call was made.

    Args:
        line: ``file:line`` of the program, relative to the current directory where it is below that; ``None`` where
            no frame is the program's.
        patches: names of the patches that replace a function of the call stack.
        emulated: whether it was made to emulate a kernel, and the program makes none.
    """

    line: Optional[str]
    patches: tuple[str, ...] = ()
    emulated: bool = False


class Replaced:
    """The functions that patches replace, identified by their code.

    A target that is no Python function of its module, as ``apply`` of an ``autograd.Function`` or a class, stands for
    the functions of the class. Functions of C have no frames, and are not told.

    Args:
        targets: of each patch, by its name.
    """

    def __init__(self, targets: Mapping[str, Sequence[str]]) -> None:
        self._targets: dict[str, list[tuple[str, Target]]] = {}
        for patch, texts in targets.items():
            for text in texts:
                target = Target.parse(text).pin()
                self._targets.setdefault(target.module, []).append((patch, target))
        self._known: dict[CodeType, tuple[str, ...]] = {}

    def __bool__(self) -> bool:
        return bool(self._targets)

    def patches_of(self, frame: FrameType) -> tuple[str, ...]:
        """Return the patches that replace the function that ``frame`` runs."""
        code = frame.f_code
        if code not in self._known:
            module = frame.f_globals.get("__name__", "")
            found = (patch for patch, target in self._targets.get(module, ()) if code in _codes(target))
            self._known[code] = tuple(dict.fromkeys(found))
        return self._known[code]


def _codes(target: Target) -> set[CodeType]:
    value: Any = sys.modules.get(target.module)
    owner = None
    for step in target.path:
        owner, value = value, inspect.getattr_static(value, str(step), None)
    code = _code(value)
    if code is not None and inspect.isclass(owner) and str(target.path[-1]) not in vars(owner):
        code = None  # inherited: only the own functions of the class matter
    if code is not None:
        return {code}
    klass = value if inspect.isclass(value) else owner
    if not inspect.isclass(klass):
        return set()
    return {code for code in map(_code, vars(klass).values()) if code is not None}


def _code(value: Any) -> Optional[CodeType]:
    if isinstance(value, property):
        value = value.fget
    value = inspect.unwrap(getattr(value, "__func__", value), stop=lambda f: not callable(f))
    return getattr(value, "__code__", None)


class Sites:
    """Finds the program's frames among those of torch and ours.

    Args:
        replaced: functions that patches replace.
        directory: file names below it are shown relative to it; those of installed packages as they are imported.
    """

    def __init__(self, replaced: Replaced, directory: Path) -> None:
        self._replaced = replaced
        self._directory = str(directory) + os.sep
        self._names: dict[CodeType, Optional[str]] = {}
        libraries = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
        self._libraries = tuple(str(library) + os.sep for library in libraries)
        self._packages = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)

    def find(self, frame: Optional[FrameType], *, within_engine: bool = False) -> Site:
        """Return the innermost line of the program.

        Args:
            frame: where to begin.
            within_engine: stop where torch enters the autograd engine: the frames above have started the backward pass.
        """
        line: Optional[str] = None
        patches: tuple[str, ...] = ()
        for inner in _frames(frame):
            name = self._name(inner.f_code)
            if name is None:
                if line is None and any(part in inner.f_code.co_filename for part in _STAND_INS):
                    return Site(None, emulated=True)
                if within_engine and inner.f_code.co_filename.endswith(_ENGINE):
                    break
            elif line is None:
                line = f"{name}:{inner.f_lineno}"
                if not self._replaced:
                    break
            if self._replaced:
                patches += self._replaced.patches_of(inner)
        return Site(line, tuple(dict.fromkeys(patches)))

    def _name(self, code: CodeType) -> Optional[str]:
        """The file of the code as it is shown, ``None`` for code that is not the program's."""
        if code not in self._names:
            self._names[code] = self._shown(code.co_filename)
        return self._names[code]

    def _shown(self, path: str) -> Optional[str]:
        if path.startswith("<"):
            return None
        path = os.path.abspath(path)
        if _package(path) in _OURS:
            return None
        for part in self._packages:
            if part in path:
                return path.rpartition(part)[2]
        if path.startswith(self._libraries):
            return None
        return path[len(self._directory) :] if path.startswith(self._directory) else path


def _package(path: str) -> Optional[str]:
    """The name of the top-level package that a file is in, ``None`` for a file in no package."""
    folder, name = os.path.split(path)
    top = None
    while name and os.path.exists(os.path.join(folder, "__init__.py")):
        folder, name = os.path.split(folder)
        top = name
    return top


def _frames(frame: Optional[FrameType]) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
