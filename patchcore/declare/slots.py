"""Slots: the exact places where targets live.

A :class:`Slot` is a place in this process, an owner and a key, that can be read, written and put back. Slots are read
as :func:`inspect.getattr_static` reads: a ``staticmethod`` comes back as the ``staticmethod`` object, an inherited
attribute is *absent* in the subclass, and neither ``__getattr__`` nor a descriptor runs.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, MutableMapping
from types import MemberDescriptorType, ModuleType, WrapperDescriptorType
from typing import Any, Callable

from patchcore.declare.registries import find_table
from patchcore.declare.target import Item, Step, Target
from patchcore.errors import TargetError, TargetNotFound, did_you_mean
from patchcore.objects.bodies import Body
from patchcore.objects.descriptors import LIKE_FUNCTIONS, UNBOUND, call_of, of_object
from patchcore.objects.extensions import in_use
from patchcore.objects.lazy import has_getattr, lazy_import
from patchcore.objects.modules import (
    ABSENT,
    class_namespace,
    find_module,
    is_class,
    is_immutable,
    mro,
    mro_lookup,
    namespace_of,
    passes_for,
)
from patchcore.objects.special_methods import constructor_problem, is_special, remark, special_method

__all__ = [
    "BodySlot",
    "ClassSlot",
    "EntrySlot",
    "ItemSlot",
    "MemberSlot",
    "NamespaceSlot",
    "SeenSlot",
    "Slot",
    "find_seen",
    "find_slot",
    "same_value",
    "slot_of",
]


class Slot:
    """A place that holds a raw value: ``key`` in the namespace of ``owner``.

    Each subclass reads and writes one kind of owner. ``name`` is the text that messages show, ``package.module:path``.

    Examples:
        >>> import statistics
        >>> from patchcore import Target
        >>> from patchcore.plugin import find_slot
        >>> slot = find_slot(Target.parse("statistics:mean"), statistics)
        >>> slot.read() is statistics.mean, slot.name
        (True, 'statistics:mean')
    """

    __slots__ = ("identity", "key", "name", "owner")
    space = "attribute"
    #: True if the owner is a class: attribute access through an instance binds a function that the slot holds.
    in_class: bool = False

    def __init__(self, owner: Any, key: Any, name: str) -> None:
        self.owner = owner
        self.key = key
        self.name = name
        #: Equal for two slots exactly when they are the same place; valid while the owner lives.
        self.identity: tuple[int, str, Any] = (id(owner), self.space, key)

    @property
    def is_promised(self) -> bool:
        """True if the owner provides this key lazily: it may hold no value yet, and gets one at the first access."""
        return False

    def read(self) -> Any:
        """Return the raw value the owner itself holds, or ``ABSENT``."""
        raise NotImplementedError

    def inherited(self) -> Any:
        """Return the raw value that a lookup finds if the owner itself holds none, or ``ABSENT``."""
        return ABSENT

    def lookup(self) -> Any:
        """Return the raw value a lookup finds: the owner's own or the inherited one, or ``ABSENT``."""
        own = self.read()
        return self.inherited() if own is ABSENT else own

    def as_own(self, raw: Any) -> Any:
        """Bind ``raw``, an inherited value, so that storing it on the owner keeps the behaviour of the owner."""
        return raw

    def form(self, value: Any) -> Any:
        """Return the raw value to store on the owner so that :meth:`read` returns ``value``."""
        return value

    def remark(self) -> str:
        """Return a side effect that a write has on C code, as text for a report; empty if it has none."""
        return ""

    def write(self, raw: Any) -> None:
        """Put ``raw`` in the slot; ``ABSENT`` removes the owner's own value."""
        raise NotImplementedError

    def names(self) -> Iterable[str]:
        """Return the keys next to this one; for messages."""
        return ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class BodySlot(Slot):
    """The body of a Python function; the slot that holds the function is not written.

    The value of this slot is a function: a write makes the slot's function behave as that one. To restore the original
    behaviour later, the engine keeps a copy of the function.

    Args:
        place: the slot that holds the function.
        raw: the value of ``place``: the function, or a static or class method or property around it.
        body: the body of the function.
    """

    __slots__ = ("body", "place", "raw")
    space = "body"

    def __init__(self, place: Slot, raw: Any, body: Body) -> None:
        super().__init__(body.function, place.key, place.name)
        self.identity = (id(body.function), self.space, "")
        self.place = place
        self.raw = raw
        self.body = body

    @property
    def in_class(self) -> bool:  # type: ignore[override]
        return self.place.in_class

    def read(self) -> Any:
        return self.body.read()

    def write(self, raw: Any) -> None:
        self.body.write(raw, in_class=self.in_class)


