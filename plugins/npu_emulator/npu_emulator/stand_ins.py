"""Make a library's name resolve to its stand-in, for imports and for package metadata, and undo it."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Optional

from npu_emulator.errors import RealLibraryError
from patchcore.plugin import StubSpec

__all__ = ["StandIn", "StandInFinder"]


@dataclass(frozen=True)
class StandIn:
    """A library and the package that stands in for it.

    Args:
        name: the library's top-level module.
        aliases: prefixes of module names and the package that answers each: every module is one object, whatever the
            name it is imported by.
        distribution: name and version that package metadata gives for it, ``None`` for none.
        entry_points: its entry points, by group: lines of ``entry_points.txt``.
        remedy: how to get an environment without the real library.
    """

    name: str
    aliases: Mapping[str, str]
    remedy: str
    distribution: Optional[str] = None
    entry_points: Mapping[str, str] = field(default_factory=dict)

    def module_for(self, name: str) -> Optional[str]:
        """Return the full name of the module that answers for ``name``, ``None`` if the library has no such name."""
        for prefix, package in self.aliases.items():
            if name == prefix or name.startswith(f"{prefix}."):
                return package + name[len(prefix) :]
        return None

    def public_name(self, name: str) -> Optional[str]:
        """Return the library's name of a module of the stand-in, ``None`` if ``name`` is something else."""
        for prefix, package in self.aliases.items():
            if name == package or name.startswith(f"{package}."):
                return prefix + name[len(package) :]
        return None


class _PublicNameLoader(importlib.abc.Loader):
    """Loads a library's module by binding its name to the stand-in, which keeps its own name and file."""

    def __init__(self, stand_in: str, loaded: dict[str, ModuleType], waiting: _Waiting) -> None:
        self._stand_in = stand_in
        self._loaded = loaded
        self._waiting = waiting

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """Let the import system make its placeholder, which :meth:`exec_module` exchanges."""

    def exec_module(self, module: ModuleType) -> None:
        """Replace the placeholder by the stand-in: the import system returns the module that ``sys.modules`` has then.

        One module object under both names means one class per kernel and one call counter. (Replacing one's own
        entry while being executed is documented behaviour: Python reference, "The import system", 5.4.3.)
        """
        name = module.__name__
        if name in self._waiting:
            loader, stand_in = self._waiting.pop(name)
            loader.execute(stand_in)
        else:
            stand_in = importlib.import_module(self._stand_in)
        self._loaded[name] = sys.modules[name] = stand_in


