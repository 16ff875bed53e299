"""Stubs: modules that can be imported although their library is not installed, and the names in them.

Each attribute of a stub module is a class, created at the first access, so that code which only mentions it at import
time works as with the library: it can be a base class, follow ``except``, be passed to ``isinstance``, stand in
annotations, be subscripted, pickled and copied, and decorate. A use that needs the library itself raises a
:class:`~patchcore.errors.StubError` with the stub, the patch that made it and the line that imported it.

Names with two leading underscores are never created, apart from an empty ``__all__`` of modules: ``copy``, ``pickle``,
``inspect``, ``doctest`` and walks over ``sys.modules`` look for these names to learn the abilities of an object.
"""

from __future__ import annotations

import abc
import sys
from collections.abc import Iterator, Mapping
from types import FrameType, FunctionType, ModuleType
from typing import Any, Optional

from patchcore.errors import StubError

__all__ = ["StubModule", "StubOrigin"]

#: The name in the namespace of a stub that holds its :class:`_Stub`.
_KEY = "__patchcore_stub__"

#: ``co_flags`` of the code of functions, lambdas and comprehensions; the bodies of modules and classes have it not.
_CO_OPTIMIZED = 0x1

#: How many importers of one name are remembered, for messages.
_MOST_PLACES = 16


class StubOrigin:
    """Where stubs come from, shared by all that one change has made.

    Args:
        name: the stubbed module, as declared.
        maker: the patch and who contributes it, for messages.
    """

    def __init__(self, name: str, maker: str) -> None:
        self.name = name
        self.maker = maker
        self.reverted = False


class _Stub:
    """The facts about one stub.

    Args:
        origin: of the change that made it.
        module: the name of the stub module that it is, or is part of.
        path: of the stub in that module, ``Class.method``; empty for the module itself.
        outer: the stub whose attribute it is, ``None`` for a module.
    """

    def __init__(self, origin: StubOrigin, module: str, path: str = "", outer: Optional[_Stub] = None) -> None:
        self.origin = origin
        self.module = module
        self.path = path
        self.outer = outer
        self.members: dict[str, Any] = {}
        self.places: dict[str, int] = {}  # file -> line that imported it

    def member(self, name: str, *, subscript: str = "") -> Any:
        """Return the stub ``name`` of this one, the same each time."""
        key = name + subscript
        if key not in self.members:
            path = f"{self.path}.{name}" if self.path and name else self.path or name
            inner = _Stub(self.origin, self.module, path + subscript, self)
            self.members.setdefault(key, _make_class(inner, name or path))
        return self.members[key]

    def descendants(self) -> list[Any]:
        """Return every stub that has been got from this one."""
        members = list(self.members.values())
        return [found for member in members for found in (member, *vars(member)[_KEY].descendants())]

    def note(self, frame: Optional[FrameType]) -> None:
        """Remember the line that ``frame`` is in as one that imports the stub."""
        importer = _outside_of_import_system(frame)
        if importer is not None and len(self.places) < _MOST_PLACES:
            self.places.setdefault(importer.f_code.co_filename, importer.f_lineno)

    def place(self, user: Optional[FrameType]) -> str:
        """Return the line that imported the stub, ``file:line``: in the file of ``user``, else the first one."""
        file = user.f_code.co_filename if user is not None else ""
        level: Optional[_Stub] = self
        first = ""
        while level is not None:
            if file in level.places:
                return f"{file}:{level.places[file]}"
            first = first or next((f"{f}:{line}" for f, line in level.places.items()), "")
            level = level.outer
        return first

    def error(self, what: str, user: Optional[FrameType]) -> StubError:
        """Return the error for a use of the stub in frame ``user``; the use is a word like ``called``."""
        name = f"{self.module}.{self.path}" if self.path else self.module
        place = self.place(_outside_of_import_system(user))
        library = self.origin.name
        text = (
            f"{name} was {what}, but is a stub: {library} is not installed here, and {self.origin.maker} only lets it "
            f"be imported{f' (imported at {place})' if place else ''}"
        )
        if self.origin.reverted:
            text += f". The patch has been reverted since, and this name kept the stub; import {library} again"
        else:
            text += f"; install {library}, or patch the code that uses it"
        return StubError(text)


