"""Changes: the edits a patch is made of, as immutable declarations.

Nothing here touches another library. A change says *what* is to be edited; :mod:`patchcore.engine` does it, and asks the
change only two things: which slot, and what to put there.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Callable, Optional, Union

from patchcore import binding
from patchcore.errors import DeclarationError, TargetError
from patchcore.target import ABSENT, ClassSlot, Item, Slot, Target, find_slot

__all__ = ["Call", "Change", "Declaration", "Literal", "Register", "Replace", "Skip", "SlotChange", "Wrap", "resolve"]

#: Where the registries of mmcv 1.x and mmengine keep their table (mmengine 0.10 ``registry/registry.py``).
REGISTRY_TABLE = "_module_dict"


class Declaration:
    """An immutable value: fields are set once, in ``__init__``, and compared; callables and other objects by identity.

    A dataclass would do, at about a millisecond of import time for each.
    """

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; make another one instead of setting {name}")

    __delattr__ = __setattr__  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._key() == other._key()  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items() if value)
        return f"{type(self).__name__}({fields})"

    def evolve(self, **fields: Any) -> Any:
        """Return a copy with some fields changed; the values are not checked again."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, **fields)
        return made

    def _key(self) -> tuple[Any, ...]:
        return tuple(_comparable(value) for value in self.__dict__.values())


class Skip(Declaration):
    """Returned by a ``when`` condition or a ``before_apply`` hook: do not apply, and why.

    Args:
        reason: shown in the plan and in the report.
    """

    reason: str

    def __init__(self, reason: str) -> None:
        super().__init__(reason=reason)


class Literal(Declaration):
    """Marks a text that is a value, where a text would be read as a target: ``Replace("m:VERSION", Literal("2.0"))``."""

    value: str

    def __init__(self, value: str) -> None:
        super().__init__(value=value)


class Change(Declaration):
    """One declarative edit. ``target`` is what it edits, or the module it waits for."""

    target: Target

    @property
    def kind(self) -> str:
        """The word for this change in reports: ``replace``, ``wrap``, ``register``, ``call``."""
        return type(self).__name__.lower()

    @property
    def source(self) -> Any:
        """The object that says where the new behaviour is written, for ``explain``; a target while unresolved."""
        raise NotImplementedError

    def __str__(self) -> str:
        return f"{self.kind} {self.target}"


class SlotChange(Change):
    """A change of one slot."""

    @property
    def makes_product(self) -> bool:
        """True when what goes into the slot is made for it, false when it is an object that exists without the patch."""
        return False

    def find_slot(self, target: Target, module: Any) -> Slot:
        """Return the slot of ``target`` (this change's target, with its module) in ``module``.

        Raises:
            TargetNotFound, TargetError: see :func:`patchcore.target.find_slot`.
        """
        return find_slot(target, module)

    def build(self, below: Any, slot: Slot) -> Any:
        """Return the raw value to put in ``slot`` where a lookup finds ``below`` now, or a :class:`Skip`.

        May import the replacement, and may be called again when the layers below change.
        """
        raise NotImplementedError


