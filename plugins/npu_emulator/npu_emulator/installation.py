"""Make ``import mx_driving`` resolve to the stand-ins, and undo it exactly."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import threading
from collections.abc import Sequence
from types import ModuleType, TracebackType
from typing import Any, Optional

EMULATED = "mx_driving"
STAND_IN = "npu_emulator.mx_driving"


class RealLibraryError(RuntimeError):
    """The library to emulate is really there, and a stand-in must never hide it."""


class StandInLoader(importlib.abc.Loader):
    """Loads a module name by binding it to the stand-in module, which keeps its own name, spec and file.

    Args:
        stand_in: full name of the module that answers, such as ``npu_emulator.mx_driving.ops``.
        loaded: receives what was bound, name to module, so that it can be unbound.
    """

    def __init__(self, stand_in: str, loaded: dict[str, ModuleType]) -> None:
        self._stand_in = stand_in
        self._loaded = loaded

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """Let the import system make its placeholder, which :meth:`exec_module` exchanges."""

    def exec_module(self, module: ModuleType) -> None:
        """Put the stand-in where the placeholder is: the import system takes what it finds in ``sys.modules``.

        One module object under both names means one class per kernel and one call counter. (Replacing one's own
        entry while being executed is documented behaviour: Python reference, "The import system", 5.4.3.)
        """
        name = module.__name__
        self._loaded[name] = sys.modules[name] = importlib.import_module(self._stand_in)


class StandInFinder(importlib.abc.MetaPathFinder):
    """Finds ``mx_driving`` and its submodules among the stand-ins, importing none of them to answer."""

    def __init__(self) -> None:
        self._loaded: dict[str, ModuleType] = {}
        # What was in the way in sys.modules: None, which makes an import fail on purpose, or submodules left over.
        self._displaced: dict[str, Any] = {}

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """Return the spec of a stand-in, or ``None`` for every name that is not emulated."""
        if not _is_emulated_name(fullname):
            return None
        stand_in = STAND_IN + fullname[len(EMULATED) :]
        found = importlib.util.find_spec(stand_in)
        if found is None:
            return None
        return importlib.util.spec_from_loader(
            fullname,
            StandInLoader(stand_in, self._loaded),
            origin=found.origin,
            is_package=found.submodule_search_locations is not None,
        )

    def connect(self) -> None:
        """Go in front of all finders: another would load submodules a second time from the stand-ins' path.

        Raises:
            RealLibraryError: there is a real library to hide.
        """
        _refuse_to_hide_real_library()
        for name in filter(_is_emulated_name, list(sys.modules)):
            self._displaced[name] = sys.modules.pop(name)
        sys.meta_path.insert(0, self)

    def disconnect(self) -> None:
        """Undo :meth:`connect` and every import that this finder answered, and nothing else."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for name, module in self._loaded.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]
        sys.modules.update(self._displaced)


class Installation:
    """What :func:`install` returns: a context manager, and the handle that undoes the installation.

    Several installations may be open at once (a test session and a test in it); the stand-ins stay until the last
    one is undone.
    """

    def __init__(self, finder: StandInFinder) -> None:
        self._finder = finder

    def uninstall(self) -> None:
        """Give up this installation; the last one puts ``sys.meta_path`` and ``sys.modules`` back as they were.

        Only what the stand-ins put there is taken away. Calling it again does nothing.
        """
        with _lock:
            if self not in _open_installations:
                return
            _open_installations.remove(self)
            if not _open_installations:
                self._finder.disconnect()

    def __enter__(self) -> Installation:
        return self

    def __exit__(
        self,
        exc_type: Optional[type[BaseException]],
        exc: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.uninstall()


_lock = threading.Lock()
_open_installations: list[Installation] = []


def install() -> Installation:
    """Make ``import mx_driving`` resolve to :mod:`npu_emulator.mx_driving`.

    Nothing heavy is imported. ``importlib.util.find_spec("mx_driving")``, which is how patches ask for the library,
    answers from now on. Installing twice is allowed and connects the stand-ins once.

    Returns:
        The handle that undoes it, usable as a context manager.

    Raises:
        RealLibraryError: a real ``mx_driving`` is importable or already imported here.
    """
    with _lock:
        if _open_installations:
            finder = _open_installations[0]._finder
        else:
            finder = StandInFinder()
            finder.connect()
        installation = Installation(finder)
        _open_installations.append(installation)
    return installation


def _refuse_to_hide_real_library() -> None:
    try:
        spec = importlib.util.find_spec(EMULATED)
    except ValueError:  # imported, and its __spec__ is None: made by hand, so not ours to hide
        where = f"already in sys.modules: {sys.modules[EMULATED]!r}"
    else:
        if spec is None:
            return
        where = f"at {spec.origin or list(spec.submodule_search_locations or ())}"
    raise RealLibraryError(
        f"npu_emulator.install(): expected no importable '{EMULATED}', found a real one {where}. "
        "The stand-ins never hide the real library: run without npu_emulator here, or in an environment "
        "without it (pip uninstall mx-driving)."
    )


def _is_emulated_name(name: str) -> bool:
    return name == EMULATED or name.startswith(EMULATED + ".")
