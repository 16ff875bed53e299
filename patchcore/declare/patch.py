"""A patch: a named group of changes that is applied or reverted as a whole."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Callable, Optional, Union

from patchcore.declare.changes import SIGNATURES, Change, Replace, SlotChange, Wrap, as_changes
from patchcore.declare.declaration import Declaration, as_mapping, as_tuple, check_callables
from patchcore.declare.target import Target
from patchcore.errors import DeclarationError, did_you_mean

__all__ = ["Patch", "patch", "wrap"]

#: In ``after``: every other patch that changes the same targets.
ANY_PATCH = "*"
#: Patches, each as its name or as the patch itself.
Names = Union[str, "Patch", Sequence[Union[str, "Patch"]]]

_NAME = re.compile(r"[\w.+-]+")
_PHASE = re.compile(r"((before|after):)?[\w.+-]+")


class Patch(Declaration):
    """A named group of changes that is applied or reverted as a whole.

    Args:
        name: unique, dotted by convention: ``mmcv.deform_conv``.
        changes: applied in this order.
        summary: one line for ``patchcore list``.
        requires: import packages with PEP 440 specifiers, ``["mmcv>=2,<3"]``; read from metadata without importing.
        needs: modules that must be findable, without importing them.
        when: condition called when a plan is made; returns a bool or :class:`Skip`. A function of one parameter gets
            the arguments of the program, and the patch waits until :func:`patchcore.configure` is called with them.
        after, before: patches, or their names, that this one is applied after / before. Patches of one slot that are
            ordered this way are stacked. ``after="*"`` lets it stack with every other patch of its targets, in the
            order of the plan.
        priority: a number; among patches that no ``after`` / ``before`` orders, lower goes first.
        conflicts: patches, or their names, that cannot be applied together with this one.
        needs_patches: patches, or their names, without which this one is not applied: of this plugin or of others. If
            one of them is disabled, skipped or unknown, this patch is skipped. If one fails, this patch is reverted.
        phase: the phase of the program in which it is applied, one that a plugin names with ``register_phases``, or
            ``"before:package.module"`` / ``"after:package.module"``, which the import of that module reaches. Until
            then the patch waits; see :func:`patchcore.reach`.
        keep: names in modules, ``"package.module:name"``, that keep the original, from the end of the import of their
            module on. A name that is bound later gets the original from :func:`patchcore.original`.
        signatures: ``"any"`` lets its replacements and wrappers take fewer calls than their targets: functions that
            call each other and change together, or arguments that no caller passes.
        legacy_names: other names of the patch in settings and commands: earlier ones, and those of other patchers.
        default: ``False`` registers the patch without applying it unless it is enabled by name.
        required: a failure or an unmet requirement raises even where the policy is to warn.
        options: values the patch's functions read; ``[tool.patchcore.options]`` overrides them.
        upstream: link to the issue or pull request that makes the patch unnecessary.
        remove_when: requirement under which the patch is no longer needed, ``"mmcv>=2.3"``.
        checks: one or more :class:`patchcore.Check`: inputs with which ``patchcore verify`` compares the patch with
            the original.
        count: ``False`` leaves the calls of its targets uncounted under ``--count``.

    Raises:
        DeclarationError: an argument is malformed.

    Examples:
        >>> import patchcore as pc
        >>> price = pc.Replace("shop.prices:price", "fast_shop:price")
        >>> patch = pc.Patch("shop.price", summary="a faster price", requires="shop>=2", changes=price)
        >>> print(pc.Patcher([patch]).plan())
        skipped  shop.price [local code]: requires shop>=2, shop is not installed
    """

    name: str
    changes: tuple[Change, ...]
    summary: str
    requires: tuple[str, ...]
    needs: tuple[str, ...]
    when: Optional[Callable[..., Any]]
    after: tuple[str, ...]
    before: tuple[str, ...]
    priority: int
    conflicts: tuple[str, ...]
    needs_patches: tuple[str, ...]
    phase: Optional[str]
    keep: tuple[str, ...]
    signatures: str
    legacy_names: tuple[str, ...]
    default: bool
    required: bool
    options: Mapping[str, Any]
    upstream: Optional[str]
    remove_when: Optional[str]
    checks: tuple[Any, ...]
    count: bool
    function: Optional[Callable[..., Any]]

    def __init__(
        self,
        name: str,
        changes: Union[Change, Iterable[Change]] = (),
        *,
        summary: str = "",
        requires: Union[str, Sequence[str]] = (),
        needs: Union[str, Sequence[str]] = (),
        when: Optional[Callable[..., Any]] = None,
        after: Names = (),
        before: Names = (),
        priority: int = 0,
        conflicts: Names = (),
        needs_patches: Names = (),
        phase: Optional[str] = None,
        keep: Union[str, Sequence[str]] = (),
        signatures: str = "fit",
        legacy_names: Union[str, Sequence[str]] = (),
        default: bool = True,
        required: bool = False,
        options: Optional[Mapping[str, Any]] = None,
        upstream: Optional[str] = None,
        remove_when: Optional[str] = None,
        checks: Any = (),
        count: bool = True,
        _function: Optional[Callable[..., Any]] = None,
    ) -> None:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise DeclarationError(
                f"a patch name may contain only letters, digits and '_.+-', got {name!r}; write Patch('library.what')"
            )
        where = f"Patch({name!r})"
        check_callables(where, when=when)
        for what, text in (("summary", summary), ("upstream", upstream), ("remove_when", remove_when)):
            if not isinstance(text, (str, type(None))):
                raise DeclarationError(f"{where}: {what} must be a string, got {text!r}")
        if not isinstance(priority, (int, float)):
            raise DeclarationError(
                f"{where}: priority must be a number (patches with lower numbers are applied first), got {priority!r}"
            )
        if phase is not None and not (isinstance(phase, str) and _PHASE.fullmatch(phase)):
            raise DeclarationError(f"{where}: phase must be a name or 'before:package.module', got {phase!r}")
        if signatures not in SIGNATURES:
            raise DeclarationError(f"{where}: signatures must be 'fit' or 'any', got {signatures!r}")
        made = as_changes(changes, where)
        if signatures == "any":
            made = tuple(c.evolve(signatures=signatures) if isinstance(c, SlotChange) else c for c in made)
        super().__init__(
            name=name,
            changes=made,
            summary=summary or "",
            requires=_as_names(requires, "requires", where),
            needs=_as_names(needs, "needs", where),
            when=when,
            after=_as_names(after, "after", where),
            before=_as_names(before, "before", where),
            priority=priority,
            conflicts=_as_names(conflicts, "conflicts", where),
            needs_patches=_as_names(needs_patches, "needs_patches", where),
            phase=phase,
            keep=_as_kept(keep, where),
            signatures=signatures,
            legacy_names=_as_names(legacy_names, "legacy_names", where),
            default=bool(default),
            required=bool(required),
            options=as_mapping(options, "options", where),
            upstream=upstream,
            remove_when=remove_when,
            checks=_as_checks(checks, where),
            count=bool(count),
            function=_function,
        )

    def with_options(self, options: Mapping[str, Any]) -> Patch:
        """Return this patch with ``options`` replacing its own of the same names, also in its :class:`Call` changes.

        Raises:
            DeclarationError: an option the patch does not have, where it declares any.
        """
        for option in options:
            if self.options and option not in self.options:
                raise DeclarationError(
                    f"patch {self.name} has no option {option!r}{did_you_mean(option, self.options)}"
                )
        merged = MappingProxyType({**self.options, **options})
        return self.evolve(options=merged, changes=tuple(change.with_options(options) for change in self.changes))

    @property
    def names(self) -> frozenset[str]:
        """The name and the legacy names."""
        return frozenset((self.name, *self.legacy_names))

    @property
    def only_adds(self) -> bool:
        """True when it takes nothing's place, and a library may not be importable without it."""
        return all(change.adds for change in self.changes)

    def stacks_with(self, other: Patch) -> bool:
        """True if one of the two is declared ``after`` or ``before`` the other."""
        ordered, others = (*self.after, *self.before), (*other.after, *other.before)
        if ANY_PATCH in ordered or ANY_PATCH in others:
            return True
        return not (other.names.isdisjoint(ordered) and self.names.isdisjoint(others))

    __eq__ = Declaration.__eq__

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name