class NamespaceSlot(Slot):
    """An entry of the ``__dict__`` of a module or an instance.

    Examples:
        >>> import string
        >>> from patchcore.plugin import NamespaceSlot
        >>> NamespaceSlot(string, "digits", "string:digits").read()
        '0123456789'
    """

    __slots__ = ()

    @property
    def is_promised(self) -> bool:
        # a lazy module (PEP 562, or a class of modules with __getattr__) lists names in __all__ before it loads them
        found = self._namespace()
        if not issubclass(type(self.owner), ModuleType) or self.key not in found.get("__all__", ()):
            return False
        return "__getattr__" in found or mro_lookup(type(self.owner), "__getattr__") is not ABSENT

    def _namespace(self) -> MutableMapping[str, Any]:
        found = namespace_of(self.owner)
        assert found is not None
        return found

    def read(self) -> Any:
        # `__dict__` of a plain module runs no code, and most slots are in one. A class of modules may compute it.
        owner = self.owner
        return (owner.__dict__ if type(owner) is ModuleType else self._namespace()).get(self.key, ABSENT)

    def inherited(self) -> Any:
        return mro_lookup(type(self.owner), self.key)

    def as_own(self, raw: Any) -> Any:
        # Python binds a descriptor that it finds in the class, but not one that it finds in the instance
        kind = type(raw)
        if not hasattr(kind, "__get__") or raw is self.read() or raw is not self.inherited():
            return raw
        if kind in UNBOUND or issubclass(kind, type) or not (callable(raw) or issubclass(kind, _METHODS)):
            return raw
        return raw.__get__(self.owner, type(self.owner))

    def write(self, raw: Any) -> None:
        owner = self.owner
        space = owner.__dict__ if type(owner) is ModuleType else self._namespace()
        if raw is ABSENT:
            space.pop(self.key, None)
        else:
            space[self.key] = raw

    def names(self) -> Iterable[str]:
        found = self._namespace()
        return [*found, *(n for n in found.get("__all__", ()) if isinstance(n, str))]


class SeenSlot(Slot):
    """The object that one module gets for ``F.relu``, where ``F`` is its name for another module.

    The other module stays unchanged.

    Args:
        owner: the module that sees the change.
        alias: its name for the other module.
        key: the name in the other module.
        name: see :class:`Slot`.
    """

    __slots__ = ()

    def __init__(self, owner: ModuleType, alias: str, key: str, name: str) -> None:
        super().__init__(owner, (alias, key), name)

    def read(self) -> Any:
        seen = self.owner.__dict__[self.key[0]]
        return seen.__dict__.get(self.key[1], ABSENT) if type(seen) is _SeenModule else ABSENT

    def inherited(self) -> Any:
        return (namespace_of(self._real) or {}).get(self.key[1], ABSENT)

    def write(self, raw: Any) -> None:
        alias, key = self.key
        seen = self.owner.__dict__[alias]
        values = dict(seen.__dict__) if type(seen) is _SeenModule else {}
        values.pop(key, None)
        if raw is not ABSENT:
            values[key] = raw
        # A new proxy for each write, put in place by one assignment: a thread that calls `F.relu` meanwhile finds all
        # values of the old one or all of the new one.
        real = self._real
        self.owner.__dict__[alias] = _SeenModule(real, values) if values.keys() - {_REAL} else real

    def names(self) -> Iterable[str]:
        return namespace_of(self._real) or ()

    @property
    def _real(self) -> Any:
        seen = self.owner.__dict__[self.key[0]]
        return seen.__dict__[_REAL] if type(seen) is _SeenModule else seen


