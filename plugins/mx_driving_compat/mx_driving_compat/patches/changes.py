"""Kinds of changes for patches of the API, which migrations expect to differ from those of patchcore.

Differences to :class:`patchcore.Replace`: whether a target exists is found out when it is written, and one that does
not is skipped; the path may lead into a stub; a predicate that raises chooses the original.
"""

from __future__ import annotations

import functools
import sys
from types import CellType
from typing import TYPE_CHECKING, Any, Callable, Optional

from mx_driving_compat.messages.logger import patcher_logger
from mx_driving_compat.patches.paths import Missing, locate, object_at, reference_to, target_of
from patchcore import DeclarationError, Register, Skip, Target, TargetNotFound
from patchcore.plugin import (
    ABSENT,
    Change,
    ClassSlot,
    Declaration,
    Slot,
    SlotChange,
    StubModule,
    bind_like,
    copy_metadata,
    describe_error,
    did_you_mean,
    held_value,
    is_class,
    is_initializing,
    make_dispatcher,
    resolve,
    wrapped_callable,
)

if TYPE_CHECKING:
    from patchcore.plugin import Counter

__all__ = ["FillStub", "RegisterProduct", "SetAttribute"]

Wrapper = Callable[[Any], Any]


class _FoundWhenWritten:
    """Finds the target when the change is written, not when it is planned."""

    @property
    def libraries(self) -> tuple[str, ...]:
        return ()

    def find_slot(self, target: Target, module: Any) -> Slot:
        return locate(target, module)


class SetAttribute(_FoundWhenWritten, SlotChange):
    """The change of an ``AtomicPatch``: replaces the target, or wraps it.

    Args:
        target: the place that is replaced or wrapped.
        given: a tuple of the object, or of the dotted path of one that is imported when the patch is applied; or of
            ``None``.
        target_wrapper: called with the original where there is no replacement; returns the object to write.
        replacement_wrapper: called with the replacement, returns the object to write.
        runtime_check: predicate over the arguments of each call that chooses the replacement; where it raises, the
            original is called.
        seen: gets the original.
    """

    given: tuple[Any]
    target_wrapper: Optional[Wrapper]
    replacement_wrapper: Optional[Wrapper]
    runtime_check: Optional[Callable[..., Any]]
    seen: Optional[CellType]

    def __init__(
        self,
        target: Target,
        given: tuple[Any],
        *,
        target_wrapper: Optional[Wrapper],
        replacement_wrapper: Optional[Wrapper],
        runtime_check: Optional[Callable[..., Any]],
        seen: Optional[CellType],
    ) -> None:
        super().__init__(
            target=target,
            given=given,
            target_wrapper=target_wrapper,
            replacement_wrapper=replacement_wrapper,
            runtime_check=runtime_check,
            seen=seen,
        )

    def _key(self) -> tuple[Any, ...]:
        return Declaration._key(self.evolve(seen=None))  # it does not change the written object

    @property
    def replacement(self) -> Any:
        """The replacement as it was given: the object, its path, or ``None``."""
        return self.given[0]

    @property
    def kind(self) -> str:
        return "replace" if self.replacement is not None else "wrap"

    @property
    def source(self) -> Any:
        if not isinstance(self.replacement, str):
            return self.replacement if self.replacement is not None else self.target_wrapper
        target = reference_to(self.replacement)
        loaded = sys.modules.get(target.module)
        # A module that applies the patch while it is being imported must not wait for itself.
        return self.replacement if loaded is not None and is_initializing(loaded) else target

    @property
    def makes_product(self) -> bool:
        counts = self.counter is not None and self.counter.in_use
        made = self.replacement is None or self.replacement_wrapper is not None or self.runtime_check is not None
        return made or counts

    def counted(self) -> Change:
        from patchcore.plugin import Counter  # for those who count

        return self.evolve(counter=Counter(branches=self.runtime_check is not None and self.replacement is not None))

    def build(self, below: Any, slot: Slot) -> Any:
        if isinstance(slot, Missing):
            return Skip(f"target not found: {slot.why}")
        in_stub = issubclass(type(slot.owner), StubModule)
        if below is ABSENT and not slot.is_promised and not in_stub:
            return Skip(f"target not found: {slot.name}{did_you_mean(str(slot.key), slot.names())}")
        if below is not ABSENT:
            below = slot.as_own(below)
            if self.seen is not None:
                self.seen.cell_contents = wrapped_callable(below)
        replacement = self.replacement
        if replacement is None:
            return self._wrapped(below, slot)
        try:
            replacement = object_at(replacement) if isinstance(replacement, str) else replacement
        except (ImportError, TargetNotFound) as error:
            return Skip(f"replacement not found: {describe_error(error)}")
        if self.replacement_wrapper is not None:
            replacement = _call("replacement_wrapper", self.replacement_wrapper, held_value(replacement))
        in_class = isinstance(slot, ClassSlot)
        if self.runtime_check is not None and callable(wrapped_callable(below)):
            return _choose(below, replacement, guarded(self.runtime_check, slot.name), in_class, self.counter)
        return self.count(bind_like(below, replacement, in_class=in_class), slot)

    def _wrapped(self, below: Any, slot: Slot) -> Any:
        assert self.target_wrapper is not None
        if below is ABSENT or below is None:
            return Skip("original not found for target_wrapper")
        original = below.__func__ if isinstance(below, (staticmethod, classmethod)) else below
        value = _call("target_wrapper", self.target_wrapper, original)
        return self.count(bind_like(below, value, in_class=isinstance(slot, ClassSlot)), slot)


