"""A patch: a named group of changes that is applied or reverted as a whole."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Callable, Optional, Union

from patchcore.changes import Call, Change, Declaration, Replace, Wrap, as_tuple, check_callables
from patchcore.errors import DeclarationError, did_you_mean

__all__ = ["Patch", "patch", "wrap"]

_NAME = re.compile(r"[\w.+-]+")


class Patch(Declaration):
    """A named group of changes that is applied or reverted as a whole.

    Args:
        name: unique, dotted by convention: ``mmcv.deform_conv``.
        changes: applied in this order.
        summary: one line for ``patchcore list``.
        requires: import packages with PEP 440 specifiers, ``["mmcv>=2,<3"]``; read from metadata without importing.
        needs: modules that must be findable, without importing them.
        when: condition called when a plan is made; returns a bool or :class:`Skip`.
        after, before: names of patches this one is applied after / before; same-slot patches ordered so are stacked.
        priority: among patches that no ``after`` / ``before`` orders, lower goes first.
        conflicts: names of patches that cannot be applied together with this one.
        legacy_names: other names the patch answers to in enable / disable.
        default: ``False`` registers the patch without applying it unless it is enabled by name.
        required: a failure or an unmet requirement raises even where the policy is to warn.
        options: values the patch's functions read; ``[tool.patchcore.options]`` overrides them.
        upstream: link to the issue or pull request that makes the patch unnecessary.
        remove_when: requirement under which the patch is no longer needed, ``"mmcv>=2.3"``.
        checks: inputs for ``patchcore verify``.

    Raises:
        DeclarationError: an argument is malformed.
    """

    name: str
    changes: tuple[Change, ...]
    summary: str
    requires: tuple[str, ...]
    needs: tuple[str, ...]
    when: Optional[Callable[[], Any]]
    after: tuple[str, ...]
    before: tuple[str, ...]
    priority: int
    conflicts: tuple[str, ...]
    legacy_names: tuple[str, ...]
    default: bool
    required: bool
    options: Mapping[str, Any]
    upstream: Optional[str]
    remove_when: Optional[str]
    checks: tuple[Any, ...]
    function: Optional[Callable[..., Any]]

    def __init__(
        self,
        name: str,
        changes: Iterable[Change] = (),
        *,
        summary: str = "",
        requires: Union[str, Sequence[str]] = (),
        needs: Union[str, Sequence[str]] = (),
        when: Optional[Callable[[], Any]] = None,
        after: Union[str, Sequence[str]] = (),
        before: Union[str, Sequence[str]] = (),
        priority: int = 0,
        conflicts: Union[str, Sequence[str]] = (),
        legacy_names: Union[str, Sequence[str]] = (),
        default: bool = True,
        required: bool = False,
        options: Optional[Mapping[str, Any]] = None,
        upstream: Optional[str] = None,
        remove_when: Optional[str] = None,
        checks: Sequence[Any] = (),
        _function: Optional[Callable[..., Any]] = None,
    ) -> None:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise DeclarationError(
                f"a patch name is made of letters, digits and '_.+-', got {name!r}; write Patch('library.what')"
            )
        where = f"Patch({name!r})"
        check_callables(where, when=when)
        super().__init__(
            name=name,
            changes=_as_changes(changes, where),
            summary=summary,
            requires=_as_names(requires, "requires", where),
            needs=_as_names(needs, "needs", where),
            when=when,
            after=_as_names(after, "after", where),
            before=_as_names(before, "before", where),
            priority=priority,
            conflicts=_as_names(conflicts, "conflicts", where),
            legacy_names=_as_names(legacy_names, "legacy_names", where),
            default=bool(default),
            required=bool(required),
            options=MappingProxyType(dict(options or {})),
            upstream=upstream,
            remove_when=remove_when,
            checks=tuple(checks),
            function=_function,
        )

    def with_options(self, options: Mapping[str, Any]) -> Patch:
        """Return this patch with ``options`` laid over its own, handed to its :class:`Call` changes too.

        Raises:
            DeclarationError: an option the patch does not have, where it declares any.
        """
        for option in options:
            if self.options and option not in self.options:
                raise DeclarationError(
                    f"patch {self.name} has no option {option!r}{did_you_mean(option, self.options)}"
                )
        merged = MappingProxyType({**self.options, **options})
        changes = tuple(
            c.evolve(options=MappingProxyType({**c.options, **options})) if isinstance(c, Call) else c
            for c in self.changes
        )
        return self.evolve(options=merged, changes=changes)

    @property
    def names(self) -> frozenset[str]:
        """The name and the legacy names."""
        return frozenset((self.name, *self.legacy_names))

    def stacks_with(self, other: Patch) -> bool:
        """Tell whether one of the two is declared ``after`` or ``before`` the other."""
        return not (
            other.names.isdisjoint((*self.after, *self.before)) and self.names.isdisjoint((*other.after, *other.before))
        )

    __eq__ = Declaration.__eq__

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name


def patch(
    target: str, *, when_call: Optional[Callable[..., Any]] = None, **declaration: Any
) -> Callable[[Callable[..., Any]], Patch]:
    """Decorate the replacement of one function; the name is bound to the :class:`Patch`.

    Args:
        target: what the decorated function replaces.
        when_call: see :class:`Replace`.
        declaration: keyword arguments of :class:`Patch`; ``name`` defaults to ``<top-level package>.<function name>``.
    """

    def decorate(function: Callable[..., Any]) -> Patch:
        return _decorated(function, Replace(target, function, when_call=when_call), declaration)

    return decorate


def wrap(target: str, **declaration: Any) -> Callable[[Callable[..., Any]], Patch]:
    """Decorate a wrapper ``(original, *args, **kwargs)`` of one function; the name is bound to the :class:`Patch`.

    Args:
        target: what the decorated function wraps.
        declaration: keyword arguments of :class:`Patch`; ``name`` defaults to ``<top-level package>.<function name>``.
    """

    def decorate(function: Callable[..., Any]) -> Patch:
        return _decorated(function, Wrap(target, function), declaration)

    return decorate


def _decorated(function: Callable[..., Any], change: Change, declaration: Mapping[str, Any]) -> Patch:
    module, name = getattr(function, "__module__", "") or "", getattr(function, "__name__", "")
    declaration = dict(declaration)
    declared = declaration.pop("name", f"{module.partition('.')[0]}.{name}")
    declaration.setdefault("summary", (inspect.getdoc(function) or "").partition("\n")[0])
    if getattr(function, "__qualname__", None) == name:
        # The module's name now means the patch: say where the function is, so that it can be pickled.
        function.__qualname__ = f"{name}.function"
    try:
        return Patch(declared, [change], _function=function, **declaration)
    except TypeError as error:
        known = inspect.signature(Patch).parameters
        unknown = next((key for key in declaration if key not in known), None)
        if unknown is None:
            raise
        raise DeclarationError(
            f"patch {declared}: no such argument {unknown!r}{did_you_mean(unknown, known)}"
        ) from error


def _as_names(value: Any, what: str, where: str) -> tuple[str, ...]:
    names = tuple(item.name if isinstance(item, Patch) else item for item in as_tuple(value, what, where))
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise DeclarationError(f"{where}: {what} holds {name!r}; expected text")
    return names


def _as_changes(changes: Any, where: str) -> tuple[Change, ...]:
    found = (changes,) if isinstance(changes, Change) else as_tuple(changes, "changes", where)
    expanded: list[Change] = []
    for change in found:
        if not isinstance(change, Change):
            raise DeclarationError(f"{where}: {change!r} is not a change; expected Replace, Wrap, Register or Call")
        expanded.extend(change.expand() if isinstance(change, Replace) else (change,))
    return tuple(expanded)
