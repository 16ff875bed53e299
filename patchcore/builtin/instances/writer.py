"""Puts :class:`~patchcore.builtin.instances.change.Instances` in force: looks at each object that a class makes.

The writer wraps the ``__init__`` of the class and of each subclass that has its own, in the journal as any other slot.
The wrapper of the last ``__init__`` of an object calls the predicate: the object is complete then. A subclass that is
made later is wrapped when it is made (``__init_subclass__``).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional
from weakref import ref

from patchcore.builtin.instances.change import Instances
from patchcore.declare.changes import resolve
from patchcore.declare.slots import ClassSlot, Slot, find_slot
from patchcore.engine.context import WriteContext, Writer
from patchcore.errors import CONTAINED, TargetError, TargetNotFound, did_you_mean
from patchcore.objects.binding import wrap_raw
from patchcore.objects.modules import ABSENT, class_namespace, is_class, namespace_of
from patchcore.objects.printable import counted

if TYPE_CHECKING:
    from patchcore.engine.application import Control
    from patchcore.engine.engine import Engine

__all__ = ["InstancesWriter"]


class InstancesWriter(Writer):
    """Puts :class:`~patchcore.builtin.instances.change.Instances` in force."""

    def write(self, context: WriteContext) -> None:
        assert isinstance(context.change, Instances)
        klass = find_slot(context.target, context.module).lookup()
        if not is_class(klass):
            raise TargetError(f"{context.target} is no class, but {type(klass).__name__}; Instances needs a class")
        binding = _Binding(self._engine, context, context.change)
        with context.journal.lock:
            if not context.begin():
                return
            binding.earlier = context.state.control  # of the class before its module was reloaded
            context.state.control = binding
            for each in (klass, *_subclasses(klass)):
                if each is klass or "__init__" in class_namespace(each):
                    binding.watch(each)
            name = f"{_name(klass)}.__init_subclass__"
            context.write(ClassSlot(klass, "__init_subclass__", name), build=binding.wrapped_init_subclass)
        binding.say()


class _Own(NamedTuple):
    """The method that an object has as an attribute of its own.

    Args:
        holder: the object, weakly.
        before: the attribute that it had before; ``ABSENT`` for none.
        bindings: those that have changed it, the first one at the bottom.
        functions: of the bound methods that they have put there. The methods themselves hold the object.
    """

    holder: ref[Any]
    before: Any
    bindings: list[_Binding]
    functions: list[Any]


#: The changed methods, by ``id`` of the object and name. Written while the journal is locked.
_OWN: dict[tuple[int, str], _Own] = {}


class _Binding:
    """One change in force: binds the method of each new object that the predicate chooses.

    Args:
        engine: of the process.
        context: of the change; later slots are written with it, too.
        change: to put in force.
    """

    def __init__(self, engine: Engine, context: WriteContext, change: Instances) -> None:
        self._engine = engine
        self._context = context
        self._change = change
        self._classes: list[type] = []
        self._count = 0
        self._missed: list[str] = []
        self.in_force = True
        self.earlier: Optional[Control] = None

    def watch(self, klass: type) -> None:
        """Look at the objects whose class has its ``__init__`` from ``klass``."""
        if klass not in self._classes:
            self._classes.append(klass)
            self._context.write(ClassSlot(klass, "__init__", f"{_name(klass)}.__init__"), build=self._wrapped_init)

    def say(self) -> None:
        """Write the number of changed objects where reports find it."""
        objects = f"changed {counted(self._count, 'object')} made since"
        missed = [f"the first object of {name} was not looked at: the class was changed later" for name in self._missed]
        self._context.state.reason = "; ".join([objects, *missed])

    def wrapped_init_subclass(self, below: Any, slot: Slot) -> Any:
        """Return ``__init_subclass__`` with a wrapper that watches each new subclass with its own ``__init__``."""

        def init_subclass(original: Any, cls: Any, *args: Any, **kwargs: Any) -> Any:
            made = original(cls, *args, **kwargs)
            if self.in_force and "__init__" in class_namespace(cls):
                self.watch(cls)
            return made

        return wrap_raw(classmethod(_passed_on(slot.owner)) if below is ABSENT else below, init_subclass, in_class=True)

    def _wrapped_init(self, below: Any, slot: Slot) -> Any:
        owner = slot.owner

        def init(original: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
            made = original(self, *args, **kwargs)
            last = _last_init(type(self))
            if last is owner:
                binding.look_at(self)
            elif last not in binding._classes and binding.in_force:
                binding._missed.append(_name(last))
                binding.watch(last)
                binding.say()
            return made

        binding = self
        return wrap_raw(slot.as_own(below), init, in_class=True)

    def look_at(self, made: Any) -> None:
        """Bind the method of an object that was made just now if the predicate chooses it. An error fails the patch."""
        own = _OWN.get((id(made), self._change.method))
        if not self.in_force or (own is not None and self in own.bindings):
            return
        try:
            with CONTAINED:
                chosen = self._change.where is None or self._change.where(made)
            if chosen:
                self._bind(made)
        except Exception as error:
            self._engine.fail(self._context.application, self._context.state, error)

    def _bind(self, made: Any) -> None:
        method, space = self._change.method, namespace_of(made)
        wrapper = resolve(self._change.wrapper)
        key = id(made), method
        try:
            holder = ref(made, lambda _: _OWN.pop(key, None))
        except TypeError:
            holder = None
        if space is None or holder is None:
            raise TargetError(f"objects of {_name(type(made))} have no __dict__, or no weak references: no own methods")
        below = _function_of(made, method, space)
        bound = _bound(below, self._layer(wrapper), made)
        with self._context.journal.lock:
            own = _OWN.setdefault(key, _Own(holder, space.get(method, ABSENT), [], []))
            if not self._context.application.in_force or self in own.bindings:
                return
            own.bindings.append(self)
            own.functions.append(bound.__func__)
            space[method] = bound
            self._count += 1
        self.say()

    def _layer(self, wrapper: Callable[..., Any]) -> Callable[..., Any]:
        """Return the wrapper as it is called for an object: a copy of the object may have it longer than the patch."""

        def layer(original: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
            return wrapper(original, self, *args, **kwargs) if binding.in_force else original(self, *args, **kwargs)

        binding = self
        return layer

    def catch_up(self, name: str, module: Any) -> None:
        """Nothing is left to do: the module is imported already."""

    def withdraw(self) -> list[str]:
        """Give each object its method back; note the objects that hold something else by now."""
        self.in_force = False
        notes = [] if self.earlier is None else self.earlier.withdraw()
        for key, own in list(_OWN.items()):
            if self not in own.bindings:
                continue
            own.bindings.remove(self)
            made = own.holder()
            if own.bindings or made is None:  # the others pass calls on
                continue
            _OWN.pop(key, None)
            space = namespace_of(made) or {}
            if getattr(space.get(key[1]), "__func__", None) not in own.functions:
                notes.append(f"{key[1]} of an object of {_name(type(made))} holds something else by now, and keeps it")
            elif own.before is ABSENT:
                space.pop(key[1], None)
            else:
                space[key[1]] = own.before
        return notes


def _bound(below: Any, layer: Callable[..., Any], made: Any) -> Any:
    return wrap_raw(below, layer, in_class=True).__get__(made, type(made))


def _function_of(made: Any, method: str, space: Any) -> Any:
    """Return the method of an object as a function of the object and the arguments.

    It looks the method up in the class at each call, so that it finds what other patches put there.

    Raises:
        TargetNotFound: there is none.
        TargetError: it is no method.
    """
    kind = type(made)
    found = inspect.getattr_static(kind, method, ABSENT)
    if method in space:
        own = space[method]
        known = getattr(own, "__func__", None)
        if known is not None and getattr(own, "__self__", None) is made:  # of another change, or bound by hand
            return known

        def of_object(self: Any, *args: Any, **kwargs: Any) -> Any:
            return own(*args, **kwargs)

        return of_object
    if found is ABSENT:
        raise TargetNotFound(f"{_name(kind)} has no method {method!r}{did_you_mean(method, dir(kind))}")
    if isinstance(found, (staticmethod, classmethod, property)) or not callable(found):
        raise TargetError(f"{_name(kind)}.{method} is no method, but {type(found).__name__}")

    def of_class(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(type(self), method)(self, *args, **kwargs)

    of_class.__wrapped__ = found  # type: ignore[attr-defined]  # for inspect.signature
    of_class.__name__, of_class.__qualname__, of_class.__doc__ = method, f"{kind.__qualname__}.{method}", found.__doc__
    return of_class


def _passed_on(klass: Any) -> Callable[..., Any]:
    def __init_subclass__(cls: Any, **kwargs: Any) -> None:
        super(klass, cls).__init_subclass__(**kwargs)

    return __init_subclass__


def _last_init(kind: type) -> type:
    """Return the class whose ``__init__`` the objects of ``kind`` have."""
    classes: tuple[type, ...] = type.__dict__["__mro__"].__get__(kind)
    return next(each for each in classes if "__init__" in class_namespace(each))


def _subclasses(klass: type) -> Iterator[type]:
    seen: set[int] = set()
    left = list(type.__subclasses__(klass))
    while left:
        each = left.pop()
        if id(each) not in seen:
            seen.add(id(each))
            left += type.__subclasses__(each)
            yield each


def _name(klass: type) -> str:
    return f"{klass.__module__}:{klass.__qualname__}"