class FillStub(SlotChange):
    """Adds a plugin's replacement to a stub of the library.

    A migration makes a library importable that is not there, and has the few functions that its model calls replaced.

    Args:
        target: in a module that is a stub.
        change: of the plugin's patch; its source is the replacement.
    """

    change: Change

    may_be_absent = True

    def __init__(self, target: Target, change: Change) -> None:
        super().__init__(target=target, change=change)

    @property
    def kind(self) -> str:
        return "fill-stub"

    @property
    def source(self) -> Any:
        return self.change.source

    @property
    def libraries(self) -> tuple[str, ...]:
        return ()

    def build(self, below: Any, slot: Slot) -> Any:
        return resolve(self.change.source)


class RegisterProduct(_FoundWhenWritten, Register):
    """The change of a ``RegistryPatch``: registers a class, which a factory may make when the patch is applied.

    Args:
        registry: dotted path of the registry.
        make: returns the class.
        name: under which it is registered.
        force: replace an entry of that name.
        source: the class, or its factory, for reports.
    """

    make: Callable[[], Any]

    makes_product = True

    def __init__(self, registry: str, make: Callable[[], Any], *, name: str, force: bool, source: Any) -> None:
        super().__init__(target_of(registry), source, name=name, force=force)
        self.__dict__.update(make=make)

    def _key(self) -> tuple[Any, ...]:
        return Declaration._key(self.evolve(make=None))  # source identifies the product of the factory

    def build(self, below: Any, slot: Slot) -> Any:
        if isinstance(slot, Missing):
            return Skip(f"registry not found: {slot.why}")
        if below is not ABSENT and not self.force:
            raise DeclarationError(f"{slot.key} is already registered in {self.registry}; register it with force=True")
        return _call("factory", self.make)


def _call(what: str, function: Callable[..., Any], *args: Any) -> Any:
    """Call a function of the migration; an error names the function."""
    try:
        return function(*args)
    except Exception as error:
        raise DeclarationError(f"{what} error: {describe_error(error)}") from error


def _choose(
    below: Any, replacement: Any, decides: Callable[..., Any], in_class: bool, counter: Optional[Counter]
) -> Any:
    if not callable(wrapped_callable(replacement)):
        return bind_like(below, replacement, in_class=in_class)
    if not is_class(below):
        return make_dispatcher(below, replacement, decides, in_class=in_class, counter=counter)

    def choose(*args: Any, **kwargs: Any) -> Any:  # as in mx_driving.patcher, a function replaces the class
        return (replacement if decides(*args, **kwargs) else below)(*args, **kwargs)

    return copy_metadata(choose, below)


def guarded(check: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a predicate that is false if ``check`` raises, so that the original is called."""

    @functools.wraps(check, updated=())
    def decides(*args: Any, **kwargs: Any) -> bool:
        try:
            return bool(check(*args, **kwargs))
        except Exception as error:
            patcher_logger.debug(f"the runtime_check of {name} raised {describe_error(error)}; the original is called")
            return False

    return decides