def patch(
    target: Union[str, Target], *, when_call: Optional[Callable[..., Any]] = None, **declaration: Any
) -> Callable[[Callable[..., Any]], Patch]:
    """Decorate the replacement of one function; the name is bound to the :class:`Patch`.

    Args:
        target: the function to replace.
        when_call: see :class:`Replace`.
        declaration: keyword arguments of :class:`Patch`; ``name`` defaults to ``<top-level package>.<function name>``.

    Raises:
        DeclarationError: an argument is malformed or unknown, or what is decorated is no function.

    Examples:
        >>> import statistics
        >>> import patchcore as pc
        >>> @pc.patch("statistics:mean")
        ... def smallest(data):
        ...     return min(data)
        >>> with pc.Patcher([smallest]):
        ...     statistics.mean([1, 3])
        1
    """
    where = _check_decorator("patch", target, declaration)
    return lambda function: _decorate(
        function, lambda: Replace(target, function, when_call=when_call), where, declaration
    )


def wrap(target: Union[str, Target], **declaration: Any) -> Callable[[Callable[..., Any]], Patch]:
    """Decorate a wrapper ``(original, *args, **kwargs)`` of one function; the name is bound to the :class:`Patch`.

    Args:
        target: the function to wrap.
        declaration: keyword arguments of :class:`Patch`; ``name`` defaults to ``<top-level package>.<function name>``.

    Raises:
        DeclarationError: an argument is malformed or unknown, or what is decorated is no function.

    Examples:
        >>> import statistics
        >>> import patchcore as pc
        >>> @pc.wrap("statistics:mean")
        ... def doubled(original, data):
        ...     return 2 * original(data)
        >>> with pc.Patcher([doubled]):
        ...     statistics.mean([1, 3])
        4
    """
    where = _check_decorator("wrap", target, declaration)
    return lambda function: _decorate(function, lambda: Wrap(target, function), where, declaration)