class _StandInLoader(importlib.machinery.SourceFileLoader):
    """Loads a stand-in under its own name, always as part of the import of the library's module.

    A patch that waits for that import is applied at once, although the stand-ins import each other by
    their own names.

    Args:
        name: the stand-in's own name.
        path: its file.
        public: the library's module.
        waiting: the stand-ins that wait for the import of their public name, by that name.
    """

    def __init__(self, name: str, path: str, public: str, waiting: _Waiting) -> None:
        super().__init__(name, path)
        self._public = public
        self._waiting = waiting

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module, or have it executed by an import of its public name."""
        if self._public in sys.modules:  # its import has come here
            self.execute(module)
            return
        self._waiting[self._public] = self, module
        try:
            importlib.import_module(self._public)
        finally:
            self._waiting.pop(self._public, None)

    def execute(self, module: ModuleType) -> None:
        """Execute the module, which has its public name from before the first line on, as any module has.

        It has the spec of that name too, as that import is the one to ask whether, and to wait until, it is loaded.
        """
        module.__spec__ = sys.modules[self._public].__spec__
        sys.modules[self._public] = module
        super().exec_module(module)


#: Stand-ins whose execution is left to the import of their public name, by that name.
_Waiting = dict[str, tuple[_StandInLoader, ModuleType]]


class _StandInDistribution(importlib.metadata.Distribution):
    """The metadata of an emulated library, for ``importlib.metadata``."""

    def __init__(self, stand_in: StandIn, version: str) -> None:
        entry_points = "".join(f"[{group}]\n{line}\n" for group, line in stand_in.entry_points.items())
        self._files = {
            "METADATA": f"Metadata-Version: 2.1\nName: {stand_in.distribution}\nVersion: {version}\n",
            "entry_points.txt": entry_points,
            "top_level.txt": f"{stand_in.name}\n",
        }

    def read_text(self, filename: Any) -> Optional[str]:
        return self._files.get(str(filename))

    def locate_file(self, path: Any) -> Any:
        return Path(__file__).parent / path


class StandInFinder(importlib.abc.MetaPathFinder):
    """Finds a library and its submodules among the stand-ins, importing none of them to answer.

    Args:
        stand_in: the library.
    """

    def __init__(self, stand_in: StandIn) -> None:
        self.stand_in = stand_in
        self._loaded: dict[str, ModuleType] = {}
        self._waiting: _Waiting = {}
        # The entries of sys.modules that were in the way: None, which makes an import fail on purpose, or submodules
        # left over.
        self._displaced: dict[str, Any] = {}

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """Return the spec of a stand-in, by the library's name or its own; ``None`` for other libraries."""
        public = self.stand_in.public_name(fullname)
        stand_in = fullname if public is not None else self.stand_in.module_for(fullname)
        found = _locate(stand_in) if stand_in is not None else None
        if stand_in is None or found is None or found.origin is None:
            return None
        if public is not None:
            return importlib.util.spec_from_file_location(
                fullname,
                found.origin,
                loader=_StandInLoader(fullname, found.origin, public, self._waiting),
                submodule_search_locations=found.submodule_search_locations,
            )
        loader = _PublicNameLoader(stand_in, self._loaded, self._waiting)
        spec = importlib.machinery.ModuleSpec(fullname, loader, origin=found.origin)
        spec.submodule_search_locations = found.submodule_search_locations
        return spec

    def find_distributions(self, context: Any = None) -> Iterator[importlib.metadata.Distribution]:
        """Yield the distribution of the library; its version is that of the installed torch with "+emulated"."""
        distribution = self.stand_in.distribution
        wanted = getattr(context, "name", None)
        if distribution is not None and wanted in (None, distribution, distribution.replace("_", "-")):
            yield _StandInDistribution(self.stand_in, _version_beside_torch())

    def connect(self, *, hide: bool = False) -> None:
        """Go in front of all finders: another would load submodules a second time from the stand-ins' path.

        Args:
            hide: allow a real library to be hidden.

        Raises:
            RealLibraryError: there is a real library to hide, and ``hide`` is False.
        """
        if not hide:
            self.refuse_to_hide_real_library()
        for name in self._names(sys.modules):
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

    def _names(self, modules: Iterable[str]) -> list[str]:
        return [name for name in modules if self.stand_in.module_for(name) is not None]

    def refuse_to_hide_real_library(self) -> None:
        """Raise :class:`RealLibraryError` if the library is importable or imported already."""
        name = self.stand_in.name
        try:
            spec = importlib.util.find_spec(name)
        except ValueError:  # imported, and its __spec__ is None: made by hand, so not ours to hide
            where = f"already in sys.modules: {sys.modules[name]!r}"
        else:
            if spec is None or isinstance(spec, StubSpec):  # nothing, or a stub
                return
            where = f"at {spec.origin or list(spec.submodule_search_locations or ())}"
        raise RealLibraryError(
            f"npu_emulator.install(): expected no importable '{name}', found a real one {where}. "
            f"The stand-ins never hide the real library: run without npu_emulator here, or in an environment "
            f"without it ({self.stand_in.remedy})."
        )


def _locate(name: str) -> Optional[importlib.machinery.ModuleSpec]:
    """Return the spec of a module without importing the packages around it, as ``importlib.util.find_spec`` does."""
    spec: Optional[importlib.machinery.ModuleSpec] = None
    path: Any = None
    prefix = ""
    for part in name.split("."):
        prefix = f"{prefix}.{part}" if prefix else part
        loaded = sys.modules.get(prefix)
        spec = loaded.__spec__ if loaded is not None else importlib.machinery.PathFinder.find_spec(prefix, path)
        if spec is None:
            return None
        path = spec.submodule_search_locations
        if path is None and prefix != name:
            return None
    return spec


def _version_beside_torch() -> str:
    try:
        torch = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        torch = "0"
    return f"{torch.partition('+')[0]}+emulated"