class Replace(SlotChange):
    """Put an object in the place of the target's.

    Args:
        target: what is replaced, ``package.module:Class.attribute``.
        replacement: the object, or a target text that is imported when the patch is applied. A text that is itself the
            value is given as ``Literal(text)``. A function takes the form of what it replaces (static, class method,
            property getter).
        factory: instead of ``replacement``: called with what is there now, returns the object (a subclass of it, say).
        when_call: predicate over the arguments of each call that chooses between replacement (true) and original. Only
            the predicate decides; an exception of the replacement reaches the caller.
        create: add the attribute where it is missing, and leave it alone where it exists.
        aliases: further targets that get the same replacement. Rarely needed: by-value references are found.

    Raises:
        DeclarationError: an argument is malformed.
    """

    replacement: Any
    factory: Optional[Callable[[Any], Any]]
    when_call: Optional[Callable[..., Any]]
    create: bool
    aliases: tuple[Target, ...]

    def __init__(
        self,
        target: Union[str, Target],
        replacement: Any = ABSENT,
        *,
        factory: Optional[Callable[[Any], Any]] = None,
        when_call: Optional[Callable[..., Any]] = None,
        create: bool = False,
        aliases: Sequence[Union[str, Target]] = (),
    ) -> None:
        if (replacement is ABSENT) == (factory is None):
            raise DeclarationError(f"Replace({str(target)!r}): give either a replacement or factory=")
        check_callables(f"Replace({str(target)!r})", factory=factory, when_call=when_call)
        if create and when_call is not None:
            raise DeclarationError(f"Replace({str(target)!r}): create=True has no original for when_call= to choose")
        super().__init__(
            target=_as_target(target),
            replacement=_as_reference(replacement, f"Replace({str(target)!r})"),
            factory=factory,
            when_call=when_call,
            create=create,
            aliases=tuple(_as_target(alias) for alias in as_tuple(aliases, "aliases", f"Replace({str(target)!r})")),
        )

    @property
    def source(self) -> Any:
        return self.replacement if self.factory is None else self.factory

    @property
    def makes_product(self) -> bool:
        return self.when_call is not None or self.factory is not None

    def expand(self) -> tuple[Replace, ...]:
        """Return this change without aliases, followed by one change for each alias."""
        if not self.aliases:
            return (self,)
        return tuple(self.evolve(target=target, aliases=()) for target in (self.target, *self.aliases))

    def find_slot(self, target: Target, module: Any) -> Slot:
        return find_slot(target, module, may_be_absent=self.create)

    def build(self, below: Any, slot: Slot) -> Any:
        in_class = isinstance(slot, ClassSlot)
        if self.create and below is not ABSENT:
            return Skip(f"{slot.name} exists already")
        if below is ABSENT and (self.when_call or self.factory):
            raise TargetError(
                f"{slot.name} is loaded lazily, there is no original yet; target the module that defines it"
            )
        value = self.factory(binding.reference(below)) if self.factory is not None else resolve(self.replacement)
        if self.when_call is not None:
            return binding.dispatch(below, value, self.when_call, in_class=in_class)
        return binding.bind_like(below, value, in_class=in_class)


class Wrap(SlotChange):
    """Call ``wrapper(original, *args, **kwargs)`` in the place of the target.

    Args:
        target: a function, method, static or class method, or property (its getter is wrapped).
        wrapper: the callable, or a target text that is imported when the patch is applied. The original comes first, then
            the arguments of the call with ``self`` / ``cls``.

    Raises:
        DeclarationError: an argument is malformed.
    """

    wrapper: Any

    def __init__(self, target: Union[str, Target], wrapper: Union[str, Callable[..., Any]]) -> None:
        where = f"Wrap({str(target)!r})"
        if not isinstance(wrapper, str):
            check_callables(where, wrapper=wrapper)
        super().__init__(target=_as_target(target), wrapper=_as_reference(wrapper, where))

    @property
    def source(self) -> Any:
        return self.wrapper

    @property
    def makes_product(self) -> bool:
        return True

    def build(self, below: Any, slot: Slot) -> Any:
        if below is ABSENT:
            raise TargetError(
                f"{slot.name} is loaded lazily, there is no original yet; target the module that defines it"
            )
        return binding.wrap(below, resolve(self.wrapper), in_class=isinstance(slot, ClassSlot))


class Register(SlotChange):
    """Enter a class or function in a registry of mmcv 1.x or mmengine; undone like any slot.

    Args:
        registry: target of the registry object, ``mmengine.registry:MODELS``.
        cls: the class or function, or a target text that is imported when the patch is applied.
        name: the name it is registered under; default its own name.
        force: replace an entry of that name; ``False`` makes an existing entry an error.

    Raises:
        DeclarationError: an argument is malformed.
    """

    registry: Target
    cls: Any
    force: bool

    def __init__(
        self, registry: Union[str, Target], cls: Any, *, name: Optional[str] = None, force: bool = True
    ) -> None:
        where = f"Register({str(registry)!r})"
        cls = _as_reference(cls, where)
        if name is None:
            name = str(cls.path[-1]) if isinstance(cls, Target) else getattr(cls, "__name__", None)
            if name is None:
                raise DeclarationError(f"{where}: {cls!r} has no __name__; give name=")
        table = _as_target(registry)
        target = Target(table.module, (*table.path, REGISTRY_TABLE, Item(name)))
        super().__init__(target=target, registry=table, cls=cls, force=force)

    @property
    def source(self) -> Any:
        return self.cls

    def find_slot(self, target: Target, module: Any) -> Slot:
        return find_slot(target, module, may_be_absent=True)

    def build(self, below: Any, slot: Slot) -> Any:
        if below is not ABSENT and not self.force:
            raise DeclarationError(
                f"{self.registry} has {slot.key!r} already ({below!r}); register it with force=True to replace it"
            )
        return resolve(self.cls)