def _check_decorator(decorator: str, target: Any, declaration: Mapping[str, Any]) -> str:
    if not isinstance(target, (str, Target)):
        raise DeclarationError(f"@{decorator} has no target; write @{decorator}('package.module:attribute')")
    where = f"@{decorator}({str(target)!r})"
    for argument in declaration:
        if argument not in _DECLARABLE:
            raise DeclarationError(f"{where}: unknown argument {argument!r}{did_you_mean(argument, _DECLARABLE)}")
    return where


def _decorate(function: Any, change: Callable[[], Change], where: str, declaration: Mapping[str, Any]) -> Patch:
    if isinstance(function, Patch) or not callable(function):
        raise DeclarationError(
            f"{where} decorates a function, got {function!r}; "
            "for several targets write Patch('library.what', [Replace(...), Replace(...)])"
        )
    name = getattr(function, "__name__", None)
    given = dict(declaration)
    if name is None and "name" not in given:
        raise DeclarationError(f"{where}: {function!r} has no __name__; pass name='library.what'")
    root = (getattr(function, "__module__", None) or "").partition(".")[0]
    given.setdefault("name", f"{root}.{name}")
    given.setdefault("summary", (inspect.getdoc(function) or "").partition("\n")[0])
    patch = Patch(changes=change(), _function=function, **given)
    if getattr(function, "__qualname__", None) == name:
        # The module's name now means the patch. pickle finds a function by its qualified name, so it gets a true one.
        function.__qualname__ = f"{name}.function"
    return patch


_DECLARABLE = [name for name in Patch.__annotations__ if name not in ("changes", "function")]


def _as_names(value: Any, what: str, where: str) -> tuple[str, ...]:
    listed = (value,) if isinstance(value, Patch) else as_tuple(value, what, where)
    names = tuple(item.name if isinstance(item, Patch) else item for item in listed)
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise DeclarationError(f"{where}: {what} contains {name!r}; expected a string")
    return names


def _as_kept(value: Any, where: str) -> tuple[str, ...]:
    kept = _as_names(value, "keep", where)
    for name in kept:
        if not Target.parse(name).module:
            raise DeclarationError(f"{where}: keep contains {name!r}; write 'package.module:name'")
    return tuple(str(Target.parse(name)) for name in kept)


def _as_checks(checks: Any, where: str) -> tuple[Any, ...]:
    listed = (checks,) if isinstance(checks, Declaration) else as_tuple(checks, "checks", where)
    for check in listed:
        if not isinstance(check, Declaration):
            raise DeclarationError(f"{where}: checks contains {check!r}; expected Check(...)")
    return listed