_REAL = "_patchcore_real"


class _SeenModule(ModuleType):
    """A proxy of a module, put in the namespace of another one: some names have values of their own."""

    def __init__(self, real: ModuleType, values: Mapping[str, Any]) -> None:
        super().__init__("")
        self.__dict__.clear()  # names such as __name__ are then read from the other module too
        self.__dict__.update({_REAL: real, **values})

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__[_REAL], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__dict__[_REAL], name, value)

    def __dir__(self) -> Iterable[str]:
        return dir(self.__dict__[_REAL])

    def __repr__(self) -> str:
        return repr(self.__dict__[_REAL])


class ClassSlot(Slot):
    """An attribute of a class, written past any ``__setattr__`` of its metaclass.

    Examples:
        >>> from patchcore.plugin import ClassSlot
        >>> class Till:
        ...     price = staticmethod(len)
        >>> type(ClassSlot(Till, "price", "shop:Till.price").read())
        <class 'staticmethod'>
    """

    __slots__ = ()
    in_class = True

    def read(self) -> Any:
        return class_namespace(self.owner).get(self.key, ABSENT)

    def inherited(self) -> Any:
        found = mro_lookup(self.owner, self.key, skip_first=True)
        return self._of_metaclass() if found is ABSENT else found

    def as_own(self, raw: Any) -> Any:
        if callable(raw) and vars(object).get(self.key) is raw and raw is self.inherited():
            return of_object(self.owner, self.key)
        # a function of the metaclass is called with the class, one of the class with an instance
        kind = type(raw)
        if not hasattr(kind, "__get__") or issubclass(kind, (type, staticmethod)):
            return raw
        if raw is not self._of_metaclass() or raw is mro_lookup(self.owner, self.key):
            return raw
        if kind in LIKE_FUNCTIONS:
            return classmethod(raw)
        return classmethod(call_of(raw)) if callable(raw) or issubclass(kind, _METHODS) else raw

    def remark(self) -> str:
        return remark(self.owner, self.key) if is_special(self.key) else ""

    def write(self, raw: Any) -> None:
        # CPython computes the C-level slots of a class when a special method is written, and not all of that is undone
        # when the method is deleted: see `type_slots`.
        if not is_special(self.key):
            self._write(raw)
            return
        with special_method(self.owner, self.key):
            self._write(raw)

    def _write(self, raw: Any) -> None:
        if raw is not ABSENT:
            self._of_c("__setattr__")(self.owner, self.key, raw)
        elif self.read() is not ABSENT:
            self._of_c("__delattr__")(self.owner, self.key)

    def names(self) -> Iterable[str]:
        return [name for klass in mro(self.owner) for name in class_namespace(klass)]

    def _of_c(self, name: str) -> Callable[..., None]:
        """The method of the nearest metaclass written in C: ctypes and pybind11 allow no other to write to a class."""
        candidates = (class_namespace(klass).get(name) for klass in mro(type(self.owner)))
        found: Callable[..., None] = next(method for method in candidates if type(method) is WrapperDescriptorType)
        return found

    def _of_metaclass(self) -> Any:
        found = mro_lookup(type(self.owner), self.key)
        # type has __call__, mro and more, which every class finds through its metaclass. They are part of how classes
        # work: a target `Net.mro` means an attribute of Net, not the method of type.
        return ABSENT if found is mro_lookup(type, self.key) else found


class MemberSlot(Slot):
    """An attribute of an instance that its class keeps in ``__slots__``."""

    __slots__ = ("descriptor",)

    def __init__(self, owner: Any, key: str, name: str, descriptor: MemberDescriptorType) -> None:
        super().__init__(owner, key, name)
        self.descriptor = descriptor

    def read(self) -> Any:
        try:
            return self.descriptor.__get__(self.owner, type(self.owner))
        except AttributeError:  # an empty slot: Python has no other way to see that
            return ABSENT

    def write(self, raw: Any) -> None:
        if self.read() is raw:
            return
        if raw is not ABSENT:
            self.descriptor.__set__(self.owner, raw)
        else:
            self.descriptor.__delete__(self.owner)


