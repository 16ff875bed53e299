"""Changes: the edits a patch is made of, as immutable declarations.

Nothing here touches another library. A change names the target and the new value. The class of the change selects the
:class:`~patchcore.engine.writers.Writer` that makes the edit; the hook ``register_writers`` adds further kinds of
change.

The methods that build the value for a slot import :mod:`patchcore.declare.slots` and :mod:`patchcore.objects.binding`
themselves. An engine has loaded both by then. A program that only declares patches, as the import of a plugin does,
loads neither: they are two thirds of the time of ``import patchcore``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

from patchcore.declare.declaration import Declaration, as_tuple, check_callables
from patchcore.declare.target import Item, Target, object_at
from patchcore.errors import CONTAINED, DeclarationError, TargetError
from patchcore.objects.modules import ABSENT, is_class

if TYPE_CHECKING:
    from patchcore.declare.slots import BodySlot, Slot
    from patchcore.objects.counting import Counter

__all__ = [
    "SIGNATURES",
    "Change",
    "Literal",
    "Register",
    "Replace",
    "Skip",
    "SlotChange",
    "Wait",
    "Wrap",
    "as_callable",
    "as_changes",
    "as_reference",
    "needed_libraries",
    "resolve",
]


#: The values of ``Patch(signatures=...)``.
SIGNATURES = ("fit", "any")
#: The value of ``Replace(create=)`` that also replaces what exists.
ALWAYS = "always"


class Skip(Declaration):
    """Returned by a ``when`` condition or a ``before_apply`` hook: do not apply, and why.

    Args:
        reason: shown in the plan and in the report.

    Examples:
        >>> import os
        >>> import patchcore as pc
        >>> def when():
        ...     return "SHOP" in os.environ or pc.Skip("there is no shop")
        >>> patch = pc.Patch("demo.mean", when=when, changes=pc.Replace("statistics:mean", min))
        >>> [(entry.verdict, entry.reason) for entry in pc.Patcher([patch]).plan()]
        [('skipped', 'there is no shop')]
    """

    reason: str

    def __init__(self, reason: str) -> None:
        super().__init__(reason=reason)


class Wait(Declaration):
    """Returned by a ``before_apply`` hook: do not apply the patch yet. :meth:`patchcore.Patcher.proceed` applies it.

    Args:
        reason: shown in the plan and in the report, ``"waits for the first step"``.
        ended: called once the patch does not wait any more: it goes on, or it is reverted. May be called again.

    Examples:
        >>> import statistics
        >>> import patchcore as pc
        >>> class Plugin:
        ...     @pc.hookimpl
        ...     def before_apply(self, patch, context):
        ...         return pc.Wait("waits for the first step")
        >>> patcher = pc.Patcher([pc.Patch("demo.mean", changes=pc.Replace("statistics:mean", min))])
        >>> patcher.plugins.add(Plugin(), "demo")
        >>> with patcher:
        ...     print(patcher.report()["demo.mean"].reason)
        ...     patcher.proceed("demo.mean")
        ...     print(statistics.mean([1, 3]))
        waits for the first step
        1
    """

    reason: str
    ended: Optional[Callable[[], None]]

    def __init__(self, reason: str, *, ended: Optional[Callable[[], None]] = None) -> None:
        check_callables(f"Wait({reason!r})", ended=ended)
        super().__init__(reason=reason, ended=ended)


class Literal(Declaration):
    """Marks a text that is itself the value, and not a target: ``Replace("m:VERSION", Literal("2.0"))``.

    Examples:
        >>> import string
        >>> import patchcore as pc
        >>> patch = pc.Patch("demo.digits", changes=pc.Replace("string:digits", pc.Literal("01")))
        >>> with pc.Patcher([patch]):
        ...     string.digits
        '01'
    """

    value: str

    def __init__(self, value: str) -> None:
        super().__init__(value=value)


class Change(Declaration):
    """One declarative edit. ``target`` is the place that it edits, or the module whose import it waits for.

    Examples:
        A change that a writer of a plugin makes:

        >>> from patchcore import Target
        >>> from patchcore.plugin import Change
        >>> class SetVariable(Change):
        ...     waits = False  # for no import
        ...
        ...     def __init__(self, name, value):
        ...         super().__init__(target=Target.parse(f'os:environ["{name}"]'), name=name, value=value)
        >>> str(SetVariable("SHOP", "1").target)
        "os:environ['SHOP']"
    """

    target: Target

    #: True if it is written after the import of the target's module, false if it must be in force before that import.
    waits = True
    #: True if it also makes sense for a library that is a stub, which can be imported and has no content.
    fits_stubs = False
    #: True if the modules that it provides have content, which other patches may change.
    provides_content = False
    #: True if a function of the author makes the edits itself, and patchcore finds them afterwards.
    by_hand = False
    #: True if it writes an entry of a registry: no name holds an entry by value.
    enters_registry = False
    #: True if another patch may change the slots that it writes without a declared order.
    shares_slots = False
    #: The one module that sees the change, through its own name for another module; ``None`` for all modules.
    only_in: Optional[str] = None

    @property
    def kind(self) -> str:
        """The word for this change in reports, see :class:`patchcore.report.ChangeRecord`."""
        return type(self).__name__.lower()

    @property
    def makes_product(self) -> bool:
        """True if patchcore creates the written object (a wrapper, a dispatcher), false if it exists anyway."""
        return False

    @property
    def covers(self) -> bool:
        """True if calls of the target no longer reach the earlier object, unless the replacement calls it."""
        return False

    @property
    def libraries(self) -> tuple[str, ...]:
        """The top-level packages that must be importable for this change to make sense."""
        return (self.target.root,)

    @property
    def provides(self) -> tuple[str, ...]:
        """The modules, by full name, that this change makes importable, whether they are installed or not."""
        return ()

    @property
    def source(self) -> Any:
        """The object whose source is shown as the new behaviour; a target as long as it is not resolved."""
        raise NotImplementedError

    @property
    def replaces(self) -> bool:
        """True if :attr:`source` itself takes the place of the original, so that the two can be compared."""
        return False

    @property
    def predicate(self) -> Optional[Callable[..., Any]]:
        """The function that decides for each call whether the replacement gets it; ``None``: it gets every call."""
        return None

    @property
    def runs(self) -> Sequence[Any]:
        """The objects whose code runs where the change is in force, or their targets."""
        return ()

    @property
    def script_words(self) -> tuple[str, ...]:
        """Texts; ``patchcore run`` applies the patch before a script with one of them is compiled."""
        return ()

    def claims(self, target: Target) -> tuple[Target, ...]:
        """Return the targets that no second patch may change without a declared order.

        Args:
            target: of this change, with its module.
        """
        return (target,)

    def expand(self) -> tuple[Change, ...]:
        """Return the changes that this one is short for."""
        return (self,)

    def with_options(self, options: Mapping[str, Any]) -> Change:
        """Return this change with ``options`` replacing its own options of the same names, if it has any."""
        return self

    @property
    def adds(self) -> bool:
        """True if it replaces nothing: it gives a value to an empty slot, or changes imports."""
        return False

    @property
    def may_be_absent(self) -> bool:
        """True if it can be applied where the owner of its target lacks the name: it adds the name or does nothing."""
        return False

    def find_slot(self, target: Target, module: Any) -> Slot:
        """Return the slot of ``target`` (this change's target, with its module) in ``module``.

        Raises:
            TargetNotFound, TargetError: see :func:`patchcore.declare.slots.find_slot`.
        """
        from patchcore.declare.slots import find_seen, find_slot

        if self.only_in is not None:
            return find_seen(target, module)
        return find_slot(target, module, may_be_absent=self.may_be_absent)

    def counted(self) -> Change:
        """Return a copy of this change that counts the calls of its target; itself, if the kind cannot count."""
        return self

    def phrase(self, target: Target) -> str:
        """Return this edit as words: its kind and ``target``, which is its own target with its module."""
        return f"{self.kind} {target}"

    def subject(self, target: Target) -> str:
        """Return the changed thing as a report names it; ``target`` is its own target with its module."""
        return str(target)

    def __str__(self) -> str:
        return self.phrase(self.target)


class SlotChange(Change):
    """A change of one slot.

    Examples:
        A change of a slot, which needs no writer:

        >>> import string
        >>> import patchcore as pc
        >>> from patchcore.plugin import SlotChange
        >>> class Reverse(SlotChange):
        ...     source = None
        ...
        ...     def build(self, below, slot):
        ...         return below[::-1]
        >>> reverse = Reverse(target=pc.Target.parse("string:digits"))
        >>> with pc.Patcher([pc.Patch("demo.digits", changes=reverse)]):
        ...     string.digits
        '9876543210'
    """

    #: Counts the calls of the target through this change; ``None`` unless the user set ``count``.
    counter: Optional[Counter] = None
    #: ``any`` if the new object need not accept every call of the target.
    signatures = "fit"
    #: True if it must write the body of the function, and fails if the target has no body.
    everywhere: bool = False
    #: True if names of other modules follow that are equal to the target's and hold the same object.
    same_name: bool = False
    #: Called with the present value of the slot, returns the product; ``None`` if the change has a replacement. A
    #: target names a callable that is imported when the patch is applied.
    factory: Union[Target, Callable[[Any], Any], None] = None

    @property
    def writes_bodies(self) -> bool:
        """True when it writes the body of a Python function, and its name only where it cannot.

        :meth:`build` is then called with a :class:`~patchcore.declare.slots.BodySlot`, too.
        """
        return False

    @property
    def calls(self) -> Sequence[Any]:
        """The callables of the author that run when the target is called; a target stays unresolved."""
        return (self.source,)

    def build(self, below: Any, slot: Slot) -> Any:
        """Return the raw value to put in ``slot`` where a lookup finds ``below`` now, or a :class:`Skip`.

        May import the replacement, and may be called again when the layers below change. ``NotImplemented``: it has
        no body for a :class:`~patchcore.declare.slots.BodySlot`, and writes the name.
        """
        raise NotImplementedError

    def count(self, raw: Any, slot: Slot) -> Any:
        """Return ``raw``, the value for ``slot``, with its calls counted if :attr:`counter` is set."""
        if self.counter is None:
            return raw
        from patchcore.objects import binding

        return binding.count(raw, self.counter, name=slot.name, in_class=slot.in_class)

    def callee(self, product: Any) -> Optional[tuple[Any, int]]:
        """Return the callable that gets every call of the target, and how many arguments precede those of the call.

        ``None`` if it is unknown, or differs from call to call.
        """
        return None

    def companions(self, module: Any) -> Sequence[tuple[Slot, Callable[[Any, Slot], Any]]]:
        """Return further slots of ``module`` to write, each with a function from its present value to the new one."""
        return ()


class Replace(SlotChange):
    """Put an object in the place of the target's.

    Args:
        target: the place of the object, ``package.module:Class.attribute``.
        replacement: the new object, or a target text that is imported when the patch is applied. A text that is itself
            the value is given as ``Literal(text)``. If the target is a static method, a class method or a property, a
            function becomes one too.
        factory: instead of ``replacement``: called with the present object, returns the new one (a subclass of it,
            for example). Or a target text of such a function, which is imported when the patch is applied.
        when_call: predicate over the arguments of each call that chooses between replacement (true) and original. Only
            the predicate decides; an exception of the replacement reaches the caller.
        create: ``True`` adds the attribute where it is missing, and leaves it alone where it exists. ``"always"`` adds
            it where it is missing, and replaces it where it exists.
        aliases: further targets that get the same replacement. Rarely needed: by-value references are found.
        same_name: also put it under the same name in every loaded module whose name holds the same object. For a target
            that is itself only a name of something else, ``NORM = Norm``: names of a function or class at its home are
            found anyway, under any name.
        everywhere: write the body of the function instead of the names that hold it. Code that keeps the function in a
            closure, a default argument or a container then calls the replacement too. Not for a replacement that calls
            the original by a name of its own: that is a ``Wrap``.
        only_in: the module of a target like ``timm.layers.attention:F.relu``, where ``F`` is another module: only that
            module finds the replacement there, and everybody else the original.

    Raises:
        DeclarationError: an argument is malformed.

    Examples:
        >>> import statistics
        >>> import patchcore as pc
        >>> patch = pc.Patch("demo.mean", changes=pc.Replace("statistics:mean", min))
        >>> with pc.Patcher([patch]):
        ...     statistics.mean([1, 3])
        1
        >>> statistics.mean([1, 3])
        2
    """

    replacement: Any
    factory: Union[Target, Callable[[Any], Any], None]
    when_call: Optional[Callable[..., Any]]
    create: Union[bool, str]
    aliases: tuple[Target, ...]
    same_name: bool
    everywhere: bool

    def __init__(
        self,
        target: Union[str, Target],
        replacement: Any = ABSENT,
        *,
        factory: Union[str, Callable[[Any], Any], None] = None,
        when_call: Optional[Callable[..., Any]] = None,
        create: Union[bool, str] = False,
        aliases: Sequence[Union[str, Target]] = (),
        same_name: bool = False,
        everywhere: bool = False,
        only_in: Optional[str] = None,
    ) -> None:
        if (replacement is ABSENT) == (factory is None):
            raise DeclarationError(f"Replace({str(target)!r}): give either a replacement or factory=")
        where = f"Replace({str(target)!r})"
        check_callables(where, when_call=when_call)
        if isinstance(create, str) and create != ALWAYS:
            raise DeclarationError(f"{where}: create must be True, False or {ALWAYS!r}, got {create!r}")
        for name, value in (("factory", factory), ("when_call", when_call), ("everywhere", everywhere or None)):
            if create and value is not None:
                raise DeclarationError(
                    f"{where}: {name}= needs an original, but create={create!r} means that there may be none"
                )
        if only_in is not None and (create or aliases or same_name or everywhere):
            raise DeclarationError(f"{where}: only_in= excludes create=, aliases=, same_name= and everywhere=")
        super().__init__(
            target=_as_target(target),
            only_in=_as_only_in(only_in, target, where),
            replacement=as_reference(replacement, where),
            factory=None if factory is None else as_callable(factory, "factory", where),
            when_call=when_call,
            create=create if create == ALWAYS else bool(create),
            aliases=tuple(_as_target(alias) for alias in as_tuple(aliases, "aliases", where)),
            same_name=bool(same_name),
            everywhere=bool(everywhere),
        )

    @property
    def source(self) -> Any:
        return self.replacement if self.factory is None else self.factory

    @property
    def makes_product(self) -> bool:
        counts = self.counter is not None and self.counter.in_use
        return self.when_call is not None or self.factory is not None or counts

    @property
    def writes_bodies(self) -> bool:
        makes = self.when_call is not None or self.factory is not None
        return self.everywhere or (makes and self.only_in is None)

    @property
    def covers(self) -> bool:
        return self.create in (False, ALWAYS) and self.when_call is None and self.factory is None

    @property
    def calls(self) -> Sequence[Any]:
        return (self.source,) if self.when_call is None else (self.source, self.when_call)

    @property
    def replaces(self) -> bool:
        return self.factory is None

    @property
    def predicate(self) -> Optional[Callable[..., Any]]:
        return self.when_call

    @property
    def runs(self) -> Sequence[Any]:
        return (self.replacement,) if self.factory is None else (self.target,)

    def counted(self) -> Change:
        from patchcore.objects.counting import Counter  # for those who count

        return self.evolve(counter=Counter(branches=self.when_call is not None))

    @property
    def adds(self) -> bool:
        return self.create is True

    def expand(self) -> tuple[Change, ...]:
        if not self.aliases:
            return (self,)
        return tuple(self.evolve(target=target, aliases=()) for target in (self.target, *self.aliases))

    def callee(self, product: Any) -> Optional[tuple[Any, int]]:
        if self.when_call is not None:
            return None
        if self.everywhere:
            return resolve(self.replacement), 0
        if self.counter is not None and self.counter.in_use:  # the counter accepts any call
            from patchcore.objects import binding

            return binding.wrapped_callable(product).__wrapped__, 0
        return product, 0

    @property
    def may_be_absent(self) -> bool:
        return bool(self.create)

    def build(self, below: Any, slot: Slot) -> Any:
        from patchcore.declare.slots import BodySlot
        from patchcore.objects import binding

        if isinstance(slot, BodySlot):
            return self._build_body(below, slot)
        in_class = slot.in_class
        if self.create is True and (below is not ABSENT or slot.is_promised):
            return Skip(f"{slot.name} already exists")
        if self.when_call is not None or self.factory is not None:
            _refuse_without_original(below, slot)
        elif not in_class:  # the replacement stands there as it is
            return self.count(resolve(self.replacement), slot)
        below = slot.as_own(below)
        if self.factory is not None:
            make = resolve(self.factory)
            with CONTAINED:
                value = make(binding.held_value(below))
        else:
            value = resolve(self.replacement, raw=in_class)
        if below is ABSENT and in_class and slot.key == "__class_getitem__" and type(value) is FunctionType:
            value = classmethod(value)  # as Python makes one of it in the body of a class
        if self.when_call is not None:
            return binding.make_dispatcher(below, value, self.when_call, in_class=in_class, counter=self.counter)
        value = binding.named(value, slot.owner, slot.key, mine=type(self.replacement) is not Target)
        return self.count(binding.bind_like(below, value, in_class=in_class), slot)

    def _build_body(self, below: FunctionType, slot: BodySlot) -> Any:
        from patchcore.objects import binding

        body, in_class = slot.body, slot.in_class
        if self.factory is not None:
            make = resolve(self.factory)
            with CONTAINED:
                value = make(below)
            if type(value) is not FunctionType:
                return NotImplemented
        else:
            value = resolve(self.replacement, raw=in_class)
            if binding.wrapped_callable(value) is body.function:  # which would call itself
                value = body.original
        if self.when_call is not None:
            return binding.dispatched_body(
                slot.raw, below, value, self.when_call, body, in_class=in_class, counter=self.counter
            )
        return binding.passing_body(slot.raw, below, value, body, in_class=in_class, counter=self.counter)


class Wrap(SlotChange):
    """Call ``wrapper(original, *args, **kwargs)`` in the place of the target.

    Args:
        target: a function, method, static or class method, or property (its getter is wrapped).
        wrapper: the callable, or a target text that is imported when the patch is applied. The original comes first,
            then the arguments of the call with ``self`` / ``cls``.
        only_in: see :class:`Replace`.

    Raises:
        DeclarationError: an argument is malformed.

    Examples:
        >>> import statistics
        >>> import patchcore as pc
        >>> def rounded(original, data):
        ...     return round(original(data))
        >>> patch = pc.Patch("demo.mean", changes=pc.Wrap("statistics:mean", rounded))
        >>> with pc.Patcher([patch]):
        ...     statistics.mean([1.0, 3.2])
        2
    """

    wrapper: Any

    makes_product = True

    def __init__(
        self,
        target: Union[str, Target],
        wrapper: Union[str, Callable[..., Any]],
        *,
        only_in: Optional[str] = None,
    ) -> None:
        where = f"Wrap({str(target)!r})"
        super().__init__(
            target=_as_target(target),
            only_in=_as_only_in(only_in, target, where),
            wrapper=as_callable(wrapper, "wrapper", where),
        )

    @property
    def writes_bodies(self) -> bool:
        return self.only_in is None

    @property
    def source(self) -> Any:
        return self.wrapper

    @property
    def runs(self) -> Sequence[Any]:
        return (self.wrapper,)

    def counted(self) -> Change:
        from patchcore.objects.counting import Counter  # for those who count

        return self.evolve(counter=Counter())

    def callee(self, product: Any) -> Optional[tuple[Any, int]]:
        return resolve(self.wrapper), 1

    def build(self, below: Any, slot: Slot) -> Any:
        from patchcore.declare.slots import BodySlot
        from patchcore.objects import binding

        wrapper = resolve(self.wrapper)
        if isinstance(slot, BodySlot):
            return binding.wrapped_body(below, wrapper, slot.body, self.counter)
        _refuse_without_original(below, slot)
        return binding.wrap_raw(slot.as_own(below), wrapper, in_class=slot.in_class, counter=self.counter)


class Register(SlotChange):
    """Enter a class or function in a registry of a library; undone like any slot.

    Args:
        registry: target of the registry object, ``mmengine.registry:MODELS``.
        cls: the class or function, or a target text that is imported when the patch is applied.
        name: the name it is registered under; default its own name.
        force: replace an entry of that name; ``False`` makes an existing entry an error.

    Raises:
        DeclarationError: an argument is malformed.

    Examples:
        >>> import patchcore as pc
        >>> class Till:
        ...     "A model of a shop."
        >>> pc.Register("shop.registry:MODELS", Till).kind
        'register'
    """

    registry: Target
    cls: Any
    force: bool

    may_be_absent = True
    covers = True
    enters_registry = True

    def __init__(
        self, registry: Union[str, Target], cls: Any, *, name: Optional[str] = None, force: bool = True
    ) -> None:
        where = f"Register({str(registry)!r})"
        cls = as_reference(cls, where)
        own_name: Any = cls.path[-1] if isinstance(cls, Target) else getattr(cls, "__name__", None)
        name = own_name if name is None else name
        if not isinstance(name, str):
            raise DeclarationError(f"{where}: {cls!r} has no __name__; pass name='...'")
        table = _as_target(registry)
        target = Target(table.module, (*table.path, Item(name)))
        super().__init__(target=target, registry=table, cls=cls, force=force)

    @property
    def source(self) -> Any:
        return self.cls

    @property
    def runs(self) -> Sequence[Any]:
        return (self.cls,)

    def build(self, below: Any, slot: Slot) -> Any:
        if below is not ABSENT and not self.force:
            raise DeclarationError(
                f"{self.registry} already has {slot.key!r} ({below!r}); pass force=True to replace it"
            )
        return resolve(self.cls)


def as_changes(changes: Any, where: str) -> tuple[Change, ...]:
    """Return declared changes, one or a list, as a flat tuple; a change that is short for several is expanded.

    Raises:
        DeclarationError: an item is not a change.
    """
    found: Iterable[Any] = (changes,) if isinstance(changes, Change) else as_tuple(changes, "changes", where)
    expanded: list[Change] = []
    for change in found:
        if not isinstance(change, Change):
            raise DeclarationError(
                f"{where}: {change!r} is not a change; expected Replace, Wrap, Register, Call or a change of imports"
            )
        expanded.extend(change.expand())
    return tuple(expanded)


_NOTHING: Mapping[str, bool] = {}


def needed_libraries(changes: Sequence[Change], provided: Mapping[str, bool] = _NOTHING) -> tuple[str, ...]:
    """Return the top-level packages without which some of ``changes``, of one patch, have nothing to change.

    Args:
        changes: a library that one of them makes importable is there for all.
        provided: libraries that other patches make importable, and whether they have content or are stubs.
    """
    own = {name for change in changes for name in change.provides}
    needed = [(root, change) for change in changes for root in change.libraries if root not in own]
    return tuple(
        dict.fromkeys(
            [root for root, change in needed if not (root in provided and (provided[root] or change.fits_stubs))]
        )
    )


def resolve(reference: Any, *, raw: bool = False) -> Any:
    """Return the object a change refers to: import a :class:`Target`, open a :class:`Literal`, pass anything else.

    Args:
        reference: the declared value.
        raw: return a static or class method of a class unbound, so that the slot it is written to gets its form.

    Raises:
        TargetNotFound: the attribute does not exist; the message has the nearest name that does.
        Exception: the import of the module failed with it.

    Examples:
        >>> from patchcore import Target
        >>> from patchcore.plugin import resolve
        >>> resolve(Target.parse("math:sqrt"))(9)
        3.0
    """
    if type(reference) is Literal:
        return reference.value
    if type(reference) is not Target:
        return reference
    target = reference.pin()
    if raw and target.path and isinstance(target.path[-1], str):
        from patchcore.declare.slots import ClassSlot

        owner = object_at(Target(target.module, target.path[:-1]))
        found = ClassSlot(owner, target.path[-1], str(target)).lookup() if is_class(owner) else ABSENT
        if found is not ABSENT:
            return found
    return object_at(target)


def _refuse_without_original(below: Any, slot: Slot) -> None:
    from patchcore.declare.slots import NamespaceSlot

    if below is ABSENT:
        raise TargetError(f"{slot.name} is loaded lazily and has no original yet; target the module that defines it")
    kind, klass = type(below), type(slot.owner)
    if not isinstance(slot, NamespaceSlot) or callable(below) or not hasattr(kind, "__get__"):
        return
    if below is slot.inherited() and below is not slot.read() and below is slot.as_own(below):
        raise TargetError(
            f"{slot.name} is computed by {kind.__name__} {klass.__qualname__}.{slot.key}; "
            f"target '{klass.__module__}:{klass.__qualname__}.{slot.key}' instead"
        )


def _as_target(target: Union[str, Target]) -> Target:
    return target if isinstance(target, Target) else Target.parse(target)


def _as_only_in(module: Optional[str], target: Union[str, Target], where: str) -> Optional[str]:
    if module is not None and module != _as_target(target).module:
        raise DeclarationError(f"{where}: only_in must be the module of the target, 'module:F.name', got {module!r}")
    return module


def as_reference(value: Any, where: str) -> Any:
    """Return a declared value with a text read as the target of the value.

    Raises:
        DeclarationError: the text is not a target.
    """
    if not issubclass(type(value), str):  # isinstance would run code of a proxy
        return value
    if ":" not in value:
        raise DeclarationError(
            f"{where}: the string {value!r} is read as a target, but has no ':'; write 'package.module:attribute' for "
            f"the object at that target, or Literal({value!r}) for the string itself"
        )
    return Target.parse(value)


def as_callable(value: Any, what: str, where: str) -> Any:
    """Return a declared callable with a text read as the target of one.

    Raises:
        DeclarationError: it is neither.
    """
    if not issubclass(type(value), (str, Target)) and not callable(value):
        raise DeclarationError(f"{where}: {what} must be a callable or the target of one, got {value!r}")
    return as_reference(value, where)
