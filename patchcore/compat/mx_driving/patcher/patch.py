"""Patches of the API: ``AtomicPatch``, ``RegistryPatch``, ``LegacyPatch``, and ``Patch``, which groups them."""

from __future__ import annotations

import inspect
import re
from abc import ABC, ABCMeta, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Optional

from patchcore.changes import Call, Skip
from patchcore.compat.mx_driving.application import Outcome, Run, Unit
from patchcore.compat.mx_driving.changes import RegisterProduct, SetAttribute
from patchcore.compat.mx_driving.mentions import mentioned_packages
from patchcore.compat.mx_driving.patcher.imports import with_imports
from patchcore.compat.mx_driving.patcher.patcher_logger import patcher_logger
from patchcore.compat.mx_driving.patcher.reporting import PatchResult, PatchStatus
from patchcore.compat.mx_driving.patcher.version import (
    check_version,
    get_version,
    is_mmcv_v1x,
    is_mmcv_v2x,
    mmcv_version,
)
from patchcore.compat.mx_driving.paths import import_module, is_there, object_at
from patchcore.errors import DeclarationError, TargetNotFound, describe_error
from patchcore.patch import Patch as CorePatch

__all__ = [
    "AtomicPatch",
    "BasePatch",
    "LegacyPatch",
    "Patch",
    "PatchResult",
    "PatchStatus",
    "RegistryPatch",
    "check_version",
    "get_version",
    "is_mmcv_v1x",
    "is_mmcv_v2x",
    "mmcv_version",
    "patcher_logger",
    "with_imports",
]

Options = Optional[Mapping[str, Any]]


class BasePatch(ABC):
    """What a patcher can apply. A class of one's own gives ``name`` and :meth:`apply`."""

    #: Whether it is in force.
    is_applied = False

    @property
    @abstractmethod
    def name(self) -> str:
        """What it is called in ``disable`` and in messages."""

    @property
    def module(self) -> str:
        """The top-level package it is for, empty when the name does not say."""
        return self.name.partition(".")[0] if "." in self.name else ""

    @abstractmethod
    def apply(self) -> PatchResult:
        """Apply this patch alone."""

    def get_info(self, show_diff: bool = False) -> str:
        """Return a line about it; with ``show_diff`` also what it changes, where that is known."""
        return self.name

    def unit(self) -> Unit:
        """Return the patch of the core that stands for it; one of a foreign class is its :meth:`apply`, run by hand."""
        results: list[PatchResult] = []

        def run(module: Any, options: Any) -> None:
            result = self.apply()
            results.append(result)
            if isinstance(result, PatchResult) and result.status is not PatchStatus.APPLIED:
                raise _NotApplied(result.reason or result.status.value)

        module = self.module if self.module and is_there(self.module) else "sys"
        call = Call(run, module=module, roots=mentioned_packages(type(self).apply))
        return Unit(CorePatch(_as_name(self.name), [call]), [self], skips=(_NotApplied,))


class _NotApplied(Exception):
    """A patch of a foreign class has said that it was not applied."""


class _Single(BasePatch):
    """A patch that is one patch of the core."""

    def __init__(self) -> None:
        self._run: Optional[Run] = None

    def __getstate__(self) -> dict[str, Any]:
        """Return what a process needs that has not applied it."""
        state = {name: value for name, value in self.__dict__.items() if name != "is_applied"}
        return {**state, "_run": None, "_original": None}

    def apply(self) -> PatchResult:
        """Apply this patch alone; it stays applied until :meth:`revert`. Again, it changes nothing."""
        if self.is_applied:
            return self.result(Outcome(PatchStatus.APPLIED))
        run = Run([self.unit()])
        ((_, outcome),) = run.apply()
        if outcome.status is PatchStatus.APPLIED:
            self._run, self.is_applied = run, True
        return self.result(outcome)

    def revert(self) -> None:
        """Restore what :meth:`apply` has changed. Not in mx_driving.patcher."""
        if self._run is not None:
            self._run.revert()
        self._run, self.is_applied = None, False

    def result(self, outcome: Outcome) -> PatchResult:
        """Return what became of it as the API has it."""
        return PatchResult(outcome.status, self.name, self.module, outcome.reason or None)