class ItemSlot(Slot):
    """An item of a mutable mapping.

    Examples:
        >>> from patchcore.plugin import ItemSlot
        >>> prices = {"tea": 3}
        >>> ItemSlot(prices, "tea", "shop:prices['tea']").read()
        3
    """

    __slots__ = ()
    space = "item"

    def read(self) -> Any:
        # of a dict, past a __getitem__ or __missing__ that makes values
        get = dict.get if issubclass(type(self.owner), dict) else type(self.owner).get
        return get(self.owner, self.key, ABSENT)

    def write(self, raw: Any) -> None:
        if self.read() is raw:  # nothing to do, and nothing for a mapping that refuses to be changed to raise
            return
        if raw is not ABSENT:
            self.owner[self.key] = raw
        else:
            del self.owner[self.key]

    def names(self) -> Iterable[str]:
        return [key for key in self.owner if isinstance(key, str)]


class EntrySlot(ItemSlot):
    """An entry of a registry; see :mod:`patchcore.declare.registries`.

    Args:
        owner: the dictionary of entries.
        key: of the entry.
        name: see :class:`Slot`.
        table: the attribute of the registry that holds the dictionary.
    """

    __slots__ = ("table",)

    def __init__(self, owner: Any, key: Any, name: str, table: str = "") -> None:
        super().__init__(owner, key, name)
        self.table = table


def find_slot(target: Target, module: Any, *, may_be_absent: bool = False) -> Slot:
    """Return the slot of ``target`` in ``module``, its executed module object.

    Args:
        target: a target with a module (see :meth:`Target.pin`).
        module: the object ``sys.modules`` holds under ``target.module``.
        may_be_absent: accept a last step that does not exist yet.

    Raises:
        TargetNotFound: a step does not exist; the message has the nearest name that does.
        TargetError: a step exists but cannot be a slot: a data descriptor computes its value, or its owner cannot be
            written.

    Examples:
        >>> import collections
        >>> from patchcore import Target
        >>> from patchcore.plugin import find_slot
        >>> find_slot(Target.parse("collections:Counter.update"), collections).owner
        <class 'collections.Counter'>
    """
    owner, name = module, target.module
    for depth, step in enumerate(target.path):
        name = f"{name}{':' if not depth else '' if isinstance(step, Item) else '.'}{step}"
        slot = slot_of(owner, step, name)
        raw = slot.lookup()
        if depth + 1 == len(target.path) and (raw is not ABSENT or may_be_absent or slot.is_promised):
            return slot
        if raw is ABSENT:
            raise TargetNotFound(_not_found(target, depth, slot))
        owner = raw
    raise AssertionError("a target has at least one step")


def find_seen(target: Target, module: Any) -> SeenSlot:
    """Return the slot for ``only_in``: the value that ``module`` alone gets for a name of another module.

    Args:
        target: ``module:F.name``, where ``F`` is the name of the other module in ``module``.

    Raises:
        TargetNotFound: the other module does not have the name.
        TargetError: ``target`` does not have that form, or ``F`` is not a module.
    """
    alias, *rest = target.path
    seen = (namespace_of(module) or {}).get(alias) if isinstance(alias, str) else None
    if len(rest) != 1 or not isinstance(rest[0], str) or not issubclass(type(seen), ModuleType):
        raise TargetError(f"{target}: only_in= needs a name in a module that {target.module} imports, 'module:F.name'")
    slot = SeenSlot(module, str(alias), rest[0], str(target))
    if slot.lookup() is ABSENT:
        raise TargetNotFound(f"{slot.owner.__name__}:{alias} has no {rest[0]}{did_you_mean(rest[0], slot.names())}")
    return slot


