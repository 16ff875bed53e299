"""Changes of imports: add an importable module, choose the module that an import returns, patch during an import."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional, Union

from patchcore.declare.changes import Change, Skip, SlotChange, as_changes, as_reference, needed_libraries, resolve
from patchcore.declare.declaration import as_mapping
from patchcore.declare.slots import NamespaceSlot, Slot
from patchcore.declare.target import Target
from patchcore.errors import DeclarationError
from patchcore.objects.modules import ABSENT, namespace_of

__all__ = ["DummyImport", "InjectImport", "ReplaceImport", "StubImport", "WhileImporting"]

_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


class ImportChange(Change):
    """A change of the import of a module; it must be in force before the module is imported."""

    adds = True
    waits = False
    fits_stubs = True

    @property
    def name(self) -> str:
        """The module, by its full name."""
        return self.target.module

    @property
    def libraries(self) -> tuple[str, ...]:
        return (self.target.root,) if "." in self.name else ()

    @property
    def provides(self) -> tuple[str, ...]:
        return (self.name,)


class StubImport(ImportChange):
    """Make a module importable that is not installed, with every name inside it; using such a name is an error.

    The imported names can be mentioned at import time: as a base class, in ``except`` and ``isinstance``, in
    annotations and default arguments, as a decorator, with or without arguments. A real call, or a calculation, raises
    :class:`~patchcore.StubError`, which names the stub, the patch and the line of the import.

    If the module is installed, the change is skipped. A stub inside a real package leaves the package unchanged.

    Args:
        name: dotted name of the module, ``"flash_attn"``.
        version: the stub's ``__version__``.
        attributes: further names of the module with their values: an object, or a target text that is looked up when
            the stub is imported, ``"package.module:name"``; a text itself is given as ``Literal(text)``.

    Raises:
        DeclarationError: an argument is malformed.

    Examples:
        >>> import patchcore as pc
        >>> with pc.Patcher([pc.Patch("demo.stub", changes=pc.StubImport("fast_attention"))]):
        ...     from fast_attention import Attention
        >>> class Mine(Attention): ...
    """

    version: str
    attributes: Mapping[str, Any]

    makes_product = True

    def __init__(self, name: str, *, version: str = "0.0", attributes: Optional[Mapping[str, Any]] = None) -> None:
        where = f"StubImport({name!r})"
        if not isinstance(version, str):
            raise DeclarationError(f"{where}: version must be a string, got {version!r}")
        super().__init__(
            target=_module_target(name, where), version=version, attributes=_as_exports(attributes, "attributes", where)
        )

    @property
    def kind(self) -> str:
        return "stub"

    @property
    def source(self) -> Any:
        return {"__version__": self.version, **self.attributes}


class DummyImport(ImportChange):
    """Make a module importable that is not installed, with nothing inside it: patches may add names.

    ``from the_module import name`` raises ``ImportError``, and ``hasattr`` is false, unless a patch has added the name
    with ``Replace(..., create="always")``. Programs that look for a library in this way go on without it. The packages
    around the module are made, too, where they are missing; a module that is installed is left alone.

    Args:
        name: dotted name of the module, ``"transformer_engine.pytorch"``.

    Raises:
        DeclarationError: the name is malformed.

    Examples:
        >>> import patchcore as pc
        >>> attend = pc.Replace("fast_attention.kernels:attend", min, create="always")
        >>> with pc.Patcher([pc.Patch("demo.dummy", [pc.DummyImport("fast_attention.kernels"), attend])]):
        ...     from fast_attention.kernels import attend
        ...     from fast_attention.kernels import Attention
        Traceback (most recent call last):
        ImportError: cannot import name 'Attention' from 'fast_attention.kernels' (unknown location)
    """

    makes_product = True
    provides_content = True

    def __init__(self, name: str) -> None:
        super().__init__(target=_module_target(name, f"DummyImport({name!r})"))

    @property
    def kind(self) -> str:
        return "dummy"

    @property
    def source(self) -> Any:
        return {}

    @property
    def libraries(self) -> tuple[str, ...]:
        return ()

    @property
    def provides(self) -> tuple[str, ...]:
        return (self.target.root,)

    def claims(self, target: Target) -> tuple[Target, ...]:
        return ()  # it is there for other patches, which add to it

    def expand(self) -> tuple[Change, ...]:
        steps = self.name.split(".")
        around = [Target(".".join(steps[:end]), ()) for end in range(1, len(steps))]
        return (*(self.evolve(target=target) for target in around), self)


class ReplaceImport(ImportChange):
    """Make the import of a module return another module.

    The other module replaces the first under its name, and its submodules replace those of the first. Names that only
    the first has cannot be imported meanwhile. While the other module itself is being imported, it gets the first, so
    that it can build on it. If the first was imported already, names bound to it, or to an export that both modules
    have, are rebound; the packages of the two modules keep their names.

    Args:
        name: dotted name of the module that is replaced; it need not exist.
        with_: dotted name of the other module; or a mapping from which a module is made: names with objects or target
            texts, as in :class:`StubImport`.

    Raises:
        DeclarationError: an argument is malformed.

    Examples:
        >>> import patchcore as pc
        >>> change = pc.ReplaceImport("fast_attention", with_={"attend": min})
        >>> with pc.Patcher([pc.Patch("demo.attention", changes=change)]):
        ...     import fast_attention
        ...     fast_attention.attend(1, 3)
        1
    """

    with_: Any
    provides_content = True

    def __init__(self, name: str, *, with_: Union[str, Mapping[str, Any]]) -> None:
        where = f"ReplaceImport({name!r})"
        target = _module_target(name, where)
        other: Any
        if isinstance(with_, str):
            other = _module_target(with_, where)
            if f"{with_}.".startswith(f"{name}."):
                raise DeclarationError(
                    f"{where}: {with_!r} is inside the module that it is to replace; give it a name outside of it"
                )
        elif isinstance(with_, Mapping):
            other = _as_exports(with_, "with_", where)
        else:
            raise DeclarationError(
                f"{where}: with_ must be the name of a module, or a mapping of names to objects, got {with_!r}"
            )
        super().__init__(target=target, with_=other)

    @property
    def kind(self) -> str:
        return "replace-import"

    @property
    def source(self) -> Any:
        return self.with_

    def phrase(self, target: Target) -> str:
        other = self.with_ if isinstance(self.with_, Target) else f"a module of {', '.join(self.with_)}"
        return f"{self.kind} {target} with {other}"


class InjectImport(SlotChange):
    """Add a name to a module that lacks it, right after the module was imported; also to its ``__all__``.

    A name that exists is left alone: the change is skipped.

    Args:
        source: dotted name of the module that has the object under the same name, or a target text.
        name: the name to add.
        into: dotted name of the module that gets the name.

    Raises:
        DeclarationError: an argument is malformed.

    Examples:
        >>> import statistics
        >>> import patchcore as pc
        >>> with pc.Patcher([pc.Patch("demo.sqrt", changes=pc.InjectImport("math", "sqrt", into="statistics"))]):
        ...     statistics.sqrt(9)
        3.0
    """

    injected: Target

    adds = True

    def __init__(self, source: str, name: str, into: str) -> None:
        where = f"InjectImport({source!r}, {name!r}, {into!r})"
        module = _module_target(into, where).module
        if not isinstance(name, str) or not name.isidentifier():
            raise DeclarationError(f"{where}: {name!r} is not a name that can be imported")
        text = source if isinstance(source, str) and ":" in source else f"{_module_target(source, where)}:{name}"
        super().__init__(target=Target(module, (name,)), injected=Target.parse(text))

    @property
    def kind(self) -> str:
        return "inject"

    @property
    def source(self) -> Any:
        return self.injected

    def phrase(self, target: Target) -> str:
        return f"{self.kind} {target} from {self.injected.module}"

    def find_slot(self, target: Target, module: Any) -> Slot:
        return NamespaceSlot(module, target.path[-1], str(target))

    def build(self, below: Any, slot: Slot) -> Any:
        if below is not ABSENT or slot.is_promised:
            return Skip(f"{slot.name} already exists")
        return resolve(self.injected)

    def companions(self, module: Any) -> Sequence[tuple[Slot, Callable[[Any, Slot], Any]]]:
        exported = (namespace_of(module) or {}).get("__all__")
        if not isinstance(exported, (list, tuple)) or self.target.path[-1] in exported:
            return ()
        return ((NamespaceSlot(module, "__all__", f"{self.target.module}:__all__"), self._extend),)

    def _extend(self, exported: Any, slot: Slot) -> Any:
        return type(exported)([*exported, self.target.path[-1]])


class WhileImporting(ImportChange):
    """Apply changes just before the body of a module runs, and revert them just after, also if it raises.

    Use it for a module that checks another library at import time:
    ``WhileImporting("mmdet", Replace("mmcv:__version__", Literal("2.1.0")))``. All code sees the changes meanwhile, in
    other threads too. A change of a module that the body imports is written at that import. The body runs once for each
    import; if it has run already, the change is skipped.

    Args:
        module: dotted name of the module.
        changes: one change or several.

    Raises:
        DeclarationError: an argument is malformed.

    Examples:
        >>> import patchcore as pc
        >>> version = pc.Replace("shop:__version__", pc.Literal("2.1"))
        >>> pc.Patch("demo.version", changes=pc.WhileImporting("till", version)).changes[0].changes == (version,)
        True
    """

    changes: tuple[Change, ...]

    makes_product = True
    fits_stubs = False

    def __init__(self, module: str, changes: Union[Change, Sequence[Change]]) -> None:
        where = f"WhileImporting({module!r})"
        target = _module_target(module, where)
        inner = as_changes(changes, where)
        if not inner:
            raise DeclarationError(f"{where} has no changes; pass some: WhileImporting({module!r}, [Replace(...)])")
        if any(isinstance(change, WhileImporting) for change in inner):
            raise DeclarationError(
                f"{where}: WhileImporting cannot contain another WhileImporting; write two next to each other"
            )
        super().__init__(target=target, changes=inner)

    @property
    def kind(self) -> str:
        return "while-importing"

    @property
    def libraries(self) -> tuple[str, ...]:
        return (self.target.root, *needed_libraries(self.changes))

    @property
    def provides(self) -> tuple[str, ...]:
        return ()  # once the module is imported, nothing more

    @property
    def source(self) -> Any:
        return {str(change): change.source for change in self.changes}

    def claims(self, target: Target) -> tuple[Target, ...]:
        return tuple(claim for change in self.changes for claim in change.claims(change.target))

    def with_options(self, options: Mapping[str, Any]) -> Change:
        return self.evolve(changes=tuple(change.with_options(options) for change in self.changes))

    def phrase(self, target: Target) -> str:
        return f"{self.kind} {target}: {', '.join(map(str, self.changes))}"


def _module_target(name: Any, where: str) -> Target:
    if not isinstance(name, str) or not _MODULE.fullmatch(name):
        raise DeclarationError(f"{where}: {name!r} is not a dotted module name; write 'package.module'")
    return Target(name, ())


def _as_exports(value: Any, what: str, where: str) -> Mapping[str, Any]:
    exports = dict(as_mapping(value, what, where))
    for name in exports:
        if not isinstance(name, str) or not name.isidentifier():
            raise DeclarationError(f"{where}: {what} has the key {name!r}; expected a name that can be imported")
    return as_mapping({name: as_reference(item, where) for name, item in exports.items()}, what, where)