class AtomicPatch(_Single):
    """Replaces one attribute, or wraps it.

    Args:
        target: dotted path of what is replaced, ``"mmcv.ops.deform_conv.deform_conv2d"``.
        replacement: the object, or the dotted path of one that is imported when the patch is applied.
        aliases: further paths that get the same; names bound to the target by value are found without.
        precheck: called when it is the patch's turn; false skips it. It may take ``target``, ``replacement``,
            ``replacement_wrapper``, ``target_wrapper`` and ``aliases`` by these names, or nothing.
        runtime_check: called with the arguments of each call; where it is false or raises, the original is called.
        replacement_wrapper: called with the replacement, returns what is put in its place.
        target_wrapper: called with the original, returns what is put in its place; without ``replacement`` only.

    Raises:
        ValueError: neither a replacement nor a wrapper of the target is given, or a path is malformed.
    """

    def __init__(
        self,
        target: str,
        replacement: Any = None,
        *,
        aliases: Optional[list[str]] = None,
        precheck: Optional[Callable[..., bool]] = None,
        runtime_check: Optional[Callable[..., bool]] = None,
        replacement_wrapper: Optional[Callable[[Any], Any]] = None,
        target_wrapper: Optional[Callable[[Any], Any]] = None,
    ) -> None:
        super().__init__()
        if replacement is None and target_wrapper is None:
            raise ValueError(f"AtomicPatch({target!r}): give either a replacement or target_wrapper=")
        self.target = target
        self.aliases = list(aliases or [])
        self.precheck = precheck
        self.runtime_check = runtime_check
        self._replacement = replacement
        self._replacement_wrapper = replacement_wrapper
        self._target_wrapper = target_wrapper
        self._original: Any = None

    @property
    def name(self) -> str:
        return self.target

    @property
    def replacement(self) -> Any:
        """The replacement; one that was given by its path is imported, and is ``None`` where that is not possible."""
        if not isinstance(self._replacement, str):
            return self._replacement
        try:
            found = object_at(self._replacement)
        except (ImportError, TargetNotFound):
            return None
        return found.__func__ if isinstance(found, staticmethod) else found

    def unit(self) -> Unit:
        root = self.target.partition(".")[0]
        paths = [self.target, *(path for path in self.aliases if is_there(path.partition(".")[0]))]
        if "." not in self.target or not is_there(root):
            # no target can be made of the one, and for the other nothing may be imported
            return Unit(CorePatch(_as_name(self.name)), [self], prepare=lambda: self._misfit(root))
        changes = [self._change(path) for path in paths]
        modules = list(dict.fromkeys(change.target.module for change in changes))

        def prepare() -> Optional[Skip]:
            arguments = {
                "target": self.target,
                "replacement": self._replacement,
                "replacement_wrapper": self._replacement_wrapper,
                "target_wrapper": self._target_wrapper,
                "aliases": self.aliases,
            }
            if self.precheck is not None and not _ask("precheck", self.precheck, arguments):
                return Skip("precheck failed")
            problems = [import_module(name) for name in modules]
            return Skip(problems[0]) if problems[0] is not None else None

        return Unit(CorePatch(_as_name(self.name), changes), [self], prepare=prepare)

    def get_info(self, show_diff: bool = False) -> str:
        replacement = self.replacement if self._replacement is not None else self._target_wrapper
        info = f"{self.target}: {_called(self._original, '<missing>')} -> {_called(replacement, '<None>')}"
        diff = _difference(self._original, replacement) if show_diff else ""
        return f"{info}\n{diff}" if diff else info

    def __repr__(self) -> str:
        return f"AtomicPatch({self.target})"

    def _change(self, path: str) -> SetAttribute:
        return SetAttribute(
            path,
            self._replacement,
            target_wrapper=self._target_wrapper,
            replacement_wrapper=self._replacement_wrapper,
            runtime_check=self.runtime_check,
            seen=self._saw if path == self.target else _forget,
        )

    def _saw(self, original: Any) -> None:
        self._original = original

    def _misfit(self, root: str) -> Optional[Skip]:
        if "." not in self.target:
            raise DeclarationError(f"invalid target path {self.target!r}; write 'package.module.attribute'")
        return Skip(f"module not found: {root}")