class Call(Change):
    """Run a function that patches by hand, ``func(module, options)``, once ``module`` is imported.

    The engine compares the modules and classes under the module's top-level package before and after, so that every edit
    is reported and reverted one by one.

    Args:
        func: the function, or a target text that is imported when the patch is applied.
        module: dotted name of the module that is handed to the function.
        options: second argument of the function, a mapping.

    Raises:
        DeclarationError: an argument is malformed.
    """

    func: Any
    options: Mapping[str, Any]

    def __init__(
        self, func: Union[str, Callable[..., Any]], *, module: str, options: Optional[Mapping[str, Any]] = None
    ) -> None:
        where = f"Call({func!r}, module={module!r})"
        if not isinstance(func, str):
            check_callables(where, func=func)
        # an attribute every module has makes the module itself the thing waited for
        target = Target.parse(f"{module}:__dict__")
        super().__init__(target=target, func=_as_reference(func, where), options=MappingProxyType(dict(options or {})))

    @property
    def source(self) -> Any:
        return self.func

    def run(self, module: Any) -> None:
        """Call the function with ``module`` and the options."""
        resolve(self.func)(module, dict(self.options))

    def __str__(self) -> str:
        name = self.func if isinstance(self.func, Target) else getattr(self.func, "__qualname__", repr(self.func))
        return f"call {name}({self.target.module})"


def resolve(reference: Any) -> Any:
    """Return the object a change refers to: import a :class:`Target`, open a :class:`Literal`, pass anything else.

    A static or class method is returned raw, so that it keeps its form in the slot it goes to.

    Raises:
        TargetNotFound: the module or the attribute does not exist.
        Exception: what importing the module raised.
    """
    if isinstance(reference, Literal):
        return reference.value
    if not isinstance(reference, Target):
        return reference
    value: Any = importlib.import_module(reference.module)
    for depth, step in enumerate(reference.path):
        if isinstance(value, type) and depth + 1 == len(reference.path):
            value = find_slot(reference, importlib.import_module(reference.module)).lookup()
        elif isinstance(step, Item):
            value = value[step.key]
        else:
            try:
                value = getattr(value, step)
            except AttributeError:
                find_slot(reference, importlib.import_module(reference.module))  # raises with the nearest name
                raise
    return value


def _comparable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return tuple((key, _comparable(item)) for key, item in value.items())
    return value if isinstance(value, (str, int, tuple, Declaration)) else id(value)


def _as_target(target: Union[str, Target]) -> Target:
    return target if isinstance(target, Target) else Target.parse(target)


def _as_reference(value: Any, where: str) -> Any:
    if not isinstance(value, str):
        return value
    if ":" not in value:
        raise DeclarationError(
            f"{where}: the text {value!r} is read as the target of the replacement and lacks its ':'; "
            f"write 'package.module:attribute', or Literal({value!r}) for the text itself"
        )
    return Target.parse(value)


def as_tuple(value: Any, what: str, where: str) -> tuple[Any, ...]:
    if isinstance(value, (str, Target)):
        return (value,)
    try:
        return tuple(value)
    except TypeError:
        raise DeclarationError(f"{where}: {what} is a list, got {value!r}") from None


def check_callables(where: str, **values: Any) -> None:
    for name, value in values.items():
        if value is not None and not callable(value):
            raise DeclarationError(f"{where}: {name} must be callable, got {value!r}")
