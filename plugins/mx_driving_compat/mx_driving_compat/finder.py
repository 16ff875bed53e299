"""Makes ``mx_driving.patcher`` importable, also on a machine without the distribution mx-driving."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Optional

from patchcore import SettingsError
from patchcore.plugin import StubSpec, ask_finders, namespace_of

if TYPE_CHECKING:
    from mx_driving_compat.predefined.transfer import Transfer

__all__ = ["OLDER_MODULES", "PATCHER", "PublicNames"]

#: The package whose patcher is offered, the patcher, and where ours is.
PACKAGE = "mx_driving"
PATCHER = f"{PACKAGE}.patcher"
OURS = f"{__package__}.patcher"

_TORCH = "torch"

#: Modules of the first versions of 1.0 (mx_driving of 2025, before ``*_patch.py``), each with its module here.
OLDER_MODULES = {
    "distribute": ("ddp", "ddp_forward"),
    "functions": ("stream",),
    "mmcv": ("dc", "mdc", "msda", "patch_mmcv_version", "spconv3d"),
    "mmdet": ("pseudo_sampler", "resnet_add_relu", "resnet_fp16", "resnet_maxpool"),
    "mmdet3d": ("nuscenes_dataset", "nuscenes_metric"),
    "numpy": ("numpy_type",),
    "optimizer": ("optimizer_hooks", "optimizer_wrapper"),
    "tensor": ("batch_matmul", "index"),
    "torch_scatter": ("scatter",),
}


class PublicNames:
    """Two meta path finders: the first of ``sys.meta_path`` finds the patcher, the last one the package around it."""

    def __init__(self) -> None:
        self._modules = _Modules()
        self._package = _PackageWithoutKernels()

    def connect(self) -> None:
        """Insert the finders into ``sys.meta_path``.

        Raises:
            SettingsError: another ``mx_driving.patcher`` is loaded, whose objects programs hold already.
        """
        loaded = sys.modules.get(PATCHER)
        if loaded is not None:
            where = getattr(loaded, "__file__", None) or repr(loaded)
            raise SettingsError(
                f"{PATCHER} was imported already, from {where}; call mx_driving_compat.install() before the "
                f"first import of {PACKAGE}, or start the program with: patchcore run --compat mx_driving"
            )
        sys.meta_path.insert(0, self._modules)
        sys.meta_path.append(self._package)

    def disconnect(self) -> None:
        """Undo :meth:`connect`, and remove the modules that the finders have loaded."""
        if self._modules.transfer is not None:
            self._modules.transfer.revert()
        for finder in (self._modules, self._package):
            if finder in sys.meta_path:
                sys.meta_path.remove(finder)
            for name, module in finder.loaded.items():
                if sys.modules.get(name) is module:
                    del sys.modules[name]
        package = namespace_of(sys.modules.get(PACKAGE)) or {}
        if getattr(package.get("patcher"), "__name__", None) == OURS:
            del package["patcher"]


class _Finder:
    """Base of both finders; keeps the modules that it has loaded, by the name that was imported."""

    def __init__(self) -> None:
        self.loaded: dict[str, ModuleType] = {}

    def create_module(self, spec: ModuleSpec) -> Optional[ModuleType]:
        """Let the import system make a module."""
        return None


class _Modules(_Finder):
    """Finds ``mx_driving.patcher`` and its modules in :mod:`mx_driving_compat.patcher`.

    Each module is one object under both names: there is one class ``AtomicPatch``, and one default patcher.
    """

    def __init__(self) -> None:
        super().__init__()
        self.transfer: Optional[Transfer] = None  # begun by the first import of torch

    def find_spec(
        self, name: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        """Return the spec of one of our modules for a public name; ``None`` for all other names.

        An import of torch starts the transfer to the NPU, see :class:`mx_driving_compat.predefined.transfer.Transfer`.
        """
        if name == _TORCH and self.loaded and self.transfer is None:
            self._begin_transfer()
            return ask_finders(name, None, but=self)
        if name != PATCHER and not name.startswith(f"{PATCHER}."):
            return None
        inner = name[len(PATCHER) + 1 :]
        if inner in OLDER_MODULES:
            return ModuleSpec(name, self)  # type: ignore[arg-type]  # it has all the methods that are used
        found = importlib.util.find_spec(OURS + name[len(PATCHER) :])
        if found is None:
            return None
        spec = ModuleSpec(name, self, origin=found.origin)  # type: ignore[arg-type]
        spec.submodule_search_locations = found.submodule_search_locations
        return spec

    def exec_module(self, module: ModuleType) -> None:
        """Replace the new module in ``sys.modules`` by ours: the import system returns the one that it finds there."""
        name = module.__name__
        inner = name[len(PATCHER) + 1 :]
        if inner in OLDER_MODULES:
            ours = importlib.import_module(OURS)
            vars(module).update((key, getattr(ours, key)) for key in OLDER_MODULES[inner])
        else:
            module = sys.modules[name] = importlib.import_module(OURS + name[len(PATCHER) :])
        self.loaded[name] = module
        if name == PATCHER:
            self._name_submodules()
        if _TORCH in sys.modules:
            self._begin_transfer()

    def _name_submodules(self) -> None:
        """Register the modules that the patcher has imported by itself under their public names.

        Otherwise a later import would replace the attribute ``patcher_logger``, a logger, by the module of that name.
        """
        for own, module in sys.modules.copy().items():
            if own.startswith(f"{OURS}."):
                public = PATCHER + own[len(OURS) :]
                self.loaded[public] = sys.modules.setdefault(public, module)

    def _begin_transfer(self) -> None:
        if self.transfer is None:
            from mx_driving_compat.predefined.transfer import Transfer

            self.transfer = Transfer()
            self.transfer.begin()


class _PackageWithoutKernels(_Finder):
    """Finds a package ``mx_driving`` if no other finder has one.

    Its spec says that it is a stub: patches that need the kernels do not fit because of it.
    """

    def find_spec(
        self, name: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        """Return the spec of the package; ``None`` for all other names."""
        if name != PACKAGE:
            return None
        return StubSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def exec_module(self, module: ModuleType) -> None:
        """Make every other attribute of the package an error that explains why it is missing."""
        vars(module).update(__getattr__=_no_kernel, __doc__="The patcher of patchcore; the kernels are not installed.")
        self.loaded[module.__name__] = module


def _no_kernel(name: str) -> Any:
    if name == "patcher":  # `import mx_driving; mx_driving.patcher` works with the distribution mx-driving
        return importlib.import_module(PATCHER)
    message = f"module {PACKAGE!r} has no attribute {name!r}"
    if not name.startswith("_"):
        message += (
            ": its kernels are not installed here, only the patcher of mx_driving_compat is; install mx-driving, or "
            "emulate the kernels with: patchcore run --emulate-npu"
        )
    raise AttributeError(message)