class RegistryPatch(_Single):
    """Enters a class or function in a registry of mmcv or mmengine.

    Args:
        registry: dotted path of the registry, ``"mmengine.registry.MODELS"``.
        module_cls: what is registered.
        name: under which it is; its own by default.
        force: replace an entry of that name.
        precheck: called when it is the patch's turn; false skips it. It may take ``registry``, ``module_cls``,
            ``name``, ``force`` and ``module_factory`` by these names, or nothing.
        module_factory: instead of ``module_cls``: called when the patch is applied, returns what is registered.

    Raises:
        ValueError: there is nothing to register, or no name for what the factory makes.
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

    def unit(self) -> Unit:
        root = self.registry.partition(".")[0]
        name = _as_name(self.name)
        if not is_there(root):
            return Unit(CorePatch(name), [self], prepare=lambda: Skip(f"registry not found: {self.registry}"))
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
            if self.precheck is not None and not _ask("precheck", self.precheck, arguments):
                return Skip("precheck failed")
            problem = import_module(change.target.module)
            return None if problem is None else Skip(f"registry not found: {self.registry} ({problem})")

        return Unit(CorePatch(name, [change]), [self], prepare=prepare)

    def get_info(self, show_diff: bool = False) -> str:
        what = getattr(self.module_cls, "__name__", None) or "<factory>"
        return f"{self.registry} <- {self.register_name} ({what})"

    def __repr__(self) -> str:
        return f"RegistryPatch({self.registry}, {self.register_name})"


class LegacyPatch(_Single):
    """Runs a function that patches by hand, ``func(module, options)``; what it changes is found out, and reverted.

    Args:
        func: the function. ``AttributeError`` means that it does not fit, anything else that it fails.
        options: its second argument.
        target_module: dotted name of the module that is its first argument.

    Raises:
        ValueError: there is no target module.
    """

    def __init__(self, func: Callable[..., Any], options: Options = None, target_module: Optional[str] = None) -> None:
        super().__init__()
        if target_module is None:
            name = getattr(func, "__name__", repr(func))
            raise ValueError(f"LegacyPatch lacks target_module; write LegacyPatch({name}, target_module='mmcv')")
        self.func = func
        self.options = options or {}
        self.target_module: str = target_module

    @property
    def name(self) -> str:
        explicit = getattr(self.func, "__patch_name__", None)
        own = str(explicit or getattr(self.func, "__name__", "legacy_patch"))
        return own if explicit or own != "_apply" else _outer_name(self.func)

    @property
    def module(self) -> str:
        return self.target_module

    def unit(self) -> Unit:
        if not is_there(self.target_module.partition(".")[0]):
            return Unit(CorePatch(_as_name(self.name)), [self], prepare=lambda: Skip("module not found"))
        call = Call(self.func, module=self.target_module, options=self.options, roots=mentioned_packages(self.func))

        def prepare() -> Optional[Skip]:
            problem = import_module(self.target_module)
            return None if problem is None else Skip(problem)

        return Unit(CorePatch(_as_name(self.name), [call]), [self], prepare=prepare, skips=(AttributeError,))

    def __repr__(self) -> str:
        return f"LegacyPatch({self.name})"


class _PatchMeta(ABCMeta):
    """Lets ``Patch(function)`` make a patch of API 1.0."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        function = args[0] if args else kwargs.get("func")
        if cls.__module__ == __name__ and cls.__name__ == "Patch" and callable(function):
            from patchcore.compat.mx_driving.patcher.legacy import LegacyPatchWrapper

            return LegacyPatchWrapper(*args, **kwargs)
        return super().__call__(*args, **kwargs)


