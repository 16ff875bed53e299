"""``RegistryPatch``: registers a class."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any, Optional

from mx_driving_compat.patches.application import Unit
from mx_driving_compat.patches.base import SinglePatch, agrees, core_patch
from mx_driving_compat.patches.changes import RegisterProduct
from mx_driving_compat.patches.paths import TABLES, Libraries, import_module, is_there, object_at
from patchcore import Skip, TargetNotFound
from patchcore.plugin import find_table

__all__ = ["RegistryPatch"]

#: By package: the module that registers the library's own classes, if importing the registry does not.
_FILLED_BY = {"mmengine": "mmengine.runner"}


class RegistryPatch(SinglePatch):
    """Registers a class or function in a registry of mmcv or mmengine.

    Args:
        registry: dotted path of the registry, ``"mmengine.registry.MODELS"``.
        module_cls: the class to register.
        name: under which it is; its own by default.
        force: replace an entry of that name.
        precheck: called when it is the patch's turn; false skips it. It may take ``registry``, ``module_cls``,
            ``name``, ``force`` and ``module_factory`` by these names, or nothing.
        module_factory: instead of ``module_cls``: called when the patch is applied, returns the class to register.

    Raises:
        ValueError: there is nothing to register, or no name for the product of the factory.
    """

    def __init__(
        self,
        registry: str,
        module_cls: Optional[Any] = None,
        *,
        name: Optional[str] = None,
        force: bool = True,
        precheck: Optional[Callable[..., bool]] = None,
        module_factory: Optional[Callable[[], Any]] = None,
    ) -> None:
        super().__init__()
        if module_cls is None and module_factory is None:
            raise ValueError(f"RegistryPatch({registry!r}): give either module_cls or module_factory=")
        if module_cls is None and name is None:
            raise ValueError(f"RegistryPatch({registry!r}): what module_factory makes needs a name='...'")
        self.registry = registry
        self.module_cls = module_cls
        self.module_factory = module_factory
        self.register_name = str(name or getattr(module_cls, "__name__", ""))
        self.force = force
        self.precheck = precheck

    @property
    def name(self) -> str:
        return f"{self.registry}.{self.register_name}"

    def unit(self, libraries: Optional[Libraries] = None) -> Unit:
        root = self.registry.partition(".")[0]
        if not (libraries or Libraries()).is_there(root):
            return Unit(core_patch(self.name), [self], prepare=lambda: Skip(f"registry not found: {self.registry}"))
        source = self.module_factory or self.module_cls
        make = self.module_factory or (lambda: self.module_cls)
        change = RegisterProduct(self.registry, make, name=self.register_name, force=self.force, source=source)

        def prepare() -> Optional[Skip]:
            arguments = {
                "registry": self.registry,
                "module_cls": self.module_cls,
                "name": self.register_name,
                "force": self.force,
                "module_factory": self.module_factory,
            }
            if not agrees(self.precheck, arguments):
                return Skip("precheck failed")
            problem = import_module(change.target.module)
            if problem is not None:
                return Skip(f"registry not found: {self.registry} ({problem})")
            return self._let_library_register()

        return Unit(core_patch(self.name, change), [self], prepare=prepare)

    def _let_library_register(self) -> Optional[Skip]:
        """Import the modules that fill the registry: the library cannot register a class whose name is taken.

        Returns:
            why the patch is skipped: the object at the registry's path is no registry.
        """
        filled_by = _FILLED_BY.get(self.registry.partition(".")[0])
        if filled_by is not None:
            import_module(filled_by)
        try:
            registry = object_at(self.registry)
        except (ImportError, TargetNotFound):
            return None  # the change reports it
        if find_table(registry, TABLES) is None and not isinstance(registry, MutableMapping):
            return Skip(f"registry not found: {self.registry} is a {type(registry).__name__}")
        if hasattr(registry, "import_from_location"):  # most registries of mmengine 0.10 know their modules
            registry.import_from_location()
        return None

    def misfit(self) -> str:
        return "" if is_there(self.registry.partition(".")[0]) else f"registry not found: {self.registry}"

    def get_info(self, show_diff: bool = False) -> str:
        what = getattr(self.module_cls, "__name__", None) or "<factory>"
        return f"{self.registry} <- {self.register_name} ({what})"

    def __repr__(self) -> str:
        return f"RegistryPatch({self.registry}, {self.register_name})"