def slot_of(owner: Any, step: Step, name: str) -> Slot:
    """Return the slot ``step`` of ``owner``, existing or not; raise :class:`TargetError` when there cannot be one.

    Examples:
        >>> import string
        >>> from patchcore.plugin import slot_of
        >>> slot_of(string, "digits", "string:digits").read()
        '0123456789'
    """
    if isinstance(step, Item):
        if not passes_for(owner, MutableMapping):
            found_table = find_table(owner, in_use().tables)
            if found_table is not None:
                table, entries = found_table
                return EntrySlot(entries, step.find_key(), name, table)
            found = f"{type(owner).__name__}, which no loaded plugin knows as a registry"
            raise TargetError(f"{name}: expected a mutable mapping before {step}, found {found}")
        return ItemSlot(owner, step.find_key(), name)
    if type(owner) is ModuleType and step not in _OF_MODULES:
        return NamespaceSlot(owner, step, name)
    descriptor = mro_lookup(type(owner), step)
    if is_class(owner):
        if step != "__doc__":  # type has a descriptor for it, and finds it in the class
            _refuse_data_descriptor(descriptor, type(owner), step, name)
        if is_immutable(owner):
            raise TargetError(
                f"{name}: {owner.__qualname__} is a built-in type, and Python does not allow changing its attributes; "
                "replace the names that refer to the type, or patch its callers"
            )
        if step == "__new__":
            why = constructor_problem(owner, name)
            if why:
                raise TargetError(why)
        return ClassSlot(owner, step, name)
    if isinstance(descriptor, MemberDescriptorType) and "__slots__" in class_namespace(descriptor.__objclass__):
        return MemberSlot(owner, step, name, descriptor)
    if descriptor is not ABSENT:
        _refuse_data_descriptor(descriptor, type(owner), step, name)
    if namespace_of(owner) is None:
        raise TargetError(f"{name}: a {type(owner).__name__} object has no attributes of its own to replace")
    return NamespaceSlot(owner, step, name)


def same_value(found: Any, held: Any) -> bool:
    """True if ``found``, the value of a slot now, is the value ``held`` that it had: the same object, or equal texts.

    Some mappings create a new text at every read: ``os.environ`` decodes bytes.
    """
    return found is held or (type(found) is type(held) is str and found == held)


def _not_found(target: Target, depth: int, slot: Slot) -> str:
    owner = str(Target(target.module, target.path[:depth])) if depth else target.module
    step = target.path[depth]
    message = f"{owner} has no {step} (target {target})"
    if slot.is_promised:
        return f"{message} yet: it is loaded lazily; target the module that defines it"
    if not depth and isinstance(step, str) and len(target.path) > 1 and find_module(f"{owner}.{step}"):
        return f"{message}: that is a module; write '{Target(f'{owner}.{step}', target.path[1:])}'"
    near = did_you_mean(str(slot.key), slot.names())
    if not depth and not near and has_getattr(slot.owner):
        home = lazy_import(owner, slot.owner)
        perhaps = f", perhaps '{Target(home, target.path)}'" if home else ""
        return f"{message}; if {owner} provides it lazily (PEP 562), target the module that defines it{perhaps}"
    return message + near


def _refuse_data_descriptor(descriptor: Any, klass: type, step: str, name: str) -> None:
    kind = type(descriptor)
    if not hasattr(kind, "__set__") and not hasattr(kind, "__delete__"):
        return
    where = f"{klass.__qualname__}.{step}"
    message = f"{name} is computed by {kind.__name__} {where}, which takes precedence over a value in the object"
    if is_immutable(klass):
        raise TargetError(f"{message}; replace the object as a whole")
    raise TargetError(f"{message}; target '{klass.__module__}:{klass.__qualname__}.{step}' instead")


#: The attributes that every module inherits from its class.
_OF_MODULES = frozenset(dir(ModuleType))
#: Descriptors that bind a callable; some cannot be called themselves.
_METHODS = (staticmethod, classmethod, functools.partialmethod, functools.singledispatchmethod)