class Patch(BasePatch, metaclass=_PatchMeta):
    """A group of patches, as a class that lists them (API 2.0); or a function that patches by hand (API 1.0).

    A subclass gives :meth:`patches`; patchers take the class itself. ``Patch(func, options=None, priority=0,
    patch_failure_warning=True)`` is a :class:`~patchcore.compat.mx_driving.patcher.legacy.LegacyPatchWrapper`.
    """

    #: What it is called in ``disable`` and in messages; the name of the class by default.
    name: str = ""
    #: Apply it before other classes are asked for their patches, which may import what it repairs.
    apply_before_collect = False
    #: Names of patches that cannot be applied together with it.
    conflicts_with: tuple[str, ...] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not cls.__dict__.get("name"):
            cls.name = cls.__name__

    @classmethod
    @abstractmethod
    def patches(cls, options: Options = None) -> list[BasePatch]:
        """Return the patches; called when they are applied.

        Args:
            options: what was given to ``add(..., options=...)``.
        """

    @classmethod
    def apply_all(cls, options: Options = None) -> list[PatchResult]:
        """Apply its patches without a patcher; return what became of each. They stay applied."""
        return [patch.apply() for patch in cls.patches(options)]

    def apply(self) -> PatchResult:
        """Apply its patches; return what became of them together."""
        statuses = [result.status for result in type(self).apply_all()]
        for status in (PatchStatus.FAILED, PatchStatus.APPLIED):
            count = statuses.count(status)
            if count:
                return PatchResult(status, self.name, "", f"{count} patches {status.value}")
        return PatchResult(PatchStatus.SKIPPED, self.name, "", "all patches skipped")

    def __iter__(self) -> Iterator[BasePatch]:
        return iter(self.patches())

    def __repr__(self) -> str:
        return f"Patch({self.name})"


def _ask(what: str, check: Callable[..., bool], arguments: Mapping[str, Any]) -> bool:
    """Call a check with those of the arguments that it takes by name.

    Raises:
        DeclarationError: the check raises; that is a bug in it, not a reason to skip the patch.
    """
    try:
        taken = {name: arguments[name] for name in inspect.signature(check).parameters if name in arguments}
        return bool(check(**taken))
    except Exception as error:
        raise DeclarationError(f"{what} error: {describe_error(error)}") from error


def _as_name(text: str) -> str:
    return re.sub(r"[^\w.+-]+", "_", text) or "patch"


def _outer_name(function: Callable[..., Any]) -> str:
    """Name a function ``_apply`` after the function ``build_..._patch`` that has made it."""
    parts = [part for part in function.__qualname__.split(".") if part != "<locals>"]
    outer = parts[-2] if len(parts) > 1 else parts[-1]
    if not outer.endswith("_patch"):
        return function.__name__
    return outer[: -len("_patch")][len("build_") if outer.startswith("build_") else 0 :]


def _called(obj: Any, none: str) -> str:
    if obj is None:
        return none
    return getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None) or type(obj).__name__


def _difference(original: Any, replacement: Any) -> str:
    """Return the difference between the sources of two callables, empty where one has none."""
    import difflib

    try:
        old, new = inspect.getsource(original), inspect.getsource(replacement)
    except (OSError, TypeError):
        return ""
    names = (f"original: {_called(original, '')}", f"replacement: {_called(replacement, '')}")
    return "\n".join(difflib.unified_diff(old.splitlines(), new.splitlines(), *names, lineterm=""))


def _forget(original: Any) -> None:
    """Do nothing: what an alias held is what the target held."""