class StubModule(ModuleType):
    """A module that creates every attribute at the first access.

    Args:
        name: of the module.
        origin: of the change that makes it.
        attributes: names that have a value of their own, ``__version__`` among them.

    Examples:
        >>> import patchcore as pc
        >>> from patchcore.plugin import StubModule
        >>> with pc.Patcher([pc.Patch("demo.stub", changes=pc.StubImport("fast_attention"))]):
        ...     import fast_attention
        ...     isinstance(fast_attention, StubModule)
        True
    """

    def __init__(self, name: str, origin: StubOrigin, attributes: Mapping[str, Any]) -> None:
        super().__init__(name, f"Stub of {name}, made by {origin.maker}.")
        stub = _Stub(origin, name)
        stub.note(sys._getframe(1))
        self.__dict__.update({_KEY: stub, "__all__": [], **attributes})

    def __getattr__(self, name: str) -> Any:
        stub = self.__dict__.get(_KEY)
        if stub is None or name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r}, a stub, has no attribute {name!r}")
        found = stub.member(name)
        frame = sys._getframe(1)
        if _imports_a_name(frame):
            vars(found)[_KEY].note(frame)
        return found

    # A module that code walks over, measures or searches is empty; the names in it, which code uses, refuse that.

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __contains__(self, item: object) -> bool:
        return False

    def __bool__(self) -> bool:
        return True  # in spite of its length: a module is

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise vars(self)[_KEY].error("called", sys._getframe(1))

    def known(self) -> list[Any]:
        """Return this module and every stub that has been got from it."""
        stub: _Stub = self.__dict__[_KEY]
        return [self, *stub.descendants()]

    def __repr__(self) -> str:
        return f"<stub module {self.__name__!r}>"


class _StubMeta(abc.ABCMeta):
    """The class of stubs, and of the classes derived from them.

    A class may have a stub and something else as bases: ``ABCMeta`` is the one metaclass that is common among those.
    """

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        stub = _own(cls)
        if stub is None:
            return super().__call__(*args, **kwargs)
        frame = sys._getframe(1)
        if not _is_import_time(frame) or any(map(_is_data, (*args, *kwargs.values()))):
            raise stub.error("called", frame)
        if len(args) == 1 and not kwargs:
            (decorated,) = args
            if isinstance(decorated, (FunctionType, staticmethod, classmethod)):
                return _decorated(stub, getattr(decorated, "__func__", decorated))
            if isinstance(decorated, type) and (_own(decorated) is None or "__wrapped__" in vars(decorated)):
                return decorated  # a class, which can do without a registration for example; or decorated already
        return stub.member("", subscript="(...)")

    def __getattr__(cls, name: str) -> Any:
        stub = _own(cls)
        if stub is None or name.startswith("_"):
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        return stub.member(name)

    def __getitem__(cls, item: Any) -> Any:
        stub = _own(cls)
        if stub is not None:
            return stub.member("", subscript="[...]")
        own = getattr(cls, "__class_getitem__", None)
        if own is None:
            raise TypeError(f"type {cls.__name__!r} is not subscriptable")
        return own(item)

    @property
    def register(cls) -> Any:
        """Return the stub's member ``register``, in place of the method of ``ABCMeta``."""
        stub = _own(cls)
        return stub.member("register") if stub is not None else super().register

    def __bool__(cls) -> bool:
        return True

    def __repr__(cls) -> str:
        stub = _own(cls)
        return super().__repr__() if stub is None else f"<stub {stub.module}.{stub.path}>"


def _refuse(what: str) -> Any:
    def refuse(cls: Any, *args: Any) -> Any:
        raise _nearest(cls).error(what, sys._getframe(1))

    return refuse


_OPERATIONS = {
    "iterated over": ("__iter__", "__reversed__"),
    "searched": ("__contains__",),
    "measured": ("__len__",),
    "entered": ("__enter__", "__aenter__"),
    "left": ("__exit__", "__aexit__"),
    "awaited": ("__await__",),
    "converted to a number": ("__int__", "__float__", "__complex__"),
    "compared": ("__lt__", "__le__", "__gt__", "__ge__"),
    "calculated with": tuple(
        f"__{prefix}{name}__"
        for name in ("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow", "and", "lshift", "rshift")
        for prefix in ("", "r")
    )
    + ("__neg__", "__pos__", "__abs__", "__invert__"),
}
for _what, _names in _OPERATIONS.items():
    for _name in _names:
        setattr(_StubMeta, _name, _refuse(_what))


def _refuse_instance(self: Any, *args: Any, **kwargs: Any) -> None:
    """Refuse to create an instance of a class derived from a stub: it has nothing of its base. Used as ``__init__``."""
    raise _nearest(type(self)).error("instantiated through a class derived from it", sys._getframe(1))


def _make_class(stub: _Stub, name: str, **namespace: Any) -> Any:
    """Return the class for a stub; an exception, so that it can follow ``except``."""
    names = {
        "__module__": stub.module,
        "__qualname__": stub.path,
        "__doc__": f"Stub of {stub.module}.{stub.path}, made by {stub.origin.maker}.",
        "__init__": _refuse_instance,
        _KEY: stub,
    }
    return _StubMeta(name, (Exception,), {**names, **namespace})


def _decorated(decorator: _Stub, function: Any) -> Any:
    """Return a stub for a function that another stub decorates: without the decorator it would behave differently."""
    name = function.__qualname__
    inner = _Stub(decorator.origin, function.__module__, f"{name} (decorated with {decorator.path})", decorator)
    about = {"__wrapped__": function, "__doc__": function.__doc__, "__qualname__": name}
    made = decorator.members[f"@{function.__module__}.{name}"] = _make_class(inner, function.__name__, **about)
    return made


def _own(cls: type) -> Optional[_Stub]:
    """Return the facts about ``cls`` if it is a stub itself; ``None`` for a class derived from one."""
    return type.__dict__["__dict__"].__get__(cls).get(_KEY)  # type: ignore[no-any-return]


def _nearest(cls: type) -> _Stub:
    return next(stub for stub in map(_own, cls.__mro__) if stub is not None)


def _is_data(value: Any) -> bool:
    """Return whether ``value`` is something to calculate with: an array or a tensor."""
    kind = type(value)
    return hasattr(kind, "__array__") or hasattr(kind, "__dlpack__")


def _is_import_time(frame: Optional[FrameType]) -> bool:
    """Return whether the code that ``frame`` runs belongs to the body of a module or class.

    That is the body itself, with its comprehensions and lambdas, or a function that a module calls, directly or through
    others of its own package, while it is being imported: ``@triton.autotune(configs=get_configs(), key=["M"])``. The
    functions of a script are never that.
    """
    if frame is None:
        return False
    root = _package_of(frame)
    direct = True
    while frame is not None and _package_of(frame) == root:
        if not frame.f_code.co_flags & _CO_OPTIMIZED:
            spec = frame.f_globals.get("__spec__")
            return direct or bool(getattr(spec, "_initializing", False))
        direct = direct and frame.f_code.co_name.startswith("<")  # <listcomp>, <genexpr>, <lambda>
        frame = frame.f_back
    return False


def _package_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _imports_a_name(frame: FrameType) -> bool:
    """Return whether ``frame`` is at an import statement, or in the import system on behalf of one."""
    if _is_import_system(frame):
        return True
    from opcode import opmap  # for those who have a stub only

    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]


def _outside_of_import_system(frame: Optional[FrameType]) -> Optional[FrameType]:
    while frame is not None and _is_import_system(frame):
        frame = frame.f_back
    return frame


def _is_import_system(frame: FrameType) -> bool:
    # patchcore's own frames around an import are shown under importlib's name, see patchcore.engine.importing
    file, module = frame.f_code.co_filename, str(frame.f_globals.get("__name__", ""))
    return file.startswith("<frozen importlib") or module.partition(".")[0] in ("importlib", "patchcore")
